"""Reads the well from the picture, and puts each piece where the wall stays low, even and without gaps.

Cells are read at fixed places of the picture, found by looking at frames of train cases: a cell that isn't grey is
taken. The piece is what has been added to the wall since the piece appeared at the top. Every way to turn and drop it
is tried on a copy of the wall and valued by the six features of Dellacherie's Tetris player (as published by Fahey
2003, with the weights of Thiery and Scherrer 2009): height of landing, rows completed by cells of the piece, changes
between taken and free along rows and along columns, holes, and wells. Then it is turned, moved and lowered by what
the picture shows, one command at a time, as a command takes a step to show and may be repeated by the console. It
looks one piece ahead only, never slides a piece under another, and does not aim at several rows at once.
"""

from typing import Any

import numpy as np

Cells = np.ndarray[Any, np.dtype[np.bool_]]
"""Rows, the highest first, by columns."""
Pixels = np.ndarray[Any, np.dtype[np.uint8]]
ROWS, COLUMNS = 22, 10
FIRST_Y, FIRST_X, CELL_HEIGHT, CELL_WIDTH = 29, 25, 8, 4
FREE = 111
"""The grey of a free cell, in each of its colours."""
NOTHING, TURN, RIGHT, LEFT, DOWN = range(5)
PIECE_CELLS = 4
APPEARS_ABOVE = 5
"""A new piece lies wholly above this row."""
LANDING, COMPLETED, ROW_CHANGES, COLUMN_CHANGES, HOLES, WELLS = -4.5, 3.42, -3.22, -9.35, -7.9, -3.39
LOST = -1e9


def read(picture: Pixels) -> Cells:
    """Return which cells are taken."""
    rows = slice(FIRST_Y, FIRST_Y + ROWS * CELL_HEIGHT, CELL_HEIGHT)
    columns = slice(FIRST_X, FIRST_X + COLUMNS * CELL_WIDTH, CELL_WIDTH)
    taken: Cells = (picture[rows, columns] != FREE).any(axis=2)
    return taken


def highest_part(cells: Cells) -> Cells:
    """Return the cells that hang together with the highest one."""
    part = np.zeros_like(cells)
    left = [tuple(np.argwhere(cells)[0])]
    while left:
        row, column = left.pop()
        if 0 <= row < ROWS and 0 <= column < COLUMNS and cells[row, column] and not part[row, column]:
            part[row, column] = True
            left += [(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)]
    return part


def shape_of(piece: Cells) -> tuple[Cells, int]:
    """Return a piece without the free rows and columns around it, and its first column."""
    rows, columns = np.nonzero(piece)
    return piece[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1], int(columns.min())


def turned(shape: Cells) -> list[Cells]:
    """Return the different ways in which a piece may lie."""
    found: list[Cells] = []
    for quarters in range(4):
        way = np.rot90(shape, quarters)
        if not any(np.array_equal(way, other) for other in found):
            found.append(way)
    return found


def value_of(wall: Cells, shape: Cells, column: int) -> float:
    """Return what a wall is worth after a shape is dropped onto it at a column."""
    height, width = shape.shape
    top = 0
    while top + height < ROWS and not (wall[top + 1 : top + 1 + height, column : column + width] & shape).any():
        top += 1
    if (wall[top : top + height, column : column + width] & shape).any():
        return LOST
    after = wall.copy()
    after[top : top + height, column : column + width] |= shape
    full = after.all(axis=1)
    eroded = int(full.sum()) * int(shape[full[top : top + height]].sum())
    after = np.vstack([np.zeros((int(full.sum()), COLUMNS), dtype=bool), after[~full]])
    landing = ROWS - top - (height + 1) / 2
    sides = np.pad(after, ((0, 0), (1, 1)), constant_values=True)
    floor = np.pad(after, ((0, 1), (0, 0)), constant_values=True)
    row_changes = int((sides[:, 1:] != sides[:, :-1])[after.any(axis=1)].sum())
    column_changes = int((floor[1:] != floor[:-1]).sum())
    covered = np.logical_or.accumulate(after, axis=0)
    holes = int((covered & ~after).sum())
    well = ~covered & sides[:, :-2] & sides[:, 2:]
    wells, depth = 0, np.zeros(COLUMNS, dtype=int)
    for row in well:
        depth = (depth + 1) * row
        wells += int(depth.sum())
    return (
        LANDING * landing
        + COMPLETED * eroded
        + ROW_CHANGES * row_changes
        + COLUMN_CHANGES * column_changes
        + HOLES * holes
        + WELLS * wells
    )


class Policy:
    """Plans once for each piece, then steers it there."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Need nothing: the picture's geometry is known."""

    def reset(self, episode_index: int) -> None:
        """Begin with an empty wall."""
        self.wall: Cells = np.zeros((ROWS, COLUMNS), dtype=bool)
        self.goal: tuple[Cells, int] | None = None
        self.last = NOTHING

    def act(self, obs: Pixels) -> int:
        """Return the next command."""
        cells = read(obs)
        self.last = self.command(cells)
        return self.last

    def command(self, cells: Cells) -> int:
        """Turn first, then move, then lower."""
        piece = cells & ~self.wall
        if piece.sum() != PIECE_CELLS or (self.wall & ~cells).any():
            return self.notice(cells)
        if self.goal is None:
            return NOTHING
        shape, column = shape_of(piece)
        wanted, wanted_column = self.goal
        if not np.array_equal(shape, wanted):
            return NOTHING if self.last == TURN else TURN
        if column != wanted_column:
            command = LEFT if column > wanted_column else RIGHT
            near = abs(column - wanted_column) == 1
            return NOTHING if near and self.last in (LEFT, RIGHT) else command
        return NOTHING if self.last in (TURN, LEFT, RIGHT) else DOWN

    def notice(self, cells: Cells) -> int:
        """Look for a new piece; what else is there is the wall."""
        if cells.any():
            piece = highest_part(cells)
            if piece.sum() == PIECE_CELLS and not piece[APPEARS_ABOVE:].any():
                self.wall = cells & ~piece
                self.goal = self.best(piece)
        return NOTHING

    def best(self, piece: Cells) -> tuple[Cells, int]:
        """Return how a piece should lie and its first column."""
        shape, column = shape_of(piece)
        ways = [(way, first) for way in turned(shape) for first in range(COLUMNS - way.shape[1] + 1)]
        return max(ways, key=lambda way: (value_of(self.wall, *way), -abs(way[1] - column)))
