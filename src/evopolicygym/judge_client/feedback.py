"""Reads feedback/: tables of returns and of steps, and steps as arrays."""

import contextlib
import io
import json
import re
import statistics
import zipfile
from collections.abc import Sequence
from typing import Any

from .workspace_files import MOST_BYTES, NotThere, Workspace

FEEDBACK = "feedback"
MOST_ROWS = 2000
"""The most rows of a table."""
MOST_CELL = 160
"""The most characters of a cell; name parts of a longer one, such as obs.0."""
DEFAULT_FIELDS = "t,obs,action,reward"


def summaries(workspace: Workspace) -> dict[int, dict[str, Any]]:
    """Return every submission's summary.json, by its number."""
    by_number = {}
    for name in workspace.names(FEEDBACK):
        if re.fullmatch(r"submit_[0-9]{3,9}", name, re.ASCII):
            with contextlib.suppress(FileNotFoundError):
                by_number[int(name[len("submit_") :])] = _decoded(workspace, f"{FEEDBACK}/{name}/summary.json")
    return by_number


def _decoded(workspace: Workspace, name: str) -> dict[str, Any]:
    """Return a file that is a JSON object."""
    try:
        document = json.loads(workspace.read(name))
    except ValueError as error:
        raise NotThere(f"{name} can't be read: it is not JSON.") from error
    if not isinstance(document, dict):
        raise NotThere(f"{name} can't be read: expected a JSON object.")
    return document


def read(workspace: Workspace, number: int, file: str) -> str:
    """Return a file of a submission's feedback as text; raise ``NotThere`` with the files' names for an unknown one."""
    directory = f"{FEEDBACK}/submit_{number:03d}"
    try:
        return workspace.read(f"{directory}/{file}").decode("utf-8", "replace")
    except FileNotFoundError:
        pass
    try:
        names = list(workspace.walk(directory, ()))
    except FileNotFoundError:
        raise NotThere(f"There is no feedback of a submission {number}.") from None
    raise NotThere(f"Submission {number} has no file {file}; it has {', '.join(names)}.")


def place_of(workspace: Workspace, episode: str) -> tuple[int, int]:
    """Return the submission that an episode belongs to, and its place there."""
    number = number_of(episode)
    for index, summary in summaries(workspace).items():
        position = number - (summary.get("first_global_episode") or 0)
        if summary.get("returns") and 0 <= position < len(summary["returns"]):
            return index, position
    raise NotThere(f"There is no episode {episode}; ./judge show N names those of a submission.")


def directory_of(workspace: Workspace, episode: str) -> str:
    """Return the path of an episode's directory in the workspace."""
    submission, _ = place_of(workspace, episode)
    return f"{FEEDBACK}/submit_{submission:03d}/episodes/ep_{number_of(episode):03d}"


def compare(workspace: Workspace, numbers: Sequence[int]) -> str:
    """Return a table of submissions' returns and lengths by case, and how the others' returns differ from the first's.

    It has the cases that the first and at least one of the others played.
    """
    first, *others = dict.fromkeys(numbers)
    if not others:
        raise NotThere("Invalid submissions: expected two or more that differ, such as compare 2 3.")
    returns, lengths = (
        {number: _means(workspace, number, name) for number in (first, *others)}
        for name in ("returns", "episode_lengths")
    )
    differences = {other: _differences(returns[first], returns[other]) for other in others}
    if unrelated := [other for other in others if not differences[other]]:
        raise NotThere(f"Submissions {first} and {unrelated[0]} have no case in common.")
    heads = [f"{'case':>6}", *(f"{f'submission {number}':>15}" for number in returns)]
    lines = ["   ".join((" ".join([*heads, *([f"{'difference':>12}"] if len(others) == 1 else [])]), "lengths"))]
    for case in sorted(set().union(*differences.values())):
        cells = [f"{case:>6}", *(f"{_number_on(returns[number], case):>15}" for number in returns)]
        cells += [f"{differences[others[0]][case]:>+12.6g}"] if len(others) == 1 else []
        lines.append(f"{' '.join(cells)}   {' → '.join(_number_on(lengths[number], case) for number in returns)}")
    return "\n".join([*lines, *(_difference_line(first, other, [*differences[other].values()]) for other in others)])


