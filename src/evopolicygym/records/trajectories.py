"""An episode's files: its steps, the policy's output, and its failure; written whole, and read back step by step.

Files are written into a temporary directory that is renamed into place, so that an episode's files are complete or
absent. Steps are encoded column by column: a thousand steps take a few milliseconds.
"""

import gc
import io
import json
import math
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from pydantic_core import to_json

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError
from evopolicygym.core.rollout import Failure, Recording
from evopolicygym.core.spaces import Dict, RecordedSpace, Space, Text, Tuple, UnknownSpace
from evopolicygym.core.strict_json import dumps
from evopolicygym.records import atomic

TRAJECTORY, OBSERVATIONS, ACTIONS = "trajectory.jsonl", "observations.npz", "steps.npz"
"""An episode's files: its steps, large observations, and (without a trajectory) actions with rewards."""
MAX_INLINE = 256
"""Numbers of an observation; larger observations go into ``observations.npz`` instead of into every line."""
COMPRESSION_LEVEL = 1
"""Of zlib: level 1 compresses simulator images as well as level 6 does, in a sixth of the time."""
NOT_LAST = '"terminated":false,"truncated":false'
"""The flags of every step but the last."""
CONTROL = re.compile(r"[^\x20-\x7e\n\t]")
"""Characters that may need an escape before they are shown."""
NOT_FINITE = re.compile("NaN|-?Infinity")
"""Numbers that are not finite, as pydantic's encoder writes them."""
NUMBERS = (float, int, np.number, np.bool_)
"""Types of which a list becomes an array of the same numbers."""
BLOCK = 1 << 20
"""Bytes of an array that are read at once."""
MAX_ROW = 64 << 20
"""Bytes of one step in an array: an RGB image of 4,000 by 4,000 pixels has 48 million."""
MAX_LINE = 64 << 20
"""Bytes of one step in a trajectory: large observations are stored separately, but ``info`` may hold images."""
COMPRESSIONS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""Compressions that unpack in pieces; others would unpack without a bound."""
DAMAGE_ERRORS = (
    ValueError, KeyError, TypeError, AttributeError, OverflowError, EOFError, RecursionError, NotImplementedError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""Exceptions that readers raise for damaged files."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The steps of one episode, as columns."""

    observations: Any
    """For each leaf of the space, an array of shape (steps + 1, …); the last row is the final observation."""
    actions: Any
    """For each leaf of the space, an array of shape (steps, …), as the environment received them."""
    rewards: "np.ndarray[Any, np.dtype[np.float64]]"
    """(steps,)"""
    infos: Sequence[Mapping[str, Any]]
    """(steps,)"""
    clipped: frozenset[int]
    """Indices of steps whose action was clipped."""
    terminated: bool
    """Of the last step."""
    truncated: bool
    """Of the last step."""


@dataclass(frozen=True, slots=True)
class EpisodeFiles:
    """An episode's data, of which ``Recording`` decides what is written."""

    trajectory: Trajectory
    stdout: bytes
    stderr: bytes
    failure: Failure | None
    reward_components: tuple[str, ...]
    """Keys of ``info`` that are also written as ``reward_components``."""


def write_episode(directory: Path, files: EpisodeFiles, recording: Recording) -> None:
    """Write an episode's files into ``directory``, completely or not at all."""
    temporary = directory.with_name(directory.name + ".part")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    (temporary / "stdout.txt").write_text(escape_output(files.stdout), encoding="utf-8")
    (temporary / "stderr.txt").write_text(escape_output(files.stderr), encoding="utf-8")
    if files.failure:
        (temporary / "error.txt").write_text(_error_text(files.failure), encoding="utf-8")
    match recording:
        case Recording.TRAJECTORY:
            _write_steps(temporary, files)
        case Recording.ACTIONS:
            rewards = {"rewards": files.trajectory.rewards}
            _write_arrays(temporary / ACTIONS, _flatten(files.trajectory.actions, "actions") | rewards)
        case Recording.OUTPUT:
            pass
    shutil.rmtree(directory, ignore_errors=True)  # of an attempt whose worker died before it reported
    atomic.disk.rename(temporary, directory)


