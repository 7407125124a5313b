"""Reads the 64x64 picture: a maze of 13x13 cells, on a lattice of half cells (25x25 nodes)."""

import numpy as np

CELLS = 13
HALVES = 2 * CELLS - 1
CENTRES = (np.arange(HALVES) / 2 + 0.5) * 64 / CELLS  # pixel coordinate of each half cell
PIX = np.floor(CENTRES).astype(int)


def window_sums(mask: np.ndarray, radius: int = 2) -> np.ndarray:
    """Count the set pixels in a square around each node of the lattice."""
    total = np.zeros((65, 65), int)
    total[1:, 1:] = mask.cumsum(0).cumsum(1)
    low, high = np.clip(PIX - radius, 0, 64), np.clip(PIX + radius + 1, 0, 64)
    return total[np.ix_(high, high)] - total[np.ix_(low, high)] - total[np.ix_(high, low)] + total[np.ix_(low, low)]


class Scene:
    """What one picture shows."""

    def __init__(self, obs: np.ndarray) -> None:
        r, g, b = (obs[..., k].astype(int) for k in range(3))
        self.player_mask = (b > 150) & (b > g + 80)
        self.dots = window_sums((g > 200) & (r < 60) & (b < 60), 1)[::2, ::2] > 0
        self.stars = window_sums((r > 180) & (g > 165) & (b < 100))[::2, ::2] >= 5
        self.eggs = window_sums((r < 60) & (g > 140) & (g < 180) & (b < 60))[::2, ::2] >= 5
        dark = (r - g >= 12) & (r - b >= 12) & (r < 110) & (g < 75)
        red = (r > g + 40) & (r > b + 40) & (g < 150)
        self.enemies = window_sums(dark | red)
        teal = (g > r + 25) & (b > r + 20) & (abs(g - b) < 25)
        pale = (r > g + 20) & (r > 180) & (g > 160) & (b > g) & (b < r)
        self.scared = window_sums(teal | pale)
        centre = np.ix_(PIX[::2], PIX[::2])
        self.wall_cells = ((b - r > 12) & (b - r < 45) & (r > 110) & (g > r))[centre]
