"""What an episode leaves on disk: its steps, what the policy printed, how it failed.

Written whole into a directory beside and renamed into place, so that an episode's files are complete or absent. Which
of this an agent may see is not decided here but in ``judge/feedback.py``.
"""

import gc
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from evopolicygym.core.rollout import Failure, Recording
from evopolicygym.records import durable, steps
from evopolicygym.records.jsontext import dumps

TRAJECTORY, OBSERVATIONS, ACTIONS = "trajectory.jsonl", "observations.npz", "steps.npz"
"""An episode's files: its steps, what was seen where that is large, and actions with rewards alone."""
INLINE_NUMBERS = 256
"""An observation of more numbers goes into ``observations.npz`` instead of into every line."""
COMPRESSION_LEVEL = 1
"""Of zlib: pictures of a simulator shrink as far at 1 as at 6, in a sixth of the time."""
GOING_ON = '"terminated":false,"truncated":false'
"""What every step but the last says."""


DOUBTFUL = re.compile(r"[^\x20-\x7e\n\t]")
"""What is looked at one by one before it is shown."""


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
            _write_arrays(beside / ACTIONS, _named(files.trajectory.actions, "actions") | rewards)
        case Recording.OUTPUT:
            pass
    shutil.rmtree(directory, ignore_errors=True)  # of an attempt whose worker died before it could tell of it
    durable.disk.rename(beside, directory)


def printable(output: bytes) -> str:
    """Return what a process printed as text that is safe to show: control characters and bad UTF-8 are escaped."""
    text = output.decode("utf-8", "backslashreplace")
    return DOUBTFUL.sub(_escaped, text)


def _escaped(found: "re.Match[str]") -> str:
    char = found.group()
    return char if char.isprintable() else f"\\x{ord(char):02x}"


def _error_text(failure: Failure) -> str:
    head = f"{failure.reason.value} at step {failure.step}: {failure.message}\n"
    return printable((head + failure.traceback).encode("utf-8", "replace"))


def _write_steps(directory: Path, files: EpisodeFiles) -> None:
    trajectory = files.trajectory
    inline = _size(trajectory.observations) <= INLINE_NUMBERS
    if not inline:
        _write_arrays(directory / OBSERVATIONS, _named(trajectory.observations, "observations"))
    with _uncollected():
        lines = "".join(_json_lines(trajectory, files.reward_components, inline=inline))
    # Half of a surrogate pair has no UTF-8, and what replaces it here is its escape in JSON.
    (directory / TRAJECTORY).write_text(lines, encoding="utf-8", errors="backslashreplace")


@contextmanager
def _uncollected() -> Iterator[None]:
    """Hold Python's collector off: a picture's numbers as lists would set it to work, and take five times as long."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _json_lines(trajectory: Trajectory, components: tuple[str, ...], *, inline: bool) -> Iterator[str]:
    """Yield one JSON text a step; observations stand in it where ``inline`` says so."""
    observations = steps.rows(trajectory.observations) if inline else []
    infos = trajectory.infos
    parts = steps.infos([{name: info.get(name) for name in components} for info in infos])
    columns = zip(
        steps.rows(trajectory.actions), steps.rows(trajectory.rewards), steps.infos(infos), parts, strict=True
    )
    last = len(infos) - 1
    for t, (action, reward, info, part) in enumerate(columns):
        seen = f'"obs":{observations[t]},' if observations else ""
        ending = GOING_ON if t < last else _ending(trajectory)
        clipped = ',"action_clipped":true' if t in trajectory.clipped else ""
        final = f',"final_obs":{observations[-1]}' if t == last and observations else ""
        yield (
            f'{{"t":{t},{seen}"action":{action},"reward":{reward},{ending},"info":{info},"reward_components":{part}'
            f"{clipped}{final}}}\n"
        )


def _ending(trajectory: Trajectory) -> str:
    return f'"terminated":{dumps(trajectory.terminated)},"truncated":{dumps(trajectory.truncated)}'


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