def escape_output(output: bytes) -> str:
    """Return a process's output as text that is safe to show, with control characters and invalid UTF-8 escaped."""
    text = output.decode("utf-8", "backslashreplace")
    return CONTROL.sub(_escape, text)


def _escape(match: "re.Match[str]") -> str:
    char = match.group()
    return char if char.isprintable() else f"\\x{ord(char):02x}"


def _error_text(failure: Failure) -> str:
    head = f"{failure.reason.value} at step {failure.step}: {failure.message}\n"
    return escape_output((head + failure.traceback).encode("utf-8", "replace"))


def _write_steps(directory: Path, files: EpisodeFiles) -> None:
    trajectory = files.trajectory
    inline = _size(trajectory.observations) <= MAX_INLINE
    if not inline:
        _write_arrays(directory / OBSERVATIONS, _flatten(trajectory.observations, "observations"))
    with _garbage_collector_paused():
        lines = "".join(_json_lines(trajectory, files.reward_components, inline=inline))
    # Half of a surrogate pair has no UTF-8, and what replaces it here is its escape in JSON.
    (directory / TRAJECTORY).write_text(lines, encoding="utf-8", errors="backslashreplace")


@contextmanager
def _garbage_collector_paused() -> Iterator[None]:
    """Pause garbage collection, which the lists of an image's numbers trigger: writing takes a fifth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _json_lines(trajectory: Trajectory, components: tuple[str, ...], *, inline: bool) -> Iterator[str]:
    """Yield a line of JSON for each step, with observations if ``inline``."""
    observations = _json_rows(trajectory.observations) if inline else []
    infos = trajectory.infos
    parts = _json_infos([{name: info.get(name) for name in components} for info in infos])
    columns = zip(
        _json_rows(trajectory.actions), _json_rows(trajectory.rewards), _json_infos(infos), parts, strict=True
    )
    last = len(infos) - 1
    for t, (action, reward, info, part) in enumerate(columns):
        observed = f'"obs":{observations[t]},' if observations else ""
        ending = NOT_LAST if t < last else _ending(trajectory)
        clipped = ',"action_clipped":true' if t in trajectory.clipped else ""
        final = f',"final_obs":{observations[-1]}' if t == last and observations else ""
        yield (
            f'{{"t":{t},{observed}"action":{action},"reward":{reward},{ending},"info":{info},"reward_components":{part}'
            f"{clipped}{final}}}\n"
        )


def _ending(trajectory: Trajectory) -> str:
    return f'"terminated":{dumps(trajectory.terminated)},"truncated":{dumps(trajectory.truncated)}'


def _size(columns: Any) -> int:  # noqa: ANN401 - columns of any space
    """Return how many numbers a step has."""
    match columns:
        case dict():
            return sum(_size(part) for part in columns.values())
        case tuple():
            return sum(_size(part) for part in columns)
        case list():
            return 1
        case _:
            return math.prod(columns.shape[1:])


def _flatten(columns: Any, name: str) -> dict[str, "np.ndarray[Any, Any]"]:  # noqa: ANN401 - as above
    """Return the arrays of nested columns by dotted names, such as ``observations.image``."""
    match columns:
        case dict():
            parts = list(columns.items())
        case tuple():
            parts = [(str(index), part) for index, part in enumerate(columns)]
        case _:
            return {name: np.asarray(columns)}
    return {key: array for part_name, part in parts for key, array in _flatten(part, f"{name}.{part_name}").items()}


def _write_arrays(path: Path, arrays: Mapping[str, "np.ndarray[Any, Any]"]) -> None:
    """Write an ``.npz`` that ``numpy.load`` reads, compressed lightly."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=COMPRESSION_LEVEL) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def _json_rows(columns: Any) -> list[str]:  # noqa: ANN401 - columns of any space
    """Return columns, as ``guest.layout.columns`` returns them, as a JSON text for each step."""
    match columns:
        case dict():
            keys = [f"{dumps(name)}:" for name in columns]
            parts = [_json_rows(part) for part in columns.values()]
            return [f"{{{','.join(map(str.__add__, keys, texts))}}}" for texts in zip(*parts, strict=True)]
        case tuple():
            parts = [_json_rows(part) for part in columns]
            return [f"[{','.join(texts)}]" for texts in zip(*parts, strict=True)]
        case list():
            encoded: dict[str, str] = {text: dumps(text) for text in set(columns)}
            return [encoded[text] for text in columns]
        case _:
            return _split_rows(_encode_array(columns), columns.ndim - 1)


