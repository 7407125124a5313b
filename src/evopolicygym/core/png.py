"""Pictures as PNG (ISO/IEC 15948), losslessly: grey or red, green and blue, eight bits each."""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

GREY, COLOURS = 0, 2
COMPRESSION_LEVEL = 1
"""Of zlib: higher levels take several times as long for a few percent."""


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Return a picture of shape (rows, columns[, 1 or 3]) as a PNG file."""
    rows, columns, *channels = pixels.shape
    header = struct.pack(">IIBBBBB", columns, rows, 8, COLOURS if channels == [3] else GREY, 0, 0, 0)
    lines = np.zeros((rows, 1 + pixels[0].size), np.uint8)  # each line begins with its filter, which is none
    lines[:, 1:] = pixels.reshape(rows, -1)
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), COMPRESSION_LEVEL)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
