"""2048 by a look-ahead over moves and new tiles, a whole level of positions at a time in numpy.

A board is one number of 64 bits: four bits a place, the exponent of its tile (0 is empty), the upper left place lowest.
Seen as four numbers of 16 bits it is its four rows, so that a move or a value is one look-up in a table of all rows.
The value of a board is the same when it is mirrored at its diagonal, so moves up and down are moves of the mirrored
board, and are never mirrored back.
"""

import json
from pathlib import Path

import numpy as np

U = np.uint64
SHIFTS = (4 * np.arange(16)).astype(U)
TWOS = U(1) << SHIFTS
FOURS = U(2) << SHIFTS
FILLED = U(15) << SHIFTS
ONES = np.ones(4, dtype=np.float32)
MASKS = [U(m) for m in (0xF0F00F0FF0F00F0F, 0x0000F0F00000F0F0, 0x0F0F00000F0F0000,
                        0xFF00FF0000FF00FF, 0x00FF00FF00000000, 0x00000000FF00FF00)]
P_FOUR = 0.1
UP, RIGHT, DOWN, LEFT = range(4)


class Policy:
    """Look ahead as many levels as a limit on positions allows."""

    def __init__(self, obs_space, action_space, env_meta):
        p = self.p = json.loads(Path(__file__).with_name("parameters.json").read_text())
        rows = np.arange(65536)
        cells = np.stack([(rows >> s) & 15 for s in (0, 4, 8, 12)], axis=1)
        left = slide_left(cells)
        right = slide_left(cells[:, ::-1])[:, ::-1]
        self.left, self.right = (pack(c) for c in (left, right))
        self.row_value = row_values(cells, p).astype(np.float32)

    def reset(self, episode_index):
        pass

    def act(self, obs):
        ranks = np.asarray(obs).argmax(axis=2).reshape(16).astype(U)
        ranks = np.minimum(ranks, U(15))
        board = np.bitwise_or.reduce(ranks << SHIFTS).reshape(1)
        values = self.move_values(board, 0)
        # The first half moves the board, the second its mirror image: left, up, right, down.
        return (LEFT, UP, RIGHT, DOWN)[int(values[:, 0].argmax())]

    def moves(self, boards):
        """Return the boards after the four moves, shape (4, n), and whether each changes something."""
        both = np.concatenate((boards, mirror(boards)))
        rows = both.view(np.uint16)
        after = np.concatenate((self.left[rows].view(U), self.right[rows].view(U)))
        changed = after != np.concatenate((both, both))
        return after, changed

    def move_values(self, boards, level):
        """Return the values of the four moves of each board, shape (4, n), -1 for one that is impossible."""
        after, changed = self.moves(boards)
        values = np.full(after.size, -1.0)
        real = after[changed]
        if real.size:
            values[changed] = self.after_values(real, level)
        return values.reshape(4, -1)

    def after_values(self, after, level):
        """Return the values of boards that wait for a new tile."""
        if level >= self.p["max_depth"]:
            return self.leaf_values(after)
        which, place = np.nonzero((after[:, None] & FILLED) == 0)
        count = which.size
        # Fours are rare: deeper down only twos are tried.
        fours = level == 0
        if level > 0 and count * (2 if fours else 1) > self.p["limit"]:
            return self.leaf_values(after)
        boards = after[which]
        new = boards | TWOS[place]
        if fours:
            new = np.concatenate((new, boards | FOURS[place]))
        # A lost board has the value 0.
        values = np.maximum(self.move_values(new, level + 1).max(axis=0), 0.0)
        if fours:
            values = (1 - P_FOUR) * values[:count] + P_FOUR * values[count:]
        # Every move leaves a free place, so each board has a part of its own.
        return np.bincount(which, values, after.size) / np.bincount(which, minlength=after.size)

    def leaf_values(self, boards):
        """Return the sum over rows and columns."""
        rows = self.row_value[boards.view(np.uint16)].reshape(-1, 4)
        columns = self.row_value[mirror(boards).view(np.uint16)].reshape(-1, 4)
        return (rows + columns) @ ONES


def mirror(x):
    """Mirror boards at the diagonal."""
    a = (x & MASKS[0]) | ((x & MASKS[1]) << U(12)) | ((x & MASKS[2]) >> U(12))
    return (a & MASKS[3]) | ((a & MASKS[4]) >> U(24)) | ((a & MASKS[5]) << U(24))


def pack(cells):
    """Return rows of four places as numbers of 16 bits."""
    return (cells << np.array([0, 4, 8, 12])).sum(axis=1).astype(np.uint16)


def close_up(cells):
    """Move the tiles of each row to the left, without merging."""
    order = np.argsort(cells == 0, axis=1, kind="stable")
    return np.take_along_axis(cells, order, axis=1)


def slide_left(cells):
    """Return all rows after a move to the left; each tile merges once."""
    cells = close_up(cells).copy()
    for i in range(3):
        # 15 is the largest exponent that fits.
        same = (cells[:, i] == cells[:, i + 1]) & (cells[:, i] > 0) & (cells[:, i] < 15)
        cells[same, i] += 1
        cells[same, i + 1] = 0
    return close_up(cells)


def row_values(cells, p):
    """Value a row: free places and equal neighbours are good, large tiles spread out and broken order are bad."""
    total = (cells.astype(float) ** p["total_power"]).sum(axis=1)
    free = (cells == 0).sum(axis=1)
    # A run of equal tiles counts its length; free places between tiles don't matter.
    closed = close_up(cells)
    equal = (closed[:, :-1] == closed[:, 1:]) & (closed[:, :-1] > 0)
    merges = equal.sum(axis=1) + (equal & ~np.pad(equal, ((0, 0), (1, 0)))[:, :-1]).sum(axis=1)
    power = cells.astype(float) ** p["order_power"]
    step = np.diff(power, axis=1)
    disorder = np.minimum(np.maximum(step, 0).sum(axis=1), np.maximum(-step, 0).sum(axis=1))
    return (p["lost"] + p["empty"] * free + p["merges"] * merges
            - p["order"] * disorder - p["total"] * total)