def _json_infos(infos: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return each step's ``info`` as a JSON text."""
    columns = _info_columns(infos)
    return _json_rows(columns) if columns else [_encode_info(info) if info else "{}" for info in infos]


def _info_columns(infos: Sequence[Mapping[str, Any]]) -> dict[str, "np.ndarray[Any, Any]"]:
    """Return infos as columns if every step has numbers under the same names, as most simulators report; else {}."""
    names = tuple(infos[0]) if infos else ()
    if not all(isinstance(name, str) for name in names) or any(tuple(info) != names for info in infos):
        return {}
    columns = {}
    for name in names:
        values = [info[name] for info in infos]
        types = set(map(type, values))  # a single type, so that no integer becomes a float
        if len(types) > 1 or not issubclass(types.pop(), NUMBERS):
            return {}
        columns[name] = np.array(values)
        if columns[name].dtype.kind != np.array(values[0]).dtype.kind:
            return {}  # integers too large for one dtype
    return columns


def _encode_array(column: "np.ndarray[Any, Any]") -> str:
    """Return an array as JSON without spaces."""
    text = to_json(column.tolist()).decode()
    if np.isfinite(column).all():
        return text
    return NOT_FINITE.sub(lambda match: f'"{match.group().replace("Infinity", "Inf")}"', text)


def _split_rows(text: str, depth: int) -> list[str]:
    """Return the elements of a JSON array of numbers, which are arrays nested to ``depth``."""
    inner = text[1:-1]
    if depth == 0 or not inner:
        return inner.split(",") if inner else []
    end = "]" * depth
    return [row + end for row in inner[: -len(end)].split(end + ",")]


def _encode_info(info: Mapping[str, Any]) -> str:
    # pydantic's fast encoder writes numbers that are not finite differently, and rejects some values: then use dumps.
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in info.items()}
    try:
        text = to_json(plain, fallback=_plain).decode()
    except ValueError:
        return dumps(info)
    return dumps(info) if "NaN" in text or "Infinity" in text else text


def _plain(value: Any) -> Any:  # noqa: ANN401 - any value of info
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


@dataclass(frozen=True, slots=True)
class Step:
    """One recorded step. Actions and observations are JSON values or numpy arrays, depending on their file."""

    action: Any
    reward: float
    observation: Any = None
    """The observation that the action responded to; None, like the fields below, if it was not recorded."""
    final_observation: Any = None
    """The observation after the last step."""
    clipped: bool | None = None
    info: Any = None

    def without_observation(self) -> "Step":
        """Return the step without observations, which are its largest part."""
        return replace(self, observation=None, final_observation=None)


def read_steps(
    directory: Path, observation_space: RecordedSpace, action_space: RecordedSpace, *, root: Path | None = None
) -> Iterator[Step] | None:
    """Return an episode's steps in order, with what was recorded of each; None if no steps were recorded.

    No step is loaded before it is consumed. Below ``root``, the run directory, no link is followed. Of an unknown
    space, only what a trajectory's lines hold is read.

    Raises ``RecordError``, at once or while steps are consumed, if a file is damaged.
    """
    files = _EpisodeReader(directory, root)
    if files.has(TRAJECTORY):
        return _convert_errors(directory, _trajectory_steps(files, observation_space))
    if files.has(ACTIONS) and not isinstance(action_space, UnknownSpace):
        return _convert_errors(directory, _action_steps(files, action_space))
    return None


def has_steps(directory: Path, root: Path | None = None) -> bool:
    """Return whether an episode's steps, or its actions alone, were recorded; raise as ``read_steps`` does at once."""
    files = _EpisodeReader(directory, root)
    return files.has(TRAJECTORY) or files.has(ACTIONS)


@dataclass(frozen=True, slots=True)
class _EpisodeReader:
    """Opens an episode's files, if they are regular files."""

    directory: Path
    root: Path | None

    def has(self, name: str) -> bool:
        return regular_file.is_there(self.directory / name, self.root)

    def open(self, name: str) -> BinaryIO:
        return regular_file.reader(self.directory / name, self.root)

    def open_archive(self, name: str) -> BinaryIO:
        return _BoundedReader(io.FileIO(regular_file.descriptor(self.directory / name, self.root)))


