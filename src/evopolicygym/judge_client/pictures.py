"""Pictures of an episode as PNG files, from observations that are pictures."""

import struct
import zlib
from typing import Any

from . import feedback
from .workspace_files import NotThere, Workspace

SMALLEST = 9
"""The least width and height of a picture, in pixels; grids of cells are smaller."""


def seen(workspace: Workspace, episode: str, steps: list[int]) -> dict[int, bytes]:
    """Return what the policy saw at some steps as PNG files; raise ``NotThere`` where it saw no pictures."""
    arrays = feedback.arrays_of(workspace, feedback.directory_of(workspace, episode))
    for array in arrays.values():
        if array.dtype.name == "uint8" and array.ndim in {3, 4} and min(array.shape[1:3]) >= SMALLEST:
            missing = [step for step in steps if not 0 <= step < len(array)]
            if missing:
                there = f"its steps are 0 to {len(array) - 1}"
                raise NotThere(f"Episode {episode} has no step {missing[0]}; {there}.")
            return {step: png(array[step]) for step in steps}
    raise NotThere(
        f"There are no pictures of episode {episode}: it was not filmed, and its policy sees no pictures. "
        f"./judge info says how many films this run has; ./judge submit CASES --films CASE asks for one."
    )


def write(to: str, workspace: Workspace, episode: str, pictures: dict[int, bytes]) -> list[str]:
    """Write PNG files into a directory of the workspace; return their paths."""
    paths = {f"{to.rstrip('/')}/ep_{feedback.number_of(episode):03d}_step_{step}.png": step for step in pictures}
    for path, step in paths.items():
        workspace.write(path, pictures[step])
    return list(paths)


def png(picture: Any) -> bytes:  # noqa: ANN401 - an array of numpy, which may not be there
    """Return a picture of uint8, (height, width) or (height, width, 1 or 3), as a PNG file."""
    height, width = picture.shape[:2]
    colour = 2 if picture.shape[2:] == (3,) else 0
    rows = b"".join(b"\0" + picture[row].tobytes() for row in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def steps_of(text: str) -> list[int]:
    """Return the steps that a text such as 0,50,100 names."""
    if not all(part.isdecimal() for part in text.split(",")):
        raise NotThere(f"Invalid steps {text!r}: expected numbers separated by commas, such as 0,50,100.")
    return [int(part) for part in text.split(",")]
