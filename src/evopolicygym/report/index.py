"""``README.md`` of a report: all its figures and tables in reading order, what they say, and what they stand on."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from evopolicygym.analysis.tables.formats import in_markdown
from evopolicygym.core.text import counted
from evopolicygym.report.contents import INDEX, MARK, Part, ReportContents

MOST_LINES = 40
"""Of a table that is shown here; a longer one is only linked."""


def write_index(directory: Path, contents: ReportContents) -> None:
    """Write the page."""
    text = "\n".join(_lines(directory, contents)) + "\n"
    (directory / INDEX).write_text(text, encoding="utf-8")


def _lines(directory: Path, contents: ReportContents) -> Iterator[str]:
    entries = f"{len(contents.entries)} {'entry' if len(contents.entries) == 1 else 'entries'}"
    runs, tasks = counted(contents.runs, "finished run"), counted(len(contents.tasks), "task")
    yield from ("# Report", "", f"{runs} of {entries} on {tasks}.", "")
    if contents.page:
        yield from (f"The runs themselves, in a browser: [{contents.page}]({contents.page}).", "")
    for name in contents.names:
        parts = [part for part in contents.parts if part.name == name]
        yield from (f"## {parts[0].title}", "")
        for part in parts:
            yield from _part(directory, part)
    yield from _stands_on(contents)


def _part(directory: Path, part: Part) -> Iterator[str]:
    links = ", ".join(f"[{Path(file).suffix[1:]}]({file})" for file in part.files)
    first = directory / part.files[0]
    if part.kind == "figure":
        yield from (f"![{part.title}]({part.files[0]})", "")
    yield from (f"{part.says} {part.computed} ({part.kind}: {links})", "")
    if part.kind == "table" and first.suffix == ".md":
        text = first.read_text(encoding="utf-8").rstrip("\n")
        if text.count("\n") < MOST_LINES:
            yield from (text, "")


def _stands_on(contents: ReportContents) -> Iterator[str]:
    yield from ("## What this stands on", "")
    yield from ("Made by:", "", *(f"    {line}" for line in contents.command.splitlines()), "")
    yield f"- versions: {_listed(contents.versions)}"
    yield f"- runs by isolation level: {_listed(contents.isolation)}"
    yield f"- runs by fingerprint of protocol and packages: {_listed(contents.fingerprints)}"
    yield f"- shipped tables: {in_markdown(', '.join(contents.shipped) or 'none')}"
    yield f"- the same for programs: [{MARK}]({MARK})"
    yield from (f"- {in_markdown(note)}" for note in contents.notes)
    yield from ("", "### Problems", "")
    if contents.problems:
        yield from (f"- {in_markdown(one['run'])}: {in_markdown(one['reason'])}" for one in contents.problems)
    else:
        yield "None: every run below the named places is finished and could be read."


def _listed(counts: Mapping[str, object]) -> str:
    return ", ".join(f"{in_markdown(name)} {in_markdown(str(count))}" for name, count in counts.items()) or "none"