class _BoundedReader(io.BufferedReader):
    """A file that is never read in large pieces: an archive may claim that its directory is huge."""

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(MAX_ROW + 1 if size is None or size < 0 else min(size, MAX_ROW + 1))
        if len(content) > MAX_ROW:
            raise ValueError(f"the archive claims a directory of more than {MAX_ROW:,} bytes")
        return content


def _convert_errors(directory: Path, steps: Iterator[Step]) -> Iterator[Step]:
    try:
        yield from steps
    except DAMAGE_ERRORS as error:
        raise RecordError(f"The steps in {directory} can't be read: {type(error).__name__}: {error}") from error


def _trajectory_steps(files: _EpisodeReader, space: RecordedSpace) -> Iterator[Step]:
    with ExitStack() as stack:
        stored: Iterator[Any] | None = None
        if not isinstance(space, UnknownSpace) and files.has(OBSERVATIONS):
            archive = stack.enter_context(zipfile.ZipFile(stack.enter_context(files.open_archive(OBSERVATIONS))))
            stored = _values(archive, space, "observations")
        lines = stack.enter_context(files.open(TRAJECTORY))
        while line := lines.readline(MAX_LINE + 1):
            if len(line) > MAX_LINE:
                raise ValueError(f"a step of {TRAJECTORY} has more than {MAX_LINE:,} bytes")
            row = json.loads(line)
            last = row["terminated"] or row["truncated"]
            observation = row["obs"] if stored is None else _next(stored)
            final = (row.get("final_obs") if stored is None else _next(stored)) if last else None
            clipped = row.get("action_clipped", None if isinstance(space, UnknownSpace) else False)
            yield Step(row["action"], float(row["reward"]), observation, final, clipped, row["info"])


def _action_steps(files: _EpisodeReader, space: Space) -> Iterator[Step]:
    with files.open_archive(ACTIONS) as file, zipfile.ZipFile(file) as archive:
        for action, reward in zip(_values(archive, space, "actions"), _rows(archive, "rewards"), strict=True):
            yield Step(action, float(reward))


def _next(values: Iterator[Any]) -> Any:  # noqa: ANN401 - a value of any space
    for value in values:
        return value
    raise ValueError("there are fewer observations than steps")


def _values(archive: zipfile.ZipFile, space: Space, name: str) -> Iterator[Any]:
    """Yield a value of the space for each step, from the arrays of its leaves."""
    match space:
        case Dict():
            names = [key for key, _ in space.spaces]
            parts = [_values(archive, part, f"{name}.{key}") for key, part in space.spaces]
            for values in zip(*parts, strict=True):
                yield dict(zip(names, values, strict=True))
        case Tuple():
            parts = [_values(archive, part, f"{name}.{index}") for index, part in enumerate(space.spaces)]
            yield from zip(*parts, strict=True)
        case Text():
            yield from map(str, _rows(archive, name))
        case _:
            yield from _rows(archive, name)


def _rows(archive: zipfile.ZipFile, name: str) -> Iterator[Any]:
    """Yield an array's rows, reading a block at a time."""
    if archive.getinfo(f"{name}.npy").compress_type not in COMPRESSIONS:
        raise ValueError(f"{name} has an unsupported compression")
    with archive.open(f"{name}.npy") as file:
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read_header(file)
        if is_fortran or dtype.hasobject:
            raise ValueError(f"{name} has an unsupported layout or type")
        left, inner = shape[0], shape[1:]
        width = math.prod(inner) * dtype.itemsize
        if not 0 <= width <= MAX_ROW or min(shape) < 0:
            raise ValueError(f"{name} claims a step of {width:,} bytes; the maximum is {MAX_ROW:,}")
        while left:
            count = min(left, max(1, BLOCK // max(1, width)))
            data = file.read(count * width)
            if len(data) < count * width:
                raise EOFError(f"{name} ends too early")
            yield from np.frombuffer(data, dtype, count * math.prod(inner)).reshape(count, *inner)
            left -= count
