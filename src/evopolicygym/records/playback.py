"""Reading back the steps that an episode left on disk, one at a time: no episode is held whole.

How they are written is not told here but in ``trajectories.py``.
"""

import json
import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evopolicygym.core.errors import RecordError
from evopolicygym.core.spaces import Dict, Space, Text, Tuple
from evopolicygym.records.trajectories import ACTIONS, OBSERVATIONS, TRAJECTORY

BLOCK = 1 << 20
"""Bytes of an array that are read at once."""


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


def steps(directory: Path, observation_space: Space, action_space: Space) -> Iterator[Step] | None:
    """Return an episode's steps in their order, whatever was recorded of them; None where nothing was.

    Raises ``RecordError``, while it is read, where a file is not what it should be.
    """
    if (directory / TRAJECTORY).is_file():
        return _checked(directory, _whole(directory, observation_space))
    if (directory / ACTIONS).is_file():
        return _checked(directory, _actions(directory / ACTIONS, action_space))
    return None


def has_steps(directory: Path) -> bool:
    """Return whether an episode's steps, or its actions alone, were recorded."""
    return (directory / TRAJECTORY).is_file() or (directory / ACTIONS).is_file()


def _checked(directory: Path, steps: Iterator[Step]) -> Iterator[Step]:
    try:
        yield from steps
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise RecordError(f"The steps in {directory} can't be read: {type(error).__name__}: {error}") from error


def _whole(directory: Path, space: Space) -> Iterator[Step]:
    with ExitStack() as stack:
        beside: Iterator[Any] | None = None
        if (directory / OBSERVATIONS).is_file():
            archive = stack.enter_context(zipfile.ZipFile(directory / OBSERVATIONS))
            beside = _values(archive, space, "observations")
        for line in stack.enter_context((directory / TRAJECTORY).open("rb")):
            told = json.loads(line)
            last = told["terminated"] or told["truncated"]
            observation = told["obs"] if beside is None else _next(beside)
            final = (told["final_obs"] if beside is None else _next(beside)) if last else None
            clipped = told.get("action_clipped", False)
            yield Step(told["action"], float(told["reward"]), observation, final, clipped, told["info"])


def _actions(path: Path, space: Space) -> Iterator[Step]:
    with zipfile.ZipFile(path) as archive:
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
    with archive.open(f"{name}.npy") as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_column, dtype = read(file)
        if by_column or dtype.hasobject:
            raise ValueError(f"{name} is no array as it would be written here")
        left, inner = shape[0], shape[1:]
        width = math.prod(inner) * dtype.itemsize
        while left:
            count = min(left, max(1, BLOCK // max(1, width)))
            data = file.read(count * width)
            if len(data) < count * width:
                raise EOFError(f"{name} ends too early")
            yield from np.frombuffer(data, dtype, count * math.prod(inner)).reshape(count, *inner)
            left -= count
