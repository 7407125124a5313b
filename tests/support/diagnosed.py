"""A run whose every diagnostic can be worked out by hand, written as a real journal with its checkpoints.

Uniform random scores 0. Of ten episodes it spends 2 on ``a``, 2 on ``b``, 1 on ``c``, which can't be imported, 3 on
``d``, which wins, and 2 on ``a`` again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from bundles import Files, lay_out
from evopolicygym.core.cases import Split
from evopolicygym.core.event import (
    AgentEnded,
    AgentStarted,
    CheckpointSelected,
    EpisodePlayed,
    Event,
    RunClosed,
    RunFinished,
    RunStatus,
    SubmissionCharged,
)
from evopolicygym.core.rollout import Failure, FailureReason
from evopolicygym.core.run import fold
from evopolicygym.core.score import estimate
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.core.task import Anchor, BudgetRule, EnvironmentSpec, Task
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import RunRecord, read_run
from evopolicygym.records.writer import RunWriter
from evopolicygym.specs import catalog
from fakes import TIME, TOY, episode, held_out, opening, published, validated

FROM_NOTHING = replace(TOY, random_anchor=Anchor(0.0, 0.0, 256))
"""The toy, on which uniform random scores 0."""
ACROBOT: dict[str, Any] = {
    field.name: getattr(catalog.load("acrobot"), field.name) for field in fields(EnvironmentSpec)
} | {"random_anchor": Anchor(-500.0, 1.0, 256)}
"""What makes a spec one that has published scores."""
BUNDLES: Mapping[str, Files] = {
    "a": {"policy.py": "import numpy\nimport planner\n\nGAIN = 1\n", "planner.py": "def plan(x):\n    return x\n"},
    "b": {"policy.py": "import numpy\nimport planner\n\nGAIN = 2\n", "planner.py": "def plan(x):\n    return x\n"},
    "c": {"policy.py": "import nothing\n"},
    "d": {"policy.py": "GAIN = 3\nif GAIN:\n    pass\n", "weights.json": "[1, 2]"},
}
USAGE = {"input": 900, "output": 100, "cost": 0.5}


def submitted(index: int, cases: Sequence[int], values: Sequence[float], checkpoint: str) -> list[Event]:
    """Return all events of a submission of these cases; it can't be imported where there are no values."""
    played = [
        EpisodePlayed(Split.TRAIN, checkpoint, place, episode(value), index) for place, value in enumerate(values)
    ]
    status = SubmissionStatus.OK if values else SubmissionStatus.IMPORT_ERROR
    return [SubmissionCharged(TIME, index, checkpoint, tuple(cases)), *played, published(index, status)]


def failing(events: Sequence[Event], position: int, reason: FailureReason) -> list[Event]:
    """Return a submission's events with one episode failed."""
    return [
        replace(event, episode=replace(event.episode, failure=Failure(reason, "it broke")))
        if isinstance(event, EpisodePlayed) and event.position == position
        else event
        for event in events
    ]


def closing(events: Sequence[Event], validation: Mapping[str, Sequence[float]], score: Sequence[float]) -> list[Event]:
    """Return all events of a run: validation of each checkpoint, selection, and held-out returns of what it selects."""
    reason = fold(events).close_reason
    played = [
        *events,
        RunClosed(TIME, reason),
        *(one for name, means in validation.items() for one in validated(name, means)),
    ]
    state = fold(played)
    choice = state.choice()
    assert choice is not None
    name = state.submissions[choice.submit_index].charged.checkpoint
    selected = CheckpointSelected(TIME, choice.submit_index, name, choice.validation_mean)
    found = estimate(score)
    return [
        *played,
        selected,
        *held_out(name, score),
        RunFinished(TIME, RunStatus.SCORED, found.mean, found.standard_error),
    ]


def known_run(environment: EnvironmentSpec = FROM_NOTHING, usage: Mapping[str, float] = USAGE) -> list[Event]:
    """Return all events of the run."""
    events = [
        opening(task=Task(environment, BudgetRule(10), validation_cases=2, held_out_cases=3, train_cases=16)),
        AgentStarted(TIME, 0),
        *submitted(0, [0, 1], [1.0, 2.0], "a"),
        *failing(submitted(1, [1, 1], [0.0, 0.0], "b"), 1, FailureReason.ERROR),
        *submitted(2, [2], [], "c"),
        *submitted(3, [2, 3, 0], [6.0, 7.0, 8.0], "d"),
        *failing(submitted(4, [4, 4], [3.0, 3.0], "a"), 0, FailureReason.TIMEOUT),
        AgentEnded(TIME, 0, "finished", usage=usage),
    ]
    return closing(events, {"a": [1.0, 3.0], "b": [0.0, 2.0], "d": [5.0, 7.0]}, [4.0, 5.0, 6.0])


def recorded(root: Path, events: Sequence[Event], bundles: Mapping[str, Files] = BUNDLES) -> RunRecord:
    """Write a run's journal, its document and its checkpoints, and read it back."""
    with RunWriter(root, events[0]) as writer:
        for event in events[1:]:
            writer.record(event, flush=False)
        writer.write_document()
    for name, files in bundles.items():
        lay_out(RunPaths(root).checkpoint(name), files)
    return read_run(root)


def unwritten(events: list[Event]) -> RunRecord:
    """Return a record that lies nowhere, for what looks at the journal alone."""
    return RunRecord(RunPaths(Path("nowhere")), tuple(events), fold(events), 0, ())