def _differences(first: dict[int, float], other: dict[int, float]) -> dict[int, float]:
    """Return by how much a submission's returns exceed the first's, by case that both played."""
    return {case: other[case] - first[case] for case in first.keys() & other.keys()}


def _number_on(values: dict[int, float], case: int) -> str:
    return f"{values[case]:.6g}" if case in values else "-"


def _difference_line(first: int, other: int, differences: list[float]) -> str:
    """Return a line on how the returns of one submission differ from those of the first."""
    cases = len(differences)
    error = statistics.stdev(differences) / cases**0.5 if cases > 1 else None
    better, worse = sum(item > 0 for item in differences), sum(item < 0 for item in differences)
    spread = "standard error unknown (one case)" if error is None else f"standard error {error:.3g} ({cases} cases)"
    mean = f"{other} minus {first}: mean difference {statistics.fmean(differences):+.6g}, {spread}"
    return f"{mean}; better on {better}, worse on {worse}"


def steps_of(workspace: Workspace, episode: str) -> list[dict[str, Any]]:
    """Return an episode's steps, each with what was observed before its action (obs) and after it (next_obs)."""
    directory = directory_of(workspace, episode)
    try:
        lines = workspace.read(f"{directory}/trajectory.jsonl").decode("utf-8").splitlines()
    except FileNotFoundError:
        raise NotThere("This run has no trajectories: its feedback is summary.json alone.") from None
    steps = [json.loads(line) for line in lines]
    if arrays := arrays_of(workspace, directory):
        observations = [_observation(arrays, t) for t in range(len(steps) + 1)]
    else:
        observations = [*(step["obs"] for step in steps), steps[-1].get("final_obs")]
    return [{**step, "obs": observations[t], "next_obs": observations[t + 1]} for t, step in enumerate(steps)]


def trace(workspace: Workspace, episode: str, every: int, fields: str | None) -> str:
    """Return an episode's steps as a table: every so many, and the last."""
    steps = steps_of(workspace, episode)
    names = (fields or DEFAULT_FIELDS).split(",")
    if unknown := [name for name in names if all(_value(step, name) == "" for step in steps)]:
        raise NotThere(
            f"Invalid field {unknown[0]}: expected one of {', '.join(steps[0])}, or a part of one, such as obs.0."
        )
    wanted = [step for step in steps if step["t"] % max(1, every) == 0 or step is steps[-1]]
    rows = [[_cut(_cell(_value(step, name))) for name in names] for step in wanted[:MOST_ROWS]]
    widths = [max(len(row[column]) for row in [names, *rows]) for column in range(len(names))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [names, *rows]]
    last = steps[-1]
    ended = "terminated" if last["terminated"] else "truncated"
    text = _cell(last["next_obs"])
    final = f"; the last observation: {text}" if "obs" in names and text and len(text) <= MOST_CELL else ""
    if len(wanted) > MOST_ROWS:
        lines.append(f"{len(wanted) - MOST_ROWS} more rows; --every K shows fewer")
    total = sum(float(step["reward"]) for step in steps)
    return "\n".join([*lines, f"{ended} after {len(steps)} steps, return {total:.6g}{final}"])


def export(workspace: Workspace, episodes: list[str], to: str) -> list[str]:
    """Write each episode as an npz file of arrays into a directory of the workspace; return the files' paths.

    The file holds observations (one more than there are steps), actions, rewards, terminated and truncated.
    """
    np = numpy()
    paths = []
    for episode in episodes:
        steps = steps_of(workspace, episode)
        arrays = arrays_of(workspace, directory_of(workspace, episode))
        if not arrays:
            arrays = _columns("observations", [*(step["obs"] for step in steps), steps[-1]["next_obs"]])
        arrays |= _columns("actions", [step["action"] for step in steps])
        for name, source in (("rewards", "reward"), ("terminated", "terminated"), ("truncated", "truncated")):
            arrays |= _columns(name, [step[source] for step in steps])
        content = io.BytesIO()
        np.savez_compressed(content, **arrays)
        paths.append(f"{to.rstrip('/')}/ep_{number_of(episode):03d}.npz")
        workspace.write(paths[-1], content.getvalue())
    return paths


