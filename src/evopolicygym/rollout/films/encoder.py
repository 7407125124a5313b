"""Pictures to H.264 in an mp4 that every browser plays, one at a time: none is held longer than the codec looks ahead.

It encodes pictures of any origin; ``filming.py`` has them drawn.
"""

from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from evopolicygym.core.errors import MissingExtra

QUALITY = {"crf": "23", "preset": "veryfast"}
"""Of x264: a constant quality that shows no blocks, at a speed above that of any simulator's drawing."""


class Encoder:
    """A film that is being written."""

    def __init__(self, path: Path, fps: float, size: tuple[int, int] | None) -> None:
        """Write to ``path``, whatever its name ends in; pictures are scaled to fit into ``size`` (width, height)."""
        av = library()
        self._av, self._size = av, size
        self._rate = Fraction(fps).limit_denominator(1000)
        self._container = av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"})
        self._stream: Any = None
        self.fps = float(self._rate)
        """As it is written: what was asked for, as a fraction that a film can have."""
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
        self.width, self.height = fitted(columns, rows, self._size) if self._size else (columns, rows)
        self._stream = self._container.add_stream("libx264", rate=self._rate, options=QUALITY)
        self._stream.width, self._stream.height, self._stream.pix_fmt = self.width, self.height, "yuv420p"
        self._stream.codec_context.time_base = 1 / self._rate
        self._stream.codec_context.thread_count = 1  # a film costs one core


def fitted(width: int, height: int, size: tuple[int, int]) -> tuple[int, int]:
    """Return the largest even size of a picture's shape that fits into another."""
    scale = min(size[0] / width, size[1] / height)
    return max(2, 2 * int(width * scale / 2)), max(2, 2 * int(height * scale / 2))


def library() -> Any:  # noqa: ANN401 - a module
    """Return what writes films; raise ``MissingExtra`` where it isn't installed."""
    try:
        import av
    except ModuleNotFoundError as error:
        raise MissingExtra("Making films", "viewer", str(error.name)) from error
    return av
