"""Exporters, figures and diagnostics for tests that don't keep their contracts, each in one way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from evopolicygym.analysis.diagnostic import DIAGNOSTICS, Diagnostic
from evopolicygym.analysis.drawing.figure import Drawing
from evopolicygym.analysis.report_data import ReportData
from evopolicygym.analysis.tables.table import Cell, table_of
from evopolicygym.export.exporters import WrittenFile
from evopolicygym.export.formats import csv
from evopolicygym.records.reader import RunRecord


class NoExporter:
    """Is derived from nothing."""


class NoFiles(csv.Exporter):
    """Says that it wrote nothing."""

    def finish(self) -> list[WrittenFile]:
        """Return nothing."""
        super().finish()
        return []


class WrongPaths(csv.Exporter):
    """Names files that aren't there."""

    def finish(self) -> list[WrittenFile]:
        """Return other paths."""
        return [replace(file, path=Path(f"{file.path}.gz")) for file in super().finish()]


class Incomplete(csv.Exporter):
    """Leaves a part of a file."""

    def finish(self) -> list[WrittenFile]:
        """Write one more file."""
        (self.directory / "more.csv.part").write_text("", encoding="utf-8")
        return super().finish()


class Grows(csv.Exporter):
    """Writes another file each time."""

    def finish(self) -> list[WrittenFile]:
        """Write one more file."""
        name = f"more-{len(list(self.directory.iterdir()))}.csv"
        (self.directory / name).write_text("", encoding="utf-8")
        return super().finish()


class Keeps(csv.Exporter):
    """Leaves its files where it fails."""

    def abort(self) -> None:
        """Close the files, and leave them."""
        for writer in self._writers.values():
            writer.close()


def _draw_first(data: ReportData) -> Figure:
    figure = Figure()
    figure.suptitle(data.runs[0].result.task)
    return figure


_drawn = count()


def _draw_otherwise(_findings: ReportData) -> Figure:
    figure = Figure()
    figure.suptitle(str(next(_drawn)))
    return figure


NO_DRAWING = object()
UNTITLED = Drawing("", "", "counted", _draw_otherwise)
NEEDY = Drawing("Needy", "says", "counted", _draw_otherwise, needs=("nothing",))
FAILS_WITHOUT_RUNS = Drawing("Fails", "says", "counted", _draw_first)
CHANGES = Drawing("Changes", "says", "counted", _draw_otherwise)

_budget: Diagnostic[Any] = DIAGNOSTICS.load("budget")


@dataclass(frozen=True, slots=True)
class _First:
    value: float


def _measure_first(record: RunRecord) -> _First:
    return _First(record.state.submissions[0].returns[0])


def _sum_up(measured: Sequence[Any]) -> Mapping[str, Cell]:
    return {f"mean of {len(measured)}": 1}


NO_DIAGNOSTIC = object()
NEEDS_SUBMISSIONS: Diagnostic[Any] = Diagnostic(
    _measure_first, lambda _first: table_of("first", ("value",), ()), lambda _all: {}
)
NO_DATACLASS: Diagnostic[Any] = replace(_budget, measure=lambda _record: {})
NO_TABLE: Diagnostic[Any] = replace(_budget, table=lambda _measured: ())
OTHER_NAMES: Diagnostic[Any] = replace(_budget, summary=_sum_up)
