"""Made-up runs for tests of statistics and tables: documents that no run made, and event logs without files.

The door for records (``records/checked.py``) refuses them, as it should. A test that is marked ``made_up`` has them
taken, and tests nothing of what the door promises.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from evopolicygym.analysis.results import result_of
from evopolicygym.core import regular_file
from evopolicygym.core.run_summary import RunSummary
from evopolicygym.records import checked
from evopolicygym.records.checked import CheckedRun, RecordState
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import DOCUMENT, JOURNAL, read_run
from evopolicygym.records.rows import RunRow
from evopolicygym.records.run_document import MAX_BYTES, decode, record_text
from places import SUPPORT

IN_ANOTHER_PROCESS = f"""
import sys
sys.path.append({str(SUPPORT)!r})
from made_up import take_made_up_runs
from pytest import MonkeyPatch
take_made_up_runs(MonkeyPatch())
"""
"""The beginning of a program that takes made-up runs."""


def take_made_up_runs(patch: pytest.MonkeyPatch) -> None:
    """Have directories with a ``run.json`` alone taken for runs, and no record checked."""
    patch.setattr(checked, "scan", _scan)
    patch.setattr(checked, "_check", _check)
    patch.setattr(checked, "_state", lambda _summary, _found, **_: (RecordState.PLAYED_HERE, ""))


def load_result(root: Path) -> RunRow:
    """Return the result of one run."""
    return result_of(checked.open_run(root))


def opened(*paths: str | Path) -> tuple[CheckedRun, ...]:
    """Return the runs at or below some paths."""
    return checked.open_usable_runs(map(Path, paths)).runs


def _scan(below: Path) -> Iterator[Path]:
    for directory, directories, files in os.walk(below):
        directories.sort()
        if not {JOURNAL, DOCUMENT}.isdisjoint(files):
            directories.clear()
            yield Path(directory)


def _check(root: Path) -> tuple[RunSummary, None]:
    paths = RunPaths(root)
    if paths.journal.exists():
        summary = decode(record_text(read_run(root)))
    else:
        summary = decode(regular_file.read(paths.document, MAX_BYTES).decode("utf-8", "replace"))
    return summary, None
