"""A contact sheet: an episode at a glance, as one picture of a few frames, for whoever reads pictures and no films."""

from pathlib import Path
from typing import Any

import numpy as np

from evopolicygym.core.film import Sheet
from evopolicygym.rollout.films.encoder import fitted, library
from evopolicygym.rollout.films.stills import png

TILES, COLUMNS = 12, 4
TILE = (320, 320)
"""Width and height that a tile must fit into: twelve of them are what models are shown without being scaled down."""
GLYPHS = (
    ("111", "101", "101", "101", "111"),
    ("010", "110", "010", "010", "111"),
    ("111", "001", "111", "100", "111"),
    ("111", "001", "111", "001", "111"),
    ("101", "101", "111", "001", "001"),
    ("111", "100", "111", "001", "111"),
    ("111", "100", "111", "101", "111"),
    ("111", "001", "010", "010", "010"),
    ("111", "101", "111", "101", "111"),
    ("111", "101", "111", "001", "111"),
)
"""The digits 0 to 9, five rows of three dots each."""
DOT = 4
"""Pixels of a dot, each way."""
LINE = 128
"""The grey of the lines between tiles."""
Picture = np.ndarray[Any, np.dtype[np.uint8]]


class ContactSheet:
    """Frames of one episode, evenly spaced from its reset to its last step."""

    def __init__(self, length: int) -> None:
        """Lay it out for an episode of so many steps."""
        tiles = min(TILES, length + 1)
        self._wanted = [round(place * length / max(1, tiles - 1)) for place in range(tiles)]
        self._tiles: list[tuple[int, Picture]] = []

    def offer(self, step: int, picture: Picture) -> None:
        """Keep what was drawn after so many steps, where it is one of the frames that are wanted."""
        if len(self._tiles) < len(self._wanted) and step >= self._wanted[len(self._tiles)]:
            self._tiles.append((step, _numbered(_scaled(picture), step)))

    def write(self, path: Path) -> Sheet:
        """Write the sheet as a PNG; there is at least the frame that the reset gave."""
        height, width = self._tiles[0][1].shape[:2]
        columns = min(COLUMNS, len(self._tiles))
        rows = -(-len(self._tiles) // columns)
        sheet = np.zeros((rows * height, columns * width, 3), np.uint8)
        for place, (_, tile) in enumerate(self._tiles):
            top, left = place // columns * height, place % columns * width
            sheet[top : top + height, left : left + width] = tile
        path.write_bytes(png(sheet))
        return Sheet(columns, rows, width, height, tuple(step for step, _ in self._tiles))


def _scaled(picture: Picture) -> Picture:
    height, width = picture.shape[:2]
    frame = library().VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
    scaled: Picture = frame.reformat(*fitted(width, height, TILE)).to_ndarray(format="rgb24")
    return scaled.copy()


def _numbered(tile: Picture, step: int) -> Picture:
    """Write a number into a tile's upper left corner, white on black, and draw a line to the next tiles."""
    gap = np.zeros((5, 1), bool)
    glyphs = [np.array([[dot == "1" for dot in row] for row in GLYPHS[int(digit)]]) for digit in str(step)]
    dots = np.pad(np.hstack([part for glyph in glyphs for part in (gap, glyph)]), ((1, 1), (0, 1)))
    drawn = np.kron(dots, np.ones((DOT, DOT), bool))[: tile.shape[0], : tile.shape[1]]
    tile[-1:], tile[:, -1:] = LINE, LINE
    tile[: drawn.shape[0], : drawn.shape[1]] = np.where(drawn[..., None], 255, 0)
    return tile
