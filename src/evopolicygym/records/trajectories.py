"""What an episode leaves on disk: its steps, what the policy printed, how it failed.

Written whole into a directory beside and renamed into place, so that an episode's files are complete or absent. Which
of this an agent may see is not decided here but in ``judge/feedback.py``.
"""

import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np
from pydantic_core import to_json

from evopolicygym.core.episode import Failure
from evopolicygym.core.rollout import Recording
from evopolicygym.records.jsontext import dumps

INLINE_NUMBERS = 256
"""An observation of more numbers goes into ``observations.npz`` instead of into every line."""
COMPRESSION_LEVEL = 1
"""Of zlib: pictures of a simulator shrink as far at 1 as at 6, in a sixth of the time."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The steps of one episode, as columns."""

    observations: Any
    """An array a leaf of the space, of shape (steps + 1, …): the last is what the last step led to."""
    actions: Any
    """An array a leaf of the space, of shape (steps, …), as the environment was given them."""
    rewards: "np.ndarray[Any, np.dtype[np.float64]]"
    """(steps,)"""
    infos: Sequence[Mapping[str, Any]]
    """(steps,)"""
    clipped: frozenset[int]
    """Steps whose action was clipped."""
    terminated: bool
    """Of the last step."""
    truncated: bool
    """Of the last step."""


@dataclass(frozen=True, slots=True)
class EpisodeFiles:
    """All that may be written of one episode."""

    trajectory: Trajectory
    stdout: bytes
    stderr: bytes
    failure: Failure | None
    reward_components: tuple[str, ...]
    """Keys of ``info`` that are written as ``reward_components``."""


def write_episode(directory: Path, files: EpisodeFiles, recording: Recording) -> None:
    """Write an episode's files into ``directory``, complete or not at all."""
    beside = directory.with_name(directory.name + ".part")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    (beside / "stdout.txt").write_text(printable(files.stdout), encoding="utf-8")
    (beside / "stderr.txt").write_text(printable(files.stderr), encoding="utf-8")
    if files.failure:
        (beside / "error.txt").write_text(_error_text(files.failure), encoding="utf-8")
    match recording:
        case Recording.TRAJECTORY:
            _write_steps(beside, files)
        case Recording.ACTIONS:
            rewards = {"rewards": files.trajectory.rewards}
            _write_arrays(beside / "steps.npz", _named(files.trajectory.actions, "actions") | rewards)
        case Recording.OUTPUT:
            pass
    beside.rename(directory)


def printable(output: bytes) -> str:
    """Return what a process printed as text that is safe to show: control characters and bad UTF-8 are escaped."""
    text = output.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else f"\\x{ord(char):02x}" for char in text)


def _error_text(failure: Failure) -> str:
    head = f"{failure.reason.value} at step {failure.step}: {failure.message}\n"
    return printable((head + failure.traceback).encode("utf-8", "replace"))


def _write_steps(directory: Path, files: EpisodeFiles) -> None:
    trajectory = files.trajectory
    if _size(trajectory.observations) > INLINE_NUMBERS:
        _write_arrays(directory / "observations.npz", _named(trajectory.observations, "observations"))
        observations: list[Any] | None = None
    else:
        observations = _rows(trajectory.observations)
    (directory / "trajectory.jsonl").write_bytes(_json_lines(files, observations))


def _json_lines(files: EpisodeFiles, *, inline: bool) -> Iterator[str]:
    """Yield one JSON text a step."""
    trajectory, names = files.trajectory, files.reward_components
    last = len(trajectory.rewards) - 1
    observations = [f'"obs":{text},' for text in steps.rows(trajectory.observations)] if inline else [""] * (last + 2)
    actions, rewards = steps.rows(trajectory.actions), steps.rows(trajectory.rewards)
    infos, parts = steps.infos(trajectory.infos), steps.components(trajectory.infos, names)
    ending = f'"terminated":{_truth(trajectory.terminated)},"truncated":{_truth(trajectory.truncated)}'
    going_on = f'"terminated":{_truth(False)},"truncated":{_truth(False)}'
    for t in range(last + 1):
        yield (
            f'{{"t":{t},{observations[t]}"action":{actions[t]},"reward":{rewards[t]},'
            f'{ending if t == last else going_on},"info":{infos[t]},"reward_components":{parts[t]}'
            f'{CLIPPED if t in trajectory.clipped else ""}'
            f'{f""","final_{observations[t + 1][1:-1]}""" if t == last and inline else ""}}}\n'
        )


def _size(columns: Any) -> int:  # noqa: ANN401 - as above
    """Return how many numbers one step holds."""
    match columns:
        case dict():
            return sum(_size(part) for part in columns.values())
        case tuple():
            return sum(_size(part) for part in columns)
        case list():
            return 1
        case _:
            return prod(columns.shape[1:])


def _named(columns: Any, name: str) -> dict[str, "np.ndarray[Any, Any]"]:  # noqa: ANN401 - as above
    """Return every array of the columns under a name of its own, such as ``observations.image``."""
    match columns:
        case dict():
            parts = list(columns.items())
        case tuple():
            parts = [(str(place), part) for place, part in enumerate(columns)]
        case _:
            return {name: np.asarray(columns)}
    return {key: array for part_name, part in parts for key, array in _named(part, f"{name}.{part_name}").items()}


def _write_arrays(path: Path, arrays: Mapping[str, "np.ndarray[Any, Any]"]) -> None:
    """Write an ``.npz`` that ``numpy.load`` reads, compressed lightly."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=COMPRESSION_LEVEL) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
