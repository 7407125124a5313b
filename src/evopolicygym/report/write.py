"""Writing a report: which parts are wanted, what they need, and their files; nothing is computed twice."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from evopolicygym import __version__
from evopolicygym.analysis.diagnostics.base import DIAGNOSTICS
from evopolicygym.analysis.figures.base import FIGURES as DRAWINGS
from evopolicygym.analysis.figures.base import Drawing
from evopolicygym.analysis.findings import Findings, find
from evopolicygym.analysis.published import PublishedTable
from evopolicygym.analysis.results import Results
from evopolicygym.analysis.score_table import Choice
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.follow import Follow, unseen
from evopolicygym.core.printable import printable
from evopolicygym.core.protocol import PROTOCOL_VERSION
from evopolicygym.report.contents import (
    FIGURES,
    MARK,
    PAGE,
    TABLES,
    Contents,
    Part,
    document_text,
    files_of_old,
    in_order,
    make_room,
)
from evopolicygym.report.index import write_index
from evopolicygym.report.tables import ReportTable, tables


@dataclass(frozen=True, slots=True)
class Wanted:
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


def wanted(
    only: Sequence[str] = (), formats: Sequence[str] = ("svg", "png"), *, figures: bool = True, pages: bool = False
) -> Wanted:
    """Return what is wanted: parts of some names, or all; raise ``UnknownName``, or ``MissingExtra`` of figures."""
    known, drawn = tables(), DRAWINGS.names()
    for name in only:
        if name not in known and name not in drawn and ":" not in name:
            raise UnknownName("part of a report", name, {*known, *drawn})
    drawings: dict[str, Drawing] = {}
    if figures:
        from evopolicygym.analysis.figures.canvas import FORMATS  # where they are not to be drawn, it may be absent

        for form in formats:
            if form not in FORMATS:
                raise UnknownName("format of figures", form, FORMATS)
        names = [name for name in only if name in drawn or ":" in name] if only else drawn
        drawings = {name: DRAWINGS.load(name) for name in names}
        if drawings and not formats:
            raise UsageError("Figures were asked for in no format; --format names some, --no-figures leaves them out.")
    chosen = {name: one for name, one in known.items() if not only or name in only}
    if not chosen and not drawings:
        raise UsageError(f"Only {', '.join(only)} was asked for, which are figures, and --no-figures leaves them out.")
    return Wanted(chosen, drawings, tuple(dict.fromkeys(formats)), pages and not only)


def write_report(
    directory: Path,
    results: Results,
    shipped: Sequence[PublishedTable],
    parts: Wanted,
    *,
    command: str = "",
    choice: Choice | None = None,
    force: bool = False,
    follow: Follow = unseen,
) -> Contents:
    """Write a report and return what is in it; ``follow`` is handed what is gone through, to show how far it is.

    Raises ``UsageError`` where the directory holds something else, or runs can't stand in one table.
    """
    old = files_of_old(directory, force=force)
    findings = find(results, shipped, choice, parts.diagnostics, lambda runs: follow("reading runs", runs))
    make_room(directory, old)
    jobs: list[Callable[[], Part | None]] = [
        *(partial(_written, directory, name, table, findings) for name, table in parts.tables.items()),
        *(partial(_drawn, directory, name, one, findings, parts.formats) for name, one in parts.drawings.items()),
    ]
    made = [part for job in follow("writing", jobs) if (part := job())]
    contents = _contents(made, findings, shipped, command, has_pages=parts.has_pages)
    write_index(directory, contents)
    (directory / MARK).write_text(document_text(contents), encoding="utf-8")
    return contents


def _written(directory: Path, name: str, table: ReportTable, findings: Findings) -> Part | None:
    texts = table.write(findings)
    names = {f"{TABLES}/{_stem(name)}.{suffix}": text for suffix, text in texts.items()}
    for file, text in names.items():
        (directory / file).write_text(text, encoding="utf-8")
    return Part(_stem(name), "table", table.title, table.says, table.computed, tuple(names)) if names else None


def _drawn(directory: Path, name: str, drawing: Drawing, findings: Findings, formats: Sequence[str]) -> Part:
    from evopolicygym.analysis.figures.canvas import saved

    figure, files = drawing.draw(findings), []
    for form in formats:
        files.append(f"{FIGURES}/{_stem(name)}.{form}")
        (directory / files[-1]).write_bytes(saved(figure, form))
    return Part(_stem(name), "figure", drawing.title, drawing.says, drawing.computed, tuple(files))


def _stem(name: str) -> str:
    """Return what a part's files are called; a name from outside may hold anything."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", name)


def _contents(
    made: Iterable[Part], findings: Findings, shipped: Sequence[PublishedTable], command: str, *, has_pages: bool
) -> Contents:
    results = [run.result for run in findings.runs]
    return Contents(
        parts=in_order(made),
        command=printable(command),
        versions=_versions(),
        runs=len(results),
        entries=findings.labels,
        tasks=tuple(dict.fromkeys(run.task for run in sorted(results, key=lambda run: (run.family, run.task)))),
        shipped=tuple(table.source for table in shipped),
        isolation=_counted(run.isolation for run in results),
        fingerprints=_counted(run.fingerprint for run in results),
        notes=findings.board.notes if findings.board else (),
        page=PAGE if has_pages else None,
        problems=tuple({"run": printable(str(one.root)), "reason": one.reason} for one in findings.problems),
    )


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _versions() -> dict[str, str]:
    """Return the versions of what a report is made with."""
    found = {"evopolicygym": __version__, "protocol": PROTOCOL_VERSION, "numpy": version("numpy")}
    with suppress(PackageNotFoundError):
        found["matplotlib"] = version("matplotlib")
    return found
