"""Whole runs on cartpole, small and real: a sandbox, a simulator, a judge."""

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.cases import CaseSet, Split
from evopolicygym.core.event import Event
from evopolicygym.core.run import RunState
from evopolicygym.core.task import BudgetRule, Task
from evopolicygym.records import journal
from evopolicygym.records.paths import RunPaths
from evopolicygym.runs.config import RunConfig
from evopolicygym.runs.run import play
from evopolicygym.specs import catalog

BUDGET, VALIDATION, HELD_OUT = 10, 2, 3
STANDALONE_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
MOST_DIGITS = 40
"""Seeds of 128 bits have 39 digits; a longer number is no seed."""


def config(runs: Path, agent: str = "players:make_evolver", budget: int = BUDGET, **changes: Any) -> RunConfig:
    """Return a small run on cartpole, on one core."""
    task = Task(catalog.load("cartpole"), BudgetRule(budget), validation_cases=VALIDATION, held_out_cases=HELD_OUT)
    return replace(RunConfig(task, AgentConfig(agent), runs=runs, workers=1), **changes)


@dataclass(slots=True)
class Told:
    """What a run tells while it is played."""

    paths: RunPaths
    state: RunState
    seen: list[tuple[Event, bool]] = field(default_factory=list)
    """Each event, with whether anything of the hidden episodes lay on disk by then."""

    def texts(self) -> Iterator[tuple[Path, str]]:
        """Yield every file of the record as text."""
        for path in sorted(self.paths.root.rglob("*")):
            if path.is_file():
                yield path, path.read_bytes().decode("latin-1")


def played(config: RunConfig, watch: Callable[[Event, RunState], None] = lambda _event, _state: None) -> Told:
    """Play a run to its end."""
    told: list[Told] = []

    def opened(paths: RunPaths, state: RunState) -> None:
        told.append(Told(paths, state))

    def observe(event: Event, state: RunState) -> None:
        told[0].seen.append((event, told[0].paths.evaluation.exists()))
        watch(event, state)

    state = play(config, opened, observe)
    told[0].state = state
    return told[0]


def printed(directory: Path) -> list[dict[str, Any]]:
    """Return what the policies of all episodes below a directory printed, in the order of episodes."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(directory.rglob("stdout.txt"))]


def events(paths: RunPaths) -> tuple[Event, ...]:
    """Return a run's events, as they are on disk."""
    return journal.read(paths.journal).events


def numbers(text: str) -> set[int]:
    """Return the whole numbers that stand alone in a text."""
    return {int(found) for found in STANDALONE_NUMBER.findall(text) if len(found) <= MOST_DIGITS}


def all_seeds(cases: CaseSet) -> set[int]:
    """Return the seeds of all splits, small ones aside: those are found everywhere."""
    return {seed for split in Split for seed in cases.seeds[split] if seed > 10**6}


@contextmanager
def state_kept_in(directory: Path) -> Iterator[None]:
    """Have secrets kept elsewhere for a while."""
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(directory)
    try:
        yield
    finally:
        if before is None:
            del os.environ["XDG_STATE_HOME"]
        else:
            os.environ["XDG_STATE_HOME"] = before
