"""How the car moved between two images, by laying one over the other."""

import numpy as np
from scipy import ndimage

import vision

ROWS, COLS = np.meshgrid(np.arange(1, 82), np.arange(1, 95), indexing="ij")
_car = (ROWS >= 65) & (ROWS <= 79) & (COLS >= 43) & (COLS <= 52)
KEEP = ~_car & ((ROWS + COLS) % 2 == 0)
ROWS, COLS = ROWS[KEEP].astype(float), COLS[KEEP].astype(float)


def contrast(img):
    """One channel in which road, its tiles and the squares in the grass all show."""
    a = img[: vision.LAST_ROW].astype(np.float32)
    grass = np.clip((a[:, :, 1] - a[:, :, 0]) / 60.0, 0, 1)
    red = np.clip((a[:, :, 0] - a[:, :, 1]) / 100.0, 0, 1)
    plain = 60.0 + 1.5 * (a[:, :, 1] - 215.0)
    tiles = np.clip(5.0 * (a[:, :, 0] - 104.0), -40, 40)
    return ndimage.gaussian_filter(grass * plain + (1 - grass) * (1 - red) * tiles + 40 * red, 0.6)


class Odometry:
    """Keeps the last image; `move` answers right, forward and turn since then."""

    def __init__(self):
        self.last = None
        self.last_zoom = 1.0
        self.motion = np.zeros(3)
        self.residual = 0.0

    def move(self, img, zoom, guess):
        """Register the image with the last one, starting from a guessed motion (units, units, radians)."""
        now = contrast(img)
        if self.last is None:
            self.last, self.last_zoom = now, zoom
            return np.zeros(3)
        x = (COLS + 0.5 - vision.CAR_COL) / (vision.PX_X * zoom)
        y = (vision.CAR_ROW - ROWS - 0.5) / (vision.PX_Y * zoom)
        target = now[1:82, 1:95][KEEP]
        gy_img, gx_img = np.gradient(self.last)
        kx, ky = vision.PX_X * self.last_zoom, vision.PX_Y * self.last_zoom
        m = np.array(guess, dtype=float)
        prior = np.array(guess, dtype=float)
        stiff = np.diag([1.5e3, 1.5e3, 5e5])
        for _ in range(4):
            c, s = np.cos(m[2]), np.sin(m[2])
            px, py = x * c + y * s + m[0], -x * s + y * c + m[1]
            col, row = vision.CAR_COL + px * kx - 0.5, vision.CAR_ROW - py * ky - 0.5
            ok = (col > 0.5) & (col < 94.5) & (row > 0.5) & (row < 82.0)
            at = [row[ok], col[ok]]
            value = ndimage.map_coordinates(self.last, at, order=1)
            gx = ndimage.map_coordinates(gx_img, at, order=1) * kx
            gy = -ndimage.map_coordinates(gy_img, at, order=1) * ky
            r = value - target[ok]
            w = 1.0 / (1.0 + (r / 8.0) ** 2)
            turn = gx * (-x[ok] * s + y[ok] * c) + gy * (-x[ok] * c - y[ok] * s)
            j = np.stack([gx, gy, turn])
            a = (j * w) @ j.T + stiff * 0.01
            b = (j * w) @ r + stiff @ (m - prior) * 0.01
            delta = np.linalg.solve(a, b)
            m = m - delta
            if np.abs(delta[:2]).max() < 2e-3:
                break
        self.residual = float(np.sqrt(np.mean(np.minimum(r * r, 400))))
        if abs(m[0] - prior[0]) > 0.8 or abs(m[1] - prior[1]) > 0.8 or abs(m[2] - prior[2]) > 0.15:
            m = prior
        self.last, self.last_zoom = now, zoom
        self.motion = m
        return m
