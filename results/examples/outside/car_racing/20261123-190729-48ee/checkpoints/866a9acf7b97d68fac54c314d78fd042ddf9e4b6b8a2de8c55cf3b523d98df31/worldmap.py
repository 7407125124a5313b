"""The road as seen so far, in the frame of the start: the first second's zoom shows nearly all of the track."""

import numpy as np
from scipy import ndimage

import vision

SIZE = 460  # units from the start to each side
PATCH = 5.0


def to_world(pose, x, y):
    """Points of the car's frame (right, ahead) in the frame of the start."""
    c, s = np.cos(pose[2]), np.sin(pose[2])
    return pose[0] + x * c + y * s, pose[1] - x * s + y * c


def to_car(pose, x, y):
    """Points of the frame of the start in the car's frame."""
    c, s = np.cos(pose[2]), np.sin(pose[2])
    dx, dy = x - pose[0], y - pose[1]
    return dx * c - dy * s, dx * s + dy * c


class WorldMap:
    """Grass from 0 to 1 in cells of one unit; 1 where nothing has been seen."""

    def __init__(self):
        self.grass = np.ones((2 * SIZE + 1, 2 * SIZE + 1), dtype=np.float32)

    def add(self, grass, pose, zoom):
        """Lay an image's grass over the map."""
        kx, ky = vision.PX_X * zoom, vision.PX_Y * zoom
        corners_x = np.array([-46, 46, -46, 46]) / kx
        corners_y = np.array([70, 70, -10, -10]) / ky
        wx, wy = to_world(pose, corners_x, corners_y)
        i0, i1 = np.clip([int(wx.min()) + SIZE, int(wx.max()) + SIZE + 1], 0, 2 * SIZE)
        j0, j1 = np.clip([int(wy.min()) + SIZE, int(wy.max()) + SIZE + 1], 0, 2 * SIZE)
        gx, gy = np.meshgrid(np.arange(i0, i1) - SIZE, np.arange(j0, j1) - SIZE)
        x, y = to_car(pose, gx, gy)
        col, row = vision.CAR_COL + x * kx, vision.CAR_ROW - y * ky
        seen = (col > 1.5) & (col < 94.5) & (row > 1.5) & (row < 82.5)
        value = ndimage.map_coordinates(grass, [row[seen] - 0.5, col[seen] - 0.5], order=1)
        part = self.grass[j0:j1, i0:i1]
        part[seen] = value

    def look(self, pose, x, y):
        """Grass at points of the car's frame."""
        wx, wy = to_world(pose, x, y)
        return ndimage.map_coordinates(self.grass, [wy + SIZE, wx + SIZE], order=1, mode="constant", cval=1.0)
