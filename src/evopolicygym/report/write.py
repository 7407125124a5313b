"""Writing a report: the selection of its parts, their measurements and their files."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from evopolicygym.analysis.conduct.audit_run import load_detectors
from evopolicygym.analysis.diagnostic import DIAGNOSTICS
from evopolicygym.analysis.drawing.figure import FIGURES as DRAWINGS
from evopolicygym.analysis.drawing.figure import Drawing
from evopolicygym.analysis.headroom.headroom import Surroundings
from evopolicygym.analysis.published.score_tables import PublishedData, PublishedTable
from evopolicygym.analysis.ranking.comparability import TableFilter, group_comparable
from evopolicygym.analysis.report_data import ReportData, find
from evopolicygym.analysis.results import Results
from evopolicygym.core.cases import PROTOCOL_VERSION
from evopolicygym.core.check_result import ProgressTracker, no_progress
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.text import printable, without_directories
from evopolicygym.records.reader import Problem
from evopolicygym.report.contents import (
    FIGURES,
    MARK,
    PAGE,
    TABLES,
    Part,
    ReportContents,
    format_report_json,
    prepare_output_dir,
    previous_report_files,
    sort_parts,
    write_index,
)
from evopolicygym.report.tables import ReportTable, tables
from evopolicygym.version import __version__

AUDITED = ("leaderboard", "conduct")
"""Tables that tell what an audit found."""


@dataclass(frozen=True, slots=True)
class ReportSelection:
    """The selected parts of a report."""

    tables: Mapping[str, ReportTable]
    drawings: Mapping[str, Drawing]
    formats: tuple[str, ...]
    """Formats of figures; the first is shown in the index."""
    has_pages: bool = False
    """Whether the index links to the viewer's pages, which the caller writes."""

    @property
    def has_audit(self) -> bool:
        """Whether a table tells what an audit found."""
        return not self.tables.keys().isdisjoint(AUDITED)

    @property
    def diagnostics(self) -> list[str]:
        """Diagnostics to measure for each run."""
        needed = {name for drawing in self.drawings.values() for name in drawing.needs}
        return sorted(needed | (self.tables.keys() & set(DIAGNOSTICS.names())))


@dataclass(frozen=True, slots=True)
class ReportGroup:
    """ReportData of one group of comparable runs, which has separate parts."""

    title: str
    """Empty for a single group."""
    stem: str
    """Suffix of its parts' names; empty for the first group."""
    data: ReportData

    def part_title(self, title: str) -> str:
        """Return a part's title."""
        return f"{title} ({self.title})" if self.title else title


def select_parts(
    only: Sequence[str] = (), formats: Sequence[str] = ("svg", "png"), *, figures: bool = True, pages: bool = False
) -> ReportSelection:
    """Return the named parts, or all; raise ``UnknownName``, or ``MissingExtra`` if figures need one."""
    known, drawn = tables(), DRAWINGS.names()
    for name in only:
        if name not in known and name not in drawn and ":" not in name:
            raise UnknownName("part of a report", name, {*known, *drawn})
    drawings: dict[str, Drawing] = {}
    if figures:
        from evopolicygym.analysis.drawing.canvas import FORMATS  # matplotlib may be missing if no figures are drawn

        for form in formats:
            if form not in FORMATS:
                raise UnknownName("format of figures", form, FORMATS)
        names = [name for name in only if name in drawn or ":" in name] if only else drawn
        drawings = {name: DRAWINGS.load(name) for name in names}
        if drawings and not formats:
            raise UsageError("Missing format of figures: pass --format, or --no-figures.")
    chosen = {name: table for name, table in known.items() if not only or name in only}
    if not chosen and not drawings:
        raise UsageError(f"--only {', '.join(only)} names figures only, which --no-figures excludes.")
    return ReportSelection(chosen, drawings, tuple(dict.fromkeys(formats)), pages and not only)


