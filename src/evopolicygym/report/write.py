"""Writing a report: which parts are wanted, what they need, and their files; nothing is computed twice."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from evopolicygym.analysis.diagnostic import DIAGNOSTICS
from evopolicygym.analysis.drawing.figure import FIGURES as DRAWINGS
from evopolicygym.analysis.drawing.figure import Drawing
from evopolicygym.analysis.findings import Findings, find
from evopolicygym.analysis.headroom.headroom import Surroundings
from evopolicygym.analysis.published.beside import Beside
from evopolicygym.analysis.published.score_tables import PublishedTable
from evopolicygym.analysis.ranking.score_table import Choice, comparable_runs
from evopolicygym.analysis.results import Results
from evopolicygym.core.cases import PROTOCOL_VERSION
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.follow import Follow, unseen
from evopolicygym.core.text import printable
from evopolicygym.report.contents import (
    FIGURES,
    MARK,
    PAGE,
    TABLES,
    Part,
    ReportContents,
    document_text,
    files_of_old,
    in_order,
    make_room,
)
from evopolicygym.report.index import write_index
from evopolicygym.report.tables import ReportTable, tables
from evopolicygym.version import __version__


@dataclass(frozen=True, slots=True)
class ReportSelection:
    """The parts of a report that are to be written."""

    tables: Mapping[str, ReportTable]
    drawings: Mapping[str, Drawing]
    formats: tuple[str, ...]
    """Of figures, the one to be shown first."""
    has_pages: bool = False
    """Whether the viewer's pages are to stand beside; the index leads to them, others write them."""

    @property
    def diagnostics(self) -> list[str]:
        """What has to be measured of each run."""
        needed = {name for one in self.drawings.values() for name in one.needs}
        return sorted(needed | (self.tables.keys() & set(DIAGNOSTICS.names())))


@dataclass(frozen=True, slots=True)
class ReportGroup:
    """What was found in a group of comparable runs, whose parts are apart from those of other groups."""

    title: str
    """Empty for the only one."""
    stem: str
    """What its parts' names end with; empty for the first."""
    findings: Findings

    def titled(self, title: str) -> str:
        """Return a part's title."""
        return f"{title} ({self.title})" if self.title else title


def wanted(
    only: Sequence[str] = (), formats: Sequence[str] = ("svg", "png"), *, figures: bool = True, pages: bool = False
) -> ReportSelection:
    """Return what is wanted: parts of some names, or all; raise ``UnknownName``, or ``MissingExtra`` of figures."""
    known, drawn = tables(), DRAWINGS.names()
    for name in only:
        if name not in known and name not in drawn and ":" not in name:
            raise UnknownName("part of a report", name, {*known, *drawn})
    drawings: dict[str, Drawing] = {}
    if figures:
        from evopolicygym.analysis.drawing.canvas import FORMATS  # where they are not to be drawn, it may be absent

        for form in formats:
            if form not in FORMATS:
                raise UnknownName("format of figures", form, FORMATS)
        names = [name for name in only if name in drawn or ":" in name] if only else drawn
        drawings = {name: DRAWINGS.load(name) for name in names}
        if drawings and not formats:
            raise UsageError("No format was given for figures; --format names some, --no-figures leaves figures out.")
    chosen = {name: one for name, one in known.items() if not only or name in only}
    if not chosen and not drawings:
        raise UsageError(
            f"There is nothing to write: {', '.join(only)} are figures, and --no-figures leaves figures out."
        )
    return ReportSelection(chosen, drawings, tuple(dict.fromkeys(formats)), pages and not only)


