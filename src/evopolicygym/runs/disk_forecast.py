"""The disk that a run may need for its train episodes, forecast before it opens; hidden episodes keep actions only."""

import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evopolicygym.core.errors import UsageError
from evopolicygym.core.spaces import Box, Dict, MultiBinary, MultiDiscrete, Space, Text, Tuple, from_schema
from evopolicygym.core.storage import size_text
from evopolicygym.core.task import Task
from evopolicygym.records.trajectories import MAX_INLINE

STEP_BYTES = 200
"""Bytes of a step in a trajectory without its observation (``benchmarks/big_run.py``)."""
NUMBER_BYTES = 20
"""Bytes of a number in a line of JSON."""
OUTPUT_BYTES = 100_000
"""Bytes of an episode without steps: its output and its error."""
LEAST_SHARE = 0.01
"""The share of the most that a run needs at least: images compress fifty-fold, and few episodes are full length."""


def forecast_bytes(task: Task, observation_schema: Mapping[str, Any]) -> int:
    """Return the bytes of all train episodes if each has all its steps and no observation can be compressed."""
    steps = 0
    if task.feedback.shows_episodes:
        steps = (task.environment.max_steps + 1) * _bytes_of_step(from_schema(observation_schema))
    return task.budget.episodes * (OUTPUT_BYTES + steps)


def refuse_full_disk(task: Task, observation_schema: Mapping[str, Any], directory: Path) -> None:
    """Raise ``UsageError`` if the disk of a run's directory can't hold even the least that it needs."""
    most, free = forecast_bytes(task, observation_schema), shutil.disk_usage(directory).free
    if most * LEAST_SHARE > free:
        raise UsageError(
            f"Invalid disk: expected {size_text(most * LEAST_SHARE)} or more free for {task.budget.episodes:,} train "
            f"episodes of up to {task.environment.max_steps:,} steps, got {size_text(free)} in {directory}. Use "
            f"another disk (--runs DIR), fewer episodes (--budget), or no trajectories (--feedback returns)."
        )


def disk_note(task: Task, observation_schema: Mapping[str, Any], directory: Path) -> str:
    """Return a note if a run may need more disk than is free; otherwise an empty text."""
    most, free = forecast_bytes(task, observation_schema), shutil.disk_usage(directory).free
    if most <= free:
        return ""
    return (
        f"This run may need up to {size_text(most)} of disk, and {size_text(free)} are free: its train episodes have "
        f"up to {task.environment.max_steps:,} steps. If the disk fills, the run stops and can be resumed."
    )


def _bytes_of_step(space: Space) -> int:
    numbers = _numbers(space)
    return STEP_BYTES + (NUMBER_BYTES * numbers if numbers <= MAX_INLINE else _array_bytes(space))


def _numbers(space: Space) -> int:
    match space:
        case Box() | MultiBinary():
            return math.prod(space.shape)
        case MultiDiscrete():
            return len(space.nvec)
        case Text():
            return -(-space.max_length // NUMBER_BYTES)
        case Tuple():
            return sum(map(_numbers, space.spaces))
        case Dict():
            return sum(_numbers(part) for _, part in space.spaces)
        case _:
            return 1


def _array_bytes(space: Space) -> int:
    """Return the bytes of a space's value in arrays."""
    match space:
        case Box():
            return math.prod(space.shape) * ITEM_BYTES.get(space.dtype, 8)
        case MultiBinary():
            return math.prod(space.shape)
        case Text():
            return 4 * space.max_length
        case Tuple():
            return sum(map(_array_bytes, space.spaces))
        case Dict():
            return sum(_array_bytes(part) for _, part in space.spaces)
        case _:
            return 8 * _numbers(space)


ITEM_BYTES = {"uint8": 1, "int8": 1, "bool": 1, "float16": 2, "int16": 2, "uint16": 2, "float32": 4, "int32": 4}
"""Bytes of an element by dtype; 8 of all others."""