def write_report(
    directory: Path,
    results: Results,
    shipped: PublishedData,
    parts: ReportSelection,
    *,
    command: str = "",
    choice: TableFilter | None = None,
    force: bool = False,
    follow: ProgressTracker = no_progress,
) -> ReportContents:
    """Write a report and return its contents; ``follow`` wraps long loops to show progress.

    No path in it is absolute: those of runs are relative to ``results.paths``.

    Raises ``UsageError`` if the directory contains other files, or there is nothing to show.
    """
    old = previous_report_files(directory, force=force)
    choice = choice or TableFilter()
    groups = group_comparable(results.runs, shipped.tables, choice)
    report_groups = [
        ReportGroup(title=group.title, stem=f"_{index + 1}" if index else "", data=find(
            Results(group.runs, () if index else results.problems), shipped.tables, choice, parts.diagnostics,
            lambda runs: follow("reading runs", runs), load_detectors() if parts.has_audit else None,
        ))
        for index, group in enumerate(groups)
    ]  # fmt: skip
    local = partial(without_directories, directories=results.paths)
    report_groups = [_localised(group, local) for group in _with_surroundings(report_groups, shipped)]
    prepare_output_dir(directory, old)
    jobs: list[Callable[[], Part | None]] = []
    for group in report_groups:
        jobs += [partial(_write_table, directory, name, table, group, local) for name, table in parts.tables.items()]
        jobs += [
            partial(_draw_figure, directory, name, drawing, group, parts.formats)
            for name, drawing in parts.drawings.items()
        ]
    written = [part for job in follow("writing", jobs) if (part := job())]
    contents = _contents(
        written, [group.data for group in report_groups], shipped.tables, command, local, has_pages=parts.has_pages
    )
    write_index(directory, contents)
    (directory / MARK).write_text(format_report_json(contents), encoding="utf-8")
    return contents


def _localised(group: ReportGroup, local: Callable[[str], str]) -> ReportGroup:
    """Return a group whose problems name no directory of this machine, before tables escape characters of paths."""
    originals = group.data.problems
    problems = tuple(Problem(Path(local(str(problem.root))), local(problem.reason)) for problem in originals)
    return replace(group, data=replace(group.data, problems=problems))


def _with_surroundings(groups: Sequence[ReportGroup], shipped: PublishedData) -> Iterator[ReportGroup]:
    """Yield each group with its surroundings: other groups, and figures of other protocols."""
    ids = {
        **shipped.ids,
        **{run.result.task: run.result.environment.id for group in groups for run in group.data.runs},
    }
    for group in groups:
        others = [other.data.table for other in groups if other is not group and other.data.table]
        shown = {task.name for task in group.data.table.tasks} if group.data.table else set()
        figures = [figure.narrowed(ids[name] for name in shown if name in ids) for figure in shipped.figures]
        yield replace(group, data=replace(group.data, around=Surroundings(others, figures, ids)))


def _write_table(
    directory: Path, name: str, table: ReportTable, group: ReportGroup, local: Callable[[str], str]
) -> Part | None:
    texts, stem = table.write(group.data), _stem(name) + group.stem
    names = {f"{TABLES}/{stem}.{suffix}": text for suffix, text in texts.items()}
    for file, text in names.items():
        (directory / file).write_text(local(text), encoding="utf-8")
    return (
        Part(stem, "table", group.part_title(table.title), table.caption, table.method, tuple(names)) if names else None
    )


def _draw_figure(directory: Path, name: str, drawing: Drawing, group: ReportGroup, formats: Sequence[str]) -> Part:
    from evopolicygym.analysis.drawing.canvas import figure_bytes

    figure, files, stem = drawing.draw(group.data), [], _stem(name) + group.stem
    for form in formats:
        files.append(f"{FIGURES}/{stem}.{form}")
        (directory / files[-1]).write_bytes(figure_bytes(figure, form))
    return Part(stem, "figure", group.part_title(drawing.title), drawing.caption, drawing.method, tuple(files))


def _stem(name: str) -> str:
    """Return the file name of a part without unsafe characters."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", name)


def _contents(
    parts: Iterable[Part],
    data: Sequence[ReportData],
    shipped: Sequence[PublishedTable],
    command: str,
    local: Callable[[str], str],
    *,
    has_pages: bool,
) -> ReportContents:
    results = [run.result for group in data for run in group.runs]
    boards = [group.board for group in data if group.board]
    return ReportContents(
        parts=sort_parts(parts),
        command=printable(local(command)),
        versions=_versions(),
        runs=len(results),
        entries=_distinct(label for group in data for label in group.labels),
        tasks=tuple(dict.fromkeys(run.task for run in sorted(results, key=lambda run: (run.family, run.task)))),
        shipped=tuple(table.source for table in shipped),
        isolation=_count(run.isolation or "unknown" for run in results),
        fingerprints=_count(run.fingerprint for run in results),
        notes=_distinct(local(note) for board in boards for note in board.notes),
        page=PAGE if has_pages else None,
        problems=tuple(
            {"run": printable(local(str(problem.root))), "reason": local(problem.reason)}
            for group in data
            for problem in group.problems
        ),
    )


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _count(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _versions() -> dict[str, str]:
    """Return the versions of the software that makes a report."""
    versions = {"evopolicygym": __version__, "protocol": PROTOCOL_VERSION, "numpy": version("numpy")}
    with suppress(PackageNotFoundError):
        versions["matplotlib"] = version("matplotlib")
    return versions
