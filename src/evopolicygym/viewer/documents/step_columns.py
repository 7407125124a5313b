"""Steps as columns of numbers, thinned where they are many.

A column has a value for each step that is kept, and one for where the last step led to.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evopolicygym.core.errors import RecordError
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.trajectories import ACTIONS, OBSERVATIONS, TRAJECTORY, Step
from evopolicygym.viewer.documents.reading import below, shown

MOST_STEPS = 2000
"""Steps that a document holds; of more, every second, third, … and the last."""
MOST_COLUMNS = 48
"""Numbers of an observation, or of an action, that are shown."""
DIGITS = 6
"""Significant digits of what is drawn."""
Kept = tuple[Step, Mapping[str, float], Mapping[str, float]]
"""A step, the numbers of its observation, those of its action."""


def thinned_steps(steps: int) -> list[int]:
    """Return which steps are kept of so many, counted from 0, and last of all their number: where they led to."""
    stride = math.ceil(max(1, steps) / MOST_STEPS)
    at = list(range(0, steps, stride))
    if at and at[-1] != steps - 1:
        at.append(steps - 1)
    return [*at, steps]


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
        for index, part in enumerate(value):
            yield from _flat(part, f"{name}[{index}]")
    elif isinstance(value, bool | int | float) or value in {"NaN", "Inf", "-Inf"}:
        yield name, float(value)


def thinned(kept: Sequence[Kept], led_to: Mapping[str, float], components: Sequence[str]) -> dict[str, Any]:
    """Return columns of every so manieth step and the last, and of where that led to; the return counts all steps.

    ``t`` has the steps, the number of them last: there nothing is done any more, only seen.
    """
    if not kept:
        return {"steps": 0, "every": 1, "t": [], "rewards": [], "returns": [], "clipped": []} | {
            name: [] for name in ("observations", "actions", "components")
        }
    at = thinned_steps(len(kept))
    steps = at[:-1]
    rewards = np.array([step.reward for step, _, _ in kept], dtype=float)
    sums = np.cumsum(rewards)
    return {
        "steps": len(kept),
        "every": at[1] - at[0],
        "t": at,
        "rewards": [*_rounded(rewards[index] for index in steps), None],
        "returns": _rounded([*(sums[index] for index in steps), sums[-1]]),
        "observations": _columns([*(kept[index][1] for index in steps), led_to]),
        "actions": _columns([*(kept[index][2] for index in steps), {}]),
        "components": _columns([*(_parts(kept[index][0].info, components) for index in steps), {}]),
        "clipped": [index for index in steps if kept[index][0].clipped],
    }


def _parts(info: Any, names: Sequence[str]) -> dict[str, float]:  # noqa: ANN401 - what a simulator reported
    reported = info if isinstance(info, dict) else {}
    return {name: float(reported[name]) for name in names if isinstance(reported.get(name), int | float)}


def _columns(rows: Sequence[Mapping[str, float]]) -> list[dict[str, Any]]:
    names = list(rows[0]) if rows else []
    return [{"name": shown(name), "values": _rounded(row.get(name, math.nan) for row in rows)} for name in names]


def _rounded(values: Any) -> list[float | None]:  # noqa: ANN401 - any numbers
    return [float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None for value in values]


MOST_BYTES = 256 << 20
"""Most bytes of a file of steps."""


def step_files(record: RunRecord, folder: Path) -> list[Path] | None:
    """Return the files of an episode's steps; None where there are none, or where a link stands for one.

    Raises ``RecordError`` where one is larger than is read.
    """
    root = record.paths.root
    names = (TRAJECTORY, OBSERVATIONS, ACTIONS)
    if below(root, folder) is None or any((folder / name).is_symlink() for name in names):
        return None
    files = [file for name in names if (file := below(root, folder / name)) is not None]
    for file in files:
        if file.stat().st_size > MOST_BYTES:
            raise RecordError(
                f"The steps in {folder.name} are larger than {MOST_BYTES >> 20} MiB, which is more than is read."
            )
    return files or None
