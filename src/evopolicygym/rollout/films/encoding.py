"""Encodes pictures as H.264 films in mp4, as contact sheets and as PNG files."""

from collections.abc import Collection
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from evopolicygym.core.errors import MissingExtra
from evopolicygym.core.film import Sheet
from evopolicygym.environments.rendering import Picture

QUALITY = {"crf": "23", "preset": "veryfast"}
"""Options of x264: constant quality without visible blocks, faster than simulators render."""


class Encoder:
    """Writes a film, picture by picture."""

    def __init__(self, path: Path, fps: float, size: tuple[int, int] | None) -> None:
        """Write to ``path``, with any suffix; pictures are scaled to fit ``size`` (width, height)."""
        av = library()
        self._av, self._size = av, size
        self._rate = Fraction(fps).limit_denominator(1000)
        self._container = av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"})
        self._stream: Any = None
        self.fps = float(self._rate)
        """Actual frame rate, rounded to a fraction that mp4 supports."""
        self.frames = 0
        self.width = self.height = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is None and self._stream is not None:
            self._container.mux(self._stream.encode(None))
        self._container.close()

    def add(self, picture: "np.ndarray[Any, np.dtype[np.uint8]]") -> None:
        """Append one picture of shape (height, width, 3)."""
        rows, columns = (side - side % 2 for side in picture.shape[:2])
        if self._stream is None:
            self._begin(columns, rows)
        frame = self._av.VideoFrame.from_ndarray(np.ascontiguousarray(picture[:rows, :columns]), format="rgb24")
        frame = frame.reformat(self.width, self.height, "yuv420p")
        frame.pts, frame.time_base = self.frames, 1 / self._rate
        self._container.mux(self._stream.encode(frame))
        self.frames += 1

    def _begin(self, columns: int, rows: int) -> None:
        self.width, self.height = fit_size(columns, rows, self._size) if self._size else (columns, rows)
        self._stream = self._container.add_stream("libx264", rate=self._rate, options=QUALITY)
        self._stream.width, self._stream.height, self._stream.pix_fmt = self.width, self.height, "yuv420p"
        self._stream.codec_context.time_base = 1 / self._rate
        self._stream.codec_context.thread_count = 1  # a film costs one core


def fit_size(width: int, height: int, size: tuple[int, int]) -> tuple[int, int]:
    """Return the largest even (width, height) with a picture's aspect ratio that fits ``size``."""
    scale = min(size[0] / width, size[1] / height)
    return max(2, 2 * int(width * scale / 2)), max(2, 2 * int(height * scale / 2))


def library() -> Any:  # noqa: ANN401 - a module
    """Return the module ``av``; raise ``MissingExtra`` if it isn't installed."""
    try:
        import av
    except ModuleNotFoundError as error:
        raise MissingExtra("Making films", "viewer", str(error.name)) from error
    return av


def stills(film: Path, numbers: Collection[int]) -> dict[int, bytes]:
    """Return frames of a film as PNG files, by their numbers from 0; missing frames are left out."""
    frames_by_number, last = {}, max(numbers, default=-1)
    with library().open(str(film)) as container:
        for number, frame in enumerate(container.decode(video=0)):
            if number in numbers:
                frames_by_number[number] = png(frame.to_ndarray(format="rgb24"))
            if number >= last:
                break
    return frames_by_number


def png(picture: Picture) -> bytes:
    """Return a picture of shape (height, width, 3) as a PNG file."""
    av = library()
    codec = av.CodecContext.create("png", "w")
    codec.height, codec.width = picture.shape[:2]
    codec.pix_fmt, codec.time_base = "rgb24", Fraction(1)
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
    return b"".join(bytes(packet) for packet in (*codec.encode(frame), *codec.encode(None)))


TILES, COLUMNS = 12, 4
TILE = (320, 320)
"""Largest (width, height) of a tile: twelve fit into an image that models read without downscaling."""
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
"""The digits 0 to 9 as five rows of three dots."""
DOT = 4
"""Width and height of a dot in pixels."""
LINE = 128
"""Grey value of the lines between tiles."""


class ContactSheet:
    """One picture of several frames of an episode, evenly spaced from its reset to its last step."""

    def __init__(self, length: int) -> None:
        """Create the layout for an episode of ``length`` steps."""
        tiles = min(TILES, length + 1)
        self._wanted = [round(index * length / max(1, tiles - 1)) for index in range(tiles)]
        self._tiles: list[tuple[int, Picture]] = []

    def offer(self, step: int, picture: Picture) -> None:
        """Add the picture after ``step`` steps if it is one of the sheet's frames."""
        if len(self._tiles) < len(self._wanted) and step >= self._wanted[len(self._tiles)]:
            self._tiles.append((step, _draw_number(_scale(picture), step)))

    def write(self, path: Path) -> Sheet:
        """Write the sheet as a PNG; it has at least the frame of the reset."""
        height, width = self._tiles[0][1].shape[:2]
        columns = min(COLUMNS, len(self._tiles))
        rows = -(-len(self._tiles) // columns)
        sheet = np.zeros((rows * height, columns * width, 3), np.uint8)
        for index, (_, tile) in enumerate(self._tiles):
            top, left = index // columns * height, index % columns * width
            sheet[top : top + height, left : left + width] = tile
        path.write_bytes(png(sheet))
        return Sheet(columns, rows, width, height, tuple(step for step, _ in self._tiles))


def _scale(picture: Picture) -> Picture:
    height, width = picture.shape[:2]
    frame = library().VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
    scaled: Picture = frame.reformat(*fit_size(width, height, TILE)).to_ndarray(format="rgb24")
    return scaled.copy()


def _draw_number(tile: Picture, step: int) -> Picture:
    """Write a number into a tile's upper left corner, white on black, and draw a line to the next tiles."""
    gap = np.zeros((5, 1), bool)
    glyphs = [np.array([[dot == "1" for dot in row] for row in GLYPHS[int(digit)]]) for digit in str(step)]
    dots = np.pad(np.hstack([part for glyph in glyphs for part in (gap, glyph)]), ((1, 1), (0, 1)))
    drawn = np.kron(dots, np.ones((DOT, DOT), bool))[: tile.shape[0], : tile.shape[1]]
    tile[-1:], tile[:, -1:] = LINE, LINE
    tile[: drawn.shape[0], : drawn.shape[1]] = np.where(drawn[..., None], 255, 0)
    return tile