def numpy() -> Any:  # noqa: ANN401 - a module
    """Return numpy; raise ``NotThere`` where this Python has none."""
    try:
        import numpy as np
    except ImportError:
        raise NotThere("This needs numpy, which this Python doesn't have.") from None
    return np


def _columns(name: str, values: list[Any]) -> dict[str, Any]:
    """Return values of all steps as arrays: one, or one for each part of a dict, under a dotted name."""
    if isinstance(values[0], dict):
        parts = ((key, [value[key] for value in values]) for key in values[0])
        return {key: array for part, each in parts for key, array in _columns(f"{name}.{part}", each).items()}
    array = numpy().asarray(values)
    if array.dtype.kind == "U":  # NaN and infinities are text in JSON
        with contextlib.suppress(ValueError):  # it is text
            array = array.astype(float)
    return {name: array}


def _means(workspace: Workspace, number: int, name: str) -> dict[int, float]:
    """Return, for each case of a submission, the mean of a field of its summary, such as returns."""
    summary = summaries(workspace).get(number)
    if summary is None:
        raise NotThere(f"There is no feedback of a submission {number}.")
    if not summary.get("returns"):
        raise NotThere(f"Submission {number} has no returns: its status is {summary.get('status')}.")
    values_by_case: dict[int, list[float]] = {}
    for case, value in zip(summary["env_instances"], summary[name], strict=True):
        values_by_case.setdefault(case, []).append(float(value))
    return {case: statistics.fmean(values) for case, values in values_by_case.items()}


def number_of(episode: str) -> int:
    """Return the number of an episode such as 12 or ep_012."""
    digits = episode.removeprefix("ep_")
    if not digits.isdecimal():
        raise NotThere(f"Invalid episode {episode!r}: expected a number, such as 12 or ep_012.")
    return int(digits)


def arrays_of(workspace: Workspace, directory: str) -> dict[str, Any]:
    """Return the observations of an episode that keeps them apart from its lines, by the arrays' names."""
    try:
        content = workspace.read(f"{directory}/observations.npz")
    except FileNotFoundError:
        return {}
    with zipfile.ZipFile(io.BytesIO(content)) as parts:
        if sum(part.file_size for part in parts.infolist()) > MOST_BYTES:
            raise NotThere(f"{directory}/observations.npz has more than {MOST_BYTES:,} bytes.")
    with numpy().load(io.BytesIO(content), allow_pickle=False) as archive:
        return dict(archive)


def _value(step: dict[str, Any], name: str) -> object:
    """Return the part of a step that a dotted name such as obs.3 or info.speed names; empty if there is none."""
    value: Any = step
    for part in name.split("."):
        try:
            value = value[part] if isinstance(value, dict) else value[int(part)]
        except (KeyError, IndexError, ValueError, TypeError):
            return ""
    return value.tolist() if hasattr(value, "tolist") else value


def _observation(arrays: dict[str, Any], t: int) -> object:
    """Return the observation before step t, from arrays named observations or observations.KEY."""
    if "observations" in arrays:
        return arrays["observations"][t]
    observation: dict[str, Any] = {}
    for name, array in arrays.items():
        *parents, last = name.split(".")[1:]
        node = observation
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = array[t]
    return observation


def _cut(cell: str) -> str:
    return cell if len(cell) <= MOST_CELL else f"{cell[: MOST_CELL - 2]} …"


def _cell(value: object) -> str:
    match value:
        case bool() | str() | int():
            return str(value)
        case float():
            return f"{value:.4g}"
        case list():
            inner = [_cell(item) for item in value[:12]]
            return "[" + " ".join(inner) + (" …" if len(value) > len(inner) else "") + "]"
        case dict():
            return " ".join(f"{key}={_cell(item)}" for key, item in value.items())
        case _:
            return "" if value is None else str(value)