def write_report(
    directory: Path,
    results: Results,
    shipped: Beside,
    parts: ReportSelection,
    *,
    command: str = "",
    choice: Choice | None = None,
    force: bool = False,
    follow: Follow = unseen,
) -> ReportContents:
    """Write a report and return what is in it; ``follow`` is handed what is gone through, to show how far it is.

    Raises ``UsageError`` where the directory holds something else, or there is nothing to show.
    """
    old = files_of_old(directory, force=force)
    choice = choice or Choice()
    groups = comparable_runs(results.runs, shipped.tables, choice)
    apart = [
        ReportGroup(title=one.title, stem=f"_{at + 1}" if at else "", findings=find(
            Results(one.runs, () if at else results.problems), shipped.tables, choice, parts.diagnostics,
            lambda runs: follow("reading runs", runs),
        ))
        for at, one in enumerate(groups)
    ]  # fmt: skip
    apart = list(_with_surroundings(apart, shipped))
    make_room(directory, old)
    jobs: list[Callable[[], Part | None]] = []
    for one in apart:
        jobs += [partial(_written, directory, name, table, one) for name, table in parts.tables.items()]
        jobs += [
            partial(_drawn, directory, name, drawing, one, parts.formats) for name, drawing in parts.drawings.items()
        ]
    made = [part for job in follow("writing", jobs) if (part := job())]
    contents = _contents(made, [one.findings for one in apart], shipped.tables, command, has_pages=parts.has_pages)
    write_index(directory, contents)
    (directory / MARK).write_text(document_text(contents), encoding="utf-8")
    return contents


def _with_surroundings(groups: Sequence[ReportGroup], shipped: Beside) -> Iterator[ReportGroup]:
    """Yield each group with what is known besides its own table: other groups, and figures of other protocols."""
    ids = {**shipped.ids, **{run.result.task: run.result.game.id for one in groups for run in one.findings.runs}}
    for one in groups:
        others = [other.findings.table for other in groups if other is not one and other.findings.table]
        shown = {task.name for task in one.findings.table.tasks} if one.findings.table else set()
        figures = [found.narrowed(ids[name] for name in shown if name in ids) for found in shipped.figures]
        yield replace(one, findings=replace(one.findings, around=Surroundings(others, figures, ids)))


def _written(directory: Path, name: str, table: ReportTable, apart: ReportGroup) -> Part | None:
    texts, stem = table.write(apart.findings), _stem(name) + apart.stem
    names = {f"{TABLES}/{stem}.{suffix}": text for suffix, text in texts.items()}
    for file, text in names.items():
        (directory / file).write_text(text, encoding="utf-8")
    return Part(stem, "table", apart.titled(table.title), table.says, table.computed, tuple(names)) if names else None


def _drawn(directory: Path, name: str, drawing: Drawing, apart: ReportGroup, formats: Sequence[str]) -> Part:
    from evopolicygym.analysis.drawing.canvas import saved

    figure, files, stem = drawing.draw(apart.findings), [], _stem(name) + apart.stem
    for form in formats:
        files.append(f"{FIGURES}/{stem}.{form}")
        (directory / files[-1]).write_bytes(saved(figure, form))
    return Part(stem, "figure", apart.titled(drawing.title), drawing.says, drawing.computed, tuple(files))


def _stem(name: str) -> str:
    """Return what a part's files are called; a name from outside may hold anything."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", name)


def _contents(
    made: Iterable[Part], found: Sequence[Findings], shipped: Sequence[PublishedTable], command: str, *, has_pages: bool
) -> ReportContents:
    results = [run.result for one in found for run in one.runs]
    boards = [one.board for one in found if one.board]
    return ReportContents(
        parts=in_order(made),
        command=printable(command),
        versions=_versions(),
        runs=len(results),
        entries=_each(label for one in found for label in one.labels),
        tasks=tuple(dict.fromkeys(run.task for run in sorted(results, key=lambda run: (run.family, run.task)))),
        shipped=tuple(table.source for table in shipped),
        isolation=_counted(run.isolation for run in results),
        fingerprints=_counted(run.fingerprint for run in results),
        notes=_each(note for board in boards for note in board.notes),
        page=PAGE if has_pages else None,
        problems=tuple(
            {"run": printable(str(problem.root)), "reason": problem.reason} for one in found for problem in one.problems
        ),
    )


def _each(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _versions() -> dict[str, str]:
    """Return the versions of what a report is made with."""
    found = {"evopolicygym": __version__, "protocol": PROTOCOL_VERSION, "numpy": version("numpy")}
    with suppress(PackageNotFoundError):
        found["matplotlib"] = version("matplotlib")
    return found
