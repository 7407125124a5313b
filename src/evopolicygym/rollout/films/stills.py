"""Stills: single frames of a film that we made, as PNG."""

from collections.abc import Collection
from fractions import Fraction
from pathlib import Path

import numpy as np

from evopolicygym.environments.rendering import Picture
from evopolicygym.rollout.films.encoder import library


def stills(film: Path, numbers: Collection[int]) -> dict[int, bytes]:
    """Return frames of a film as PNG files, by their numbers from 0; one that is not there is left out."""
    found, last = {}, max(numbers, default=-1)
    with library().open(str(film)) as container:
        for number, frame in enumerate(container.decode(video=0)):
            if number in numbers:
                found[number] = png(frame.to_ndarray(format="rgb24"))
            if number >= last:
                break
    return found


def png(picture: Picture) -> bytes:
    """Return a picture of shape (height, width, 3) as a PNG file."""
    av = library()
    codec = av.CodecContext.create("png", "w")
    codec.height, codec.width = picture.shape[:2]
    codec.pix_fmt, codec.time_base = "rgb24", Fraction(1)
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
    return b"".join(bytes(packet) for packet in (*codec.encode(frame), *codec.encode(None)))
