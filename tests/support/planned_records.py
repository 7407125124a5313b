"""Records of planned runs, as far as a test writes them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evopolicygym.core.event import Event, RunOpened
from evopolicygym.records.journal import Journal
from evopolicygym.runs.suites.suite import PlannedRun
from fakes import opening


def opened(run: PlannedRun, **changes: Any) -> RunOpened:
    """Return how the record of a planned run begins."""
    config = run.config
    return opening(task=config.task, agent=config.agent, split=config.split, **changes)


def lay(root: Path, events: Sequence[Event]) -> Path:
    """Write a journal; return its run's directory."""
    root.mkdir(parents=True)
    with Journal(root / "journal.jsonl") as journal:
        for event in events:
            journal.append(event, flush=False)
    return root
