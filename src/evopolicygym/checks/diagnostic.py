"""The check of a diagnostic: it measures a run and one without submissions, and describes any number of them."""

from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from typing import Any

from evopolicygym.analysis.diagnostic import DIAGNOSTICS, Diagnostic
from evopolicygym.analysis.tables.table import Table, format_tables
from evopolicygym.checks.played_run import Broken, attempt, played_run
from evopolicygym.core.check_result import CheckResult
from evopolicygym.core.errors import UnknownName
from evopolicygym.core.event import SubmissionCharged
from evopolicygym.core.run import fold
from evopolicygym.core.text import counted
from evopolicygym.records.reader import RunRecord, read_run


def check(name: str) -> Iterator[CheckResult]:
    """Check the diagnostic with a name; yield its findings. It ends early if the diagnostic can't be loaded."""
    if ":" not in name and name not in DIAGNOSTICS.names():
        raise UnknownName(DIAGNOSTICS.kind, name, DIAGNOSTICS.names())
    loaded = attempt("loads", lambda: _load(name))
    yield loaded
    if not loaded.ok:
        return
    diagnostic: Diagnostic[Any] = DIAGNOSTICS.load(name)
    with played_run() as root:
        record = read_run(root)
        yield attempt("measures a run", lambda: _measure(diagnostic, record))
        begun = next(index for index, event in enumerate(record.events) if isinstance(event, SubmissionCharged))
        empty = replace(record, events=record.events[:begun], state=fold(record.events[:begun]))
        yield attempt("measures a run without submissions", lambda: _measure(diagnostic, empty))
        yield attempt("sums up any number of runs", lambda: _sum_up(diagnostic, record))


def _load(name: str) -> str:
    diagnostic = DIAGNOSTICS.load(name)
    if not isinstance(diagnostic, Diagnostic):
        raise Broken(f"expected a Diagnostic, got a {type(diagnostic).__name__}")
    return "measure, table and summary are there"


def _measure(diagnostic: Diagnostic[Any], record: RunRecord) -> str:
    measured = diagnostic.measure(record)
    if not is_dataclass(measured):
        raise Broken(f"measure returned a {type(measured).__name__}; expected a frozen dataclass")
    if measured != diagnostic.measure(record):
        raise Broken("measured twice, the same run has two results")
    table = diagnostic.table(measured)
    if not isinstance(table, Table):
        raise Broken(f"table returned a {type(table).__name__}; expected a Table")
    format_tables([table], "markdown")
    return f"a table of {counted(len(table.rows), 'row')}"


def _sum_up(diagnostic: Diagnostic[Any], record: RunRecord) -> str:
    measured = diagnostic.measure(record)
    names = [list(diagnostic.summary([measured] * count)) for count in (1, 2)]
    if names[0] != names[1]:
        raise Broken(f"the summary of one run has {names[0]}, that of two {names[1]}")
    return ", ".join(names[0])
