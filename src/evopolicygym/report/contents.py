"""The contents of a report: ``report.json``, which identifies a report's directory, and its index ``README.md``.

Other programs, such as the viewer, read ``report.json``, whose paths are relative to the directory.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from evopolicygym.analysis.tables.table import in_markdown
from evopolicygym.core.errors import UsageError
from evopolicygym.core.strict_json import dumps
from evopolicygym.core.text import counted

MARK = "report.json"
FORM = "evopolicygym report 1"
INDEX = "README.md"
PAGE = "index.html"
"""The viewer's first page, if its pages are in the report."""
TABLES, FIGURES = "tables", "figures"
ORDER = (
    "leaderboard", "conduct", "families", "aggregates", "profiles", "tasks", "compare", "headroom", "published",
    "learning_curve", "learning_families", "budget", "edits", "lineage", "topologies", "code", "generalisation",
    "failures", "cost",
)  # fmt: skip
"""Reading order of parts; others follow by name."""
_GROUP = re.compile(r"_([0-9]+)$")
"""Suffix of parts' names: the number of their group, from the second on."""
_OURS = re.compile(rf"({TABLES}|{FIGURES})/[A-Za-z0-9_]+\.(csv|json|md|tex|svg|png|pdf)|{re.escape(INDEX)}")


@dataclass(frozen=True, slots=True)
class Part:
    """A table or a figure with its files."""

    name: str
    kind: str
    """``figure`` or ``table``."""
    title: str
    caption: str
    """A sentence on its content."""
    method: str
    """A sentence on its computation."""
    files: tuple[str, ...]
    """Paths relative to the report; the first is shown in the index."""


@dataclass(frozen=True, slots=True)
class ReportContents:
    """The parts of a report, and their provenance."""

    parts: tuple[Part, ...]
    """In reading order."""
    command: str
    versions: Mapping[str, str]
    """Versions of the software that made it, by name."""
    runs: int
    """Number of finished runs."""
    entries: tuple[str, ...]
    """Entries with runs, best first."""
    tasks: tuple[str, ...]
    """Tasks of the runs; shipped tables may have more."""
    shipped: tuple[str, ...]
    """Sources of the shipped tables."""
    isolation: Mapping[str, int]
    """Number of runs by isolation level."""
    fingerprints: Mapping[str, int]
    """Number of runs by fingerprint of protocol and package versions."""
    notes: tuple[str, ...]
    page: str | None
    """The viewer's first page; None without pages."""
    problems: tuple[Mapping[str, str], ...]
    """Omitted runs with reasons."""

    @property
    def names(self) -> list[str]:
        """The names of parts, in reading order; a table and a figure may share one."""
        return list(dict.fromkeys(part.name for part in self.parts))


def sort_parts(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return parts in reading order, a figure before its table."""
    order = {name: index for index, name in enumerate(ORDER)}

    def reading_order(part: Part) -> tuple[int, int, str, str]:
        number = _GROUP.search(part.name)
        name = _GROUP.sub("", part.name)
        return int(number[1]) if number else 1, order.get(name, len(ORDER)), name, part.kind

    return tuple(sorted(parts, key=reading_order))


def format_report_json(contents: ReportContents) -> str:
    """Return ``report.json``."""
    return dumps({"form": FORM, **asdict(contents)}, indent=2) + "\n"


def previous_report_files(directory: Path, *, force: bool) -> list[str]:
    """Return the files of the report in a directory.

    Raises ``UsageError`` if the directory contains other files, unless forced.
    """
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file; expected a directory to write the report into.")
    try:
        document = json.loads((directory / MARK).read_text(encoding="utf-8"))
        is_report = document["form"] == FORM
        files = [*(file for part in document["parts"] for file in part["files"]), INDEX] if is_report else []
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        is_report, files = False, []
    if not is_report and directory.is_dir() and any(directory.iterdir()) and not force:
        raise UsageError(
            f"{directory} is not empty and contains no report ({MARK}). Name another directory, or pass --force, which "
            f"keeps files of other names."
        )
    return [name for name in files if isinstance(name, str) and _OURS.fullmatch(name)]


def prepare_output_dir(directory: Path, old: Iterable[str]) -> None:
    """Remove an old report's files from a directory, and mark it as a report."""
    for name in old:
        (directory / name).unlink(missing_ok=True)
    for folder in (directory, directory / TABLES, directory / FIGURES):
        folder.mkdir(parents=True, exist_ok=True)
    (directory / MARK).write_text(dumps({"form": FORM, "parts": []}) + "\n", encoding="utf-8")


MAX_LINES = 40
"""Longest table that the index shows; a longer one is linked."""


def write_index(directory: Path, contents: ReportContents) -> None:
    """Write the index."""
    text = "\n".join(_lines(directory, contents)) + "\n"
    (directory / INDEX).write_text(text, encoding="utf-8")


def _lines(directory: Path, contents: ReportContents) -> Iterator[str]:
    entries = f"{len(contents.entries)} {'entry' if len(contents.entries) == 1 else 'entries'}"
    runs, tasks = counted(contents.runs, "finished run"), counted(len(contents.tasks), "task")
    yield from ("# Report", "", f"{runs} of {entries} on {tasks}.", "")
    if contents.page:
        yield from (f"The runs in a browser: [{contents.page}]({contents.page}).", "")
    for name in contents.names:
        parts = [part for part in contents.parts if part.name == name]
        yield from (f"## {parts[0].title}", "")
        for part in parts:
            yield from _part(directory, part)
    yield from _provenance(contents)


def _part(directory: Path, part: Part) -> Iterator[str]:
    links = ", ".join(f"[{Path(file).suffix[1:]}]({file})" for file in part.files)
    first = directory / part.files[0]
    if part.kind == "figure":
        yield from (f"![{part.title}]({part.files[0]})", "")
    yield from (f"{part.caption} {part.method} ({part.kind}: {links})", "")
    if part.kind == "table" and first.suffix == ".md":
        text = first.read_text(encoding="utf-8").rstrip("\n")
        if text.count("\n") < MAX_LINES:
            yield from (text, "")


def _provenance(contents: ReportContents) -> Iterator[str]:
    yield from ("## Provenance", "")
    yield from ("Made by:", "", *(f"    {line}" for line in contents.command.splitlines()), "")
    yield f"- versions: {_format_counts(contents.versions)}"
    yield f"- runs by isolation level: {_format_counts(contents.isolation)}"
    yield f"- runs by fingerprint of protocol and packages: {_format_counts(contents.fingerprints)}"
    yield f"- shipped tables: {in_markdown(', '.join(contents.shipped) or 'none')}"
    yield f"- the same for programs: [{MARK}]({MARK})"
    yield from (f"- {in_markdown(note)}" for note in contents.notes)
    yield from ("", "### Problems", "")
    if contents.problems:
        yield from (
            f"- {in_markdown(problem['run'])}: {in_markdown(problem['reason'])}" for problem in contents.problems
        )
    else:
        yield "None: every run is finished and readable."


def _format_counts(counts: Mapping[str, object]) -> str:
    return ", ".join(f"{in_markdown(name)} {in_markdown(str(count))}" for name, count in counts.items()) or "none"
