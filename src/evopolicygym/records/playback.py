"""Reading back the steps that an episode left on disk, one at a time: no episode is held whole.

How they are written is described in ``trajectories.py``.
"""

import io
import json
import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError
from evopolicygym.core.spaces import Dict, Space, Text, Tuple
from evopolicygym.records.trajectories import ACTIONS, OBSERVATIONS, TRAJECTORY

BLOCK = 1 << 20
"""Bytes of an array that are read at once."""
MOST_ROW = 64 << 20
"""Bytes of one step's part of an array: a picture of 4,000 by 4,000 in colours has 48 million."""
MOST_LINE = 64 << 20
"""Bytes of one step in a trajectory: what was seen is elsewhere where it is large, but ``info`` may hold pictures."""
COMPRESSIONS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""Those that unpack piece by piece; others would unpack without a bound."""
DAMAGED = (
    ValueError, KeyError, TypeError, AttributeError, OverflowError, EOFError, RecursionError, NotImplementedError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What a damaged file makes its readers raise."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step as it was recorded. Values of spaces are JSON's or numpy's, by where they stood."""

    action: Any
    reward: float
    observation: Any = None
    """What the action answered; None where observations were not recorded, as in the rest."""
    final_observation: Any = None
    """What the last step led to."""
    clipped: bool | None = None
    info: Any = None

    def without_observation(self) -> "Step":
        """Return it less what was seen, which takes the most room."""
        return replace(self, observation=None, final_observation=None)


def steps(
    directory: Path, observation_space: Space, action_space: Space, *, root: Path | None = None
) -> Iterator[Step] | None:
    """Return an episode's steps in their order, whatever was recorded of them; None where nothing was.

    ``root`` is the run's directory, below which no link is followed.

    Raises ``RecordError``, at once or while it is read, where a file is not what it should be.
    """
    files = _Files(directory, root)
    if files.has(TRAJECTORY):
        return _checked(directory, _whole(files, observation_space))
    if files.has(ACTIONS):
        return _checked(directory, _actions(files, action_space))
    return None


def has_steps(directory: Path, root: Path | None = None) -> bool:
    """Return whether an episode's steps, or its actions alone, were recorded; raise what ``steps`` raises at once."""
    files = _Files(directory, root)
    return files.has(TRAJECTORY) or files.has(ACTIONS)


@dataclass(frozen=True, slots=True)
class _Files:
    """An episode's files."""

    directory: Path
    root: Path | None

    def has(self, name: str) -> bool:
        return regular_file.is_there(self.directory / name, self.root)

    def open(self, name: str) -> BinaryIO:
        return regular_file.reader(self.directory / name, self.root)

    def frugal(self, name: str) -> BinaryIO:
        return _Frugal(io.FileIO(regular_file.descriptor(self.directory / name, self.root)))


class _Frugal(io.BufferedReader):
    """A file that is never read in large pieces: an archive's end may claim that its list of contents is huge."""

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(MOST_ROW + 1 if size is None or size < 0 else min(size, MOST_ROW + 1))
        if len(content) > MOST_ROW:
            raise ValueError(f"the archive asks for more than {MOST_ROW:,} bytes at once")
        return content


def _checked(directory: Path, steps: Iterator[Step]) -> Iterator[Step]:
    try:
        yield from steps
    except DAMAGED as error:
        raise RecordError(f"The steps in {directory} can't be read: {type(error).__name__}: {error}") from error


def _whole(files: _Files, space: Space) -> Iterator[Step]:
    with ExitStack() as stack:
        beside: Iterator[Any] | None = None
        if files.has(OBSERVATIONS):
            archive = stack.enter_context(zipfile.ZipFile(stack.enter_context(files.frugal(OBSERVATIONS))))
            beside = _values(archive, space, "observations")
        lines = stack.enter_context(files.open(TRAJECTORY))
        while line := lines.readline(MOST_LINE + 1):
            if len(line) > MOST_LINE:
                raise ValueError(f"a step of {TRAJECTORY} has more than {MOST_LINE:,} bytes")
            row = json.loads(line)
            last = row["terminated"] or row["truncated"]
            observation = row["obs"] if beside is None else _next(beside)
            final = (row["final_obs"] if beside is None else _next(beside)) if last else None
            clipped = row.get("action_clipped", False)
            yield Step(row["action"], float(row["reward"]), observation, final, clipped, row["info"])


def _actions(files: _Files, space: Space) -> Iterator[Step]:
    with files.frugal(ACTIONS) as file, zipfile.ZipFile(file) as archive:
        for action, reward in zip(_values(archive, space, "actions"), _rows(archive, "rewards"), strict=True):
            yield Step(action, float(reward))


def _next(values: Iterator[Any]) -> Any:  # noqa: ANN401 - a value of any space
    for value in values:
        return value
    raise ValueError("there are fewer observations than steps")


def _values(archive: zipfile.ZipFile, space: Space, name: str) -> Iterator[Any]:
    """Yield the values of a space, one a step, from the arrays of its leaves."""
    match space:
        case Dict():
            names = [key for key, _ in space.spaces]
            parts = [_values(archive, part, f"{name}.{key}") for key, part in space.spaces]
            for values in zip(*parts, strict=True):
                yield dict(zip(names, values, strict=True))
        case Tuple():
            parts = [_values(archive, part, f"{name}.{place}") for place, part in enumerate(space.spaces)]
            yield from zip(*parts, strict=True)
        case Text():
            yield from map(str, _rows(archive, name))
        case _:
            yield from _rows(archive, name)


def _rows(archive: zipfile.ZipFile, name: str) -> Iterator[Any]:
    """Yield an array's rows, a block of it at a time."""
    if archive.getinfo(f"{name}.npy").compress_type not in COMPRESSIONS:
        raise ValueError(f"{name} is not compressed as it would be here")
    with archive.open(f"{name}.npy") as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_column, dtype = read(file)
        if by_column or dtype.hasobject:
            raise ValueError(f"{name} is no array as it would be written here")
        left, inner = shape[0], shape[1:]
        width = math.prod(inner) * dtype.itemsize
        if not 0 <= width <= MOST_ROW or min(shape) < 0:
            raise ValueError(f"{name} claims a step of {width:,} bytes; at most {MOST_ROW:,} are read")
        while left:
            count = min(left, max(1, BLOCK // max(1, width)))
            data = file.read(count * width)
            if len(data) < count * width:
                raise EOFError(f"{name} ends too early")
            yield from np.frombuffer(data, dtype, count * math.prod(inner)).reshape(count, *inner)
            left -= count
