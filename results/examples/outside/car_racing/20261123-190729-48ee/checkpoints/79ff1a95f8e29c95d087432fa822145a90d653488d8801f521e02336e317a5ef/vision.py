"""What the image says: the road around the car in metres of the track's own units, and the instruments."""

import numpy as np
from scipy import ndimage

CAR_ROW, CAR_COL = 72.0, 48.0
PX_X, PX_Y = 1.555, 1.944  # pixels for each unit when the zoom has ended
LAST_ROW = 84  # the instruments lie below

# A metric grid around the car: x to the right, y ahead, CELL units a cell.
CELL = 0.75
X_MIN, X_MAX, Y_MIN, Y_MAX = -60.0, 60.0, -15.0, 75.0
_gx = np.arange(X_MIN, X_MAX + 1e-6, CELL)
_gy = np.arange(Y_MIN, Y_MAX + 1e-6, CELL)
GRID_X, GRID_Y = np.meshgrid(_gx, _gy)


def scale_at(step):
    """Share of the final zoom at a step: the first second zooms in."""
    t = min(1.0, 0.02 * step)
    return (0.6 * (1 - t) + 16.2 * t) / 16.2


def grass_mask(img):
    """Where it is green, as a number from 0 to 1."""
    a = img.astype(np.float32)
    return np.clip((a[:, :, 1] - np.maximum(a[:, :, 0], a[:, :, 2]) - 20) / 60.0, 0, 1)


def grass_image(img, zoom):
    """Grass in the image, the car itself cut out."""
    grass = grass_mask(img[:LAST_ROW])
    tall, wide = int(np.ceil(7 * zoom)), int(np.ceil(5 * zoom))
    grass[72 - tall : 72 + tall, 48 - wide : 48 + wide] = 0.0
    black = img[:LAST_ROW].max(axis=2) < 12  # beyond the field, and the wheels
    black[64:81, 42:55] = False
    grass[black] = 1.0
    return grass


def bar_height(rows):
    """Filled pixels (of the 800 high window) of a bar, given its brightness from the lowest row upward."""
    height = 0.0
    for k, value in enumerate(rows):
        full = (6.0, 8.33)[min(k, 1)]
        height += full * min(1.0, value / (182.0 if k == 0 else 253.0))
        if value < (175.0 if k == 0 else 245.0):
            break
    return height


def instruments(img):
    """Speed by the bar and by the front wheels, rotation (positive to the right) and steering, as the bar shows them."""
    low = img[93:83:-1].astype(np.float32)
    white = low[:, 12:14].min(axis=(1, 2))
    front = low[:, [17, 18, 20], 2].min(axis=1)
    rear = low[:, [22, 23, 24], 2].min(axis=1)
    v_bar = 2.5 * max(0.0, bar_height(white) - 0.5)
    w_front = 2.7 * max(0.0, bar_height(front) - 0.5)
    w_rear = 2.7 * max(0.0, bar_height(rear) - 0.5)
    red = img[87:91, :, 0].mean(axis=0) / 255.0
    spin = (red[72:].sum() - red[50:72].sum()) / 1.92
    green = img[87:91, 30:66, 1].mean(axis=0) / 255.0
    steer = (green[18:].sum() - green[:18].sum()) / 24.0
    return v_bar, w_front, w_rear, spin, steer
