"""One episode over time: rewards, actions and observations as columns of numbers, thinned where steps are many."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evopolicygym.core.cases import Split
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.run import RunState
from evopolicygym.core.spaces import Box, Discrete, from_schema
from evopolicygym.records.paths import RunPaths, film_name
from evopolicygym.records.playback import Step, steps
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.trajectories import ACTIONS, OBSERVATIONS, TRAJECTORY
from evopolicygym.viewer.bundle_run import episode_line
from evopolicygym.viewer.reading import MOST_TEXT, below, excerpt, shown

MOST_STEPS = 2000
"""Steps that a document holds; of more, every second, third, … and the last."""
MOST_COLUMNS = 48
"""Numbers of an observation, or of an action, that are shown."""
MOST_BYTES = 256 << 20
"""Of a file of steps that is read."""
DIGITS = 6
"""Significant digits of what is drawn."""


def episode_bundle(record: RunRecord, name: str) -> dict[str, Any]:
    """Return an episode by its name: ``train-<submission>-<place>``, ``validation-<case>`` or ``held_out-<case>``.

    Hidden episodes are those of the selected checkpoint. Raises ``UsageError`` where there is none of this name.
    """
    split, submission, position = _parsed(name)
    state, paths = record.state, record.paths
    episode, folder, case = _found(state, paths, split, submission, position)
    if episode is None:
        raise UsageError(f"Episode {name} has not been played yet; look again in a while.")
    directory = below(paths.root, folder)
    files = [below(paths.root, folder / one) for one in (TRAJECTORY, OBSERVATIONS, ACTIONS)]
    for file in files:
        if file is not None and file.stat().st_size > MOST_BYTES:
            raise RecordError(
                f"The steps of {name} are larger than {MOST_BYTES >> 20} MiB, which is more than is read."
            )
    is_safe = directory is not None and not any(
        (folder / one).is_symlink() for one in (TRAJECTORY, OBSERVATIONS, ACTIONS)
    )
    failure = episode.failure
    return {
        "name": name,
        "split": split.value,
        "submission": submission,
        "position": position,
        "case": case,
        **(episode_line(episode) or {}),
        "seconds": episode.seconds,
        "failed": {"reason": failure.reason.value, "step": failure.step, "message": shown(failure.message),
                   "traceback": shown(failure.traceback)} if failure else None,
        "series": _series(record, folder, files) if is_safe and any(files) else None,
        "stdout": _text(paths, folder / "stdout.txt"),
        "stderr": _text(paths, folder / "stderr.txt"),
        "film": film_of(record, name) is not None,
    }  # fmt: skip


def film_of(record: RunRecord, name: str) -> Path | None:
    """Return the film of an episode where there is one and no link leads to it; raise as ``episode_bundle``."""
    split, submission, position = _parsed(name)
    _found(record.state, record.paths, split, submission, position)
    checkpoint = record.state.selected.checkpoint if record.state.selected else ""
    film = film_name(split, submission or 0, checkpoint, position)
    return below(record.paths.root, record.paths.films / film)


def _parsed(name: str) -> tuple[Split, int | None, int]:
    words = name.split("-")
    numbers = [int(word) for word in words[1:] if word.isascii() and word.isdigit() and len(word) < 10]  # noqa: PLR2004
    match words[0], numbers:
        case "train", [submission, position] if len(words) == 3:  # noqa: PLR2004
            return Split.TRAIN, submission, position
        case ("validation" | "held_out") as split, [position] if len(words) == 2:  # noqa: PLR2004
            return Split(split), None, position
    raise UsageError(f"{name[:60]!r} names no episode; what works: train-3-0, validation-0, held_out-0.")


def _found(
    state: RunState, paths: RunPaths, split: Split, submission: int | None, position: int
) -> tuple[Any, Any, int]:
    """Return an episode, the place of its files and its case."""
    if submission is not None:
        if submission >= len(state.submissions) or position >= len(state.submissions[submission].episodes):
            raise UsageError(f"There is no train episode {position} of a submission {submission} in this run.")
        one = state.submissions[submission]
        folder = paths.trained(submission, one.first_global_episode + position)
        return one.episodes[position], folder, one.charged.env_instances[position]
    if state.selected is None:
        raise UsageError("No checkpoint has been selected yet, so there is no hidden episode to look at.")
    episodes = state.rollout(split, state.selected.checkpoint).episodes
    if position >= len(episodes):
        raise UsageError(f"There is no {split.value} case {position}; there are {len(episodes)}.")
    return episodes[position], paths.evaluated(split, state.selected.checkpoint, position), position


def _series(record: RunRecord, folder: Any, files: Sequence[Any]) -> dict[str, Any]:  # noqa: ANN401 - paths
    opened = record.state.opened
    spaces = [from_schema(schema) for schema in (opened.observation_schema, opened.action_schema)]
    played = steps(folder, *spaces)
    if played is None:
        return _thinned([], ())
    environment = opened.task.environment
    found = _thinned(list(_kept(played, pictures=files[1] is not None)), environment.reward_components)
    for key, space, meanings in (
        ("observations", spaces[0], environment.observation),
        ("actions", spaces[1], environment.action),
    ):
        _name(found[key], space, meanings)
    action = spaces[1]
    labels = (action.labels or environment.action) if isinstance(action, Discrete) else ()
    found["action_labels"] = [shown(label) for label in labels]
    found["action_start"] = action.start if isinstance(action, Discrete) else 0
    found["pictures"] = files[1] is not None
    return found


def _kept(played: Iterator[Step], *, pictures: bool) -> Iterator[tuple[Step, Mapping[str, float], Mapping[str, float]]]:
    for step in played:
        seen = {} if pictures or step.observation is None else dict(flat(step.observation))
        yield step, seen, dict(flat(step.action))


def flat(value: Any, name: str = "") -> Iterator[tuple[str, float]]:  # noqa: ANN401 - a value of any space
    """Yield the numbers of a value with their names; at most ``MOST_COLUMNS``, and nothing of a text."""
    for count, pair in enumerate(_flat(value, name)):
        if count == MOST_COLUMNS:
            return
        yield pair


def _flat(value: Any, name: str) -> Iterator[tuple[str, float]]:  # noqa: ANN401 - as above
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _flat(part, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            yield from _flat(part, f"{name}[{place}]")
    elif isinstance(value, bool | int | float) or value in {"NaN", "Inf", "-Inf"}:
        yield name, float(value)


def _thinned(
    kept: Sequence[tuple[Step, Mapping[str, float], Mapping[str, float]]], components: Sequence[str]
) -> dict[str, Any]:
    """Return columns of every so manieth step and the last; the return by then counts all steps."""
    stride = max(1, math.ceil(len(kept) / MOST_STEPS))
    at = [*range(0, len(kept), stride)]
    if at and at[-1] != len(kept) - 1:
        at.append(len(kept) - 1)
    rewards = np.array([step.reward for step, _, _ in kept], dtype=float)
    sums = np.cumsum(rewards)
    return {
        "steps": len(kept),
        "every": stride,
        "t": at,
        "rewards": _rounded(rewards[place] for place in at),
        "returns": _rounded(sums[place] for place in at),
        "observations": _columns([kept[place][1] for place in at]),
        "actions": _columns([kept[place][2] for place in at]),
        "components": _columns([_parts(kept[place][0].info, components) for place in at]),
        "clipped": [place for place in at if kept[place][0].clipped],
    }


def _parts(info: Any, names: Sequence[str]) -> dict[str, float]:  # noqa: ANN401 - what a simulator told
    told = info if isinstance(info, dict) else {}
    return {name: float(told[name]) for name in names if isinstance(told.get(name), int | float)}


def _columns(rows: Sequence[Mapping[str, float]]) -> list[dict[str, Any]]:
    names = list(rows[0]) if rows else []
    return [{"name": shown(name), "values": _rounded(row.get(name, math.nan) for row in rows)} for name in names]


def _rounded(values: Any) -> list[float | None]:  # noqa: ANN401 - any numbers
    return [float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None for value in values]


def _name(columns: list[dict[str, Any]], space: Any, meanings: Sequence[str]) -> None:  # noqa: ANN401 - a space
    """Give the elements of a vector their meanings, where the spec has one for each."""
    if not isinstance(space, Box):
        return
    names = space.fields or (meanings if len(meanings) == space.size else ())
    for column, meaning in zip(columns, names, strict=False):
        column["name"] = shown(f"{column['name']} {meaning}")


def _text(paths: RunPaths, path: Any) -> dict[str, object] | None:  # noqa: ANN401 - a path
    found = excerpt(below(paths.root, path), MOST_TEXT)
    return found.document() if found and found.text.strip() else None
