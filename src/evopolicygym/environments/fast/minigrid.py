"""MiniGrid's environments with the agent's view by table lookup.

At every step, minigrid cuts out a grid, rotates it up to four times, each time into a new grid, and encodes the visible
cells one by one. Here, the position of each cell in the view is computed once, by minigrid's rotation, and looked up.
"""

from functools import cache
from typing import Any

import numpy as np
from minigrid.core.constants import OBJECT_TO_IDX
from minigrid.core.grid import Grid
from minigrid.core.world_object import Wall, WorldObj
from minigrid.envs.doorkey import DoorKeyEnv as OriginalDoorKey
from minigrid.envs.fourrooms import FourRoomsEnv as OriginalFourRooms
from minigrid.envs.keycorridor import KeyCorridorEnv as OriginalKeyCorridor
from minigrid.envs.obstructedmaze_v1 import ObstructedMaze_Full_V1 as OriginalObstructedMaze

_EMPTY, _UNSEEN = (OBJECT_TO_IDX["empty"], 0, 0), (0, 0, 0)
_WALL = Wall()
"""The cell beyond the edges of the world."""


class _TableView:
    """The agent's view by table lookup."""

    def gen_obs(self: Any) -> dict[str, Any]:
        """Return the view, (columns, rows, 3) uint8 from minigrid's codes, the direction and the mission."""
        size = self.agent_view_size
        left, top, _, _ = self.get_view_exts()
        ahead = _cut_square(self.grid, left, top, size)
        view = [ahead[index] for index in _view_cells(size, self.agent_dir)]
        mask = [True] * (size * size) if self.see_through_walls else _visible(view, size)
        view[size * (size - 1) + size // 2] = self.carrying
        codes = [
            (_EMPTY if cell is None else cell.encode()) if visible else _UNSEEN
            for cell, visible in zip(view, mask, strict=True)
        ]
        rows_of_columns = np.array(codes, np.uint8).reshape(size, size, 3)
        image = np.ascontiguousarray(rows_of_columns.transpose(1, 0, 2))
        return {"image": image, "direction": self.agent_dir, "mission": self.mission}


def _cut_square(grid: Grid, left: int, top: int, size: int) -> list[WorldObj | None]:
    """Return a square's cells, row by row, with walls beyond the world's edges."""
    before, behind = max(0, -left), max(0, left + size - grid.width)
    cells: list[WorldObj | None] = []
    for row in range(top, top + size):
        if 0 <= row < grid.height:
            start = row * grid.width + left
            cells += [_WALL] * before + grid.grid[start + before : start + size - behind] + [_WALL] * behind
        else:
            cells += [_WALL] * size
    return cells


@cache
def _view_cells(size: int, direction: int) -> list[int]:
    """Return the index in the square of each cell of the view of an agent that faces a direction."""
    grid: Any = Grid(size, size)
    grid.grid = list(range(size * size))  # indices instead of a world's objects
    for _ in range(direction + 1):
        grid = grid.rotate_left()
    return list(grid.grid)


def _visible(view: list[WorldObj | None], size: int) -> list[bool]:
    """Return which cells are visible from the agent's, the middle of the last row."""
    opaque = [cell is not None and not cell.see_behind() for cell in view]
    mask = [False] * len(view)
    mask[size * (size - 1) + size // 2] = True
    for row in range(size * (size - 1), -1, -size):
        for index in range(row, row + size - 1):
            if mask[index] and not opaque[index]:
                mask[index + 1] = True
                if row:
                    mask[index + 1 - size] = mask[index - size] = True
        for index in range(row + size - 1, row, -1):
            if mask[index] and not opaque[index]:
                mask[index - 1] = True
                if row:
                    mask[index - 1 - size] = mask[index - size] = True
    return mask


class DoorKeyEnv(_TableView, OriginalDoorKey):
    """The environment of minigrid with a faster view."""


class KeyCorridorEnv(_TableView, OriginalKeyCorridor):
    """The environment of minigrid with a faster view."""


class FourRoomsEnv(_TableView, OriginalFourRooms):
    """The environment of minigrid with a faster view."""


class ObstructedMazeEnv(_TableView, OriginalObstructedMaze):
    """The environment of minigrid with a faster view."""
