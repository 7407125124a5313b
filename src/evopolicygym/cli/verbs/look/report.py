"""``evopolicygym report``: write all tables, figures and pages of runs into a directory."""

import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.progress import track
from rich.table import Table
from rich.text import Text

from evopolicygym.analysis.published.score_tables import load_published, shipped_names
from evopolicygym.analysis.ranking.comparability import TableFilter
from evopolicygym.analysis.results import load_results
from evopolicygym.cli.interruption import interruptible
from evopolicygym.cli.options import RunsBelow, RunsOrShipped, split_names
from evopolicygym.cli.output import err, out, print_json
from evopolicygym.cli.tables import print_problems
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.text import counted
from evopolicygym.records.reader import find_paths
from evopolicygym.report.contents import ReportContents
from evopolicygym.report.write import select_parts, write_report
from evopolicygym.viewer.site.document_cache import CacheTally, Episodes
from evopolicygym.viewer.site.pages import Pages, clear_pages, write_pages, write_single_file

Each = TypeVar("Each")
EXAMPLES = """
Examples:

evopolicygym report runs -o report --tables paper,published

evopolicygym report runs/mine -o figures --only learning_curve,edits --format png

evopolicygym report runs -o tables --no-figures --no-pages

evopolicygym report runs --single-file runs.html --episodes all --most-mb 100

Exit codes: 0 written, 1 writing failed, 2 invalid request, 130 interrupted (give the same command again).
"""


def report(
    runs: RunsOrShipped = None,
    *,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The directory to write into.")] = None,
    single_file: Annotated[
        Path | None, typer.Option("--single-file", help="A single HTML file to write the viewer's pages into.")
    ] = None,
    tables: Annotated[str, typer.Option("--tables", help="Shipped tables to show with the runs, such as paper.")] = "",
    form: Annotated[
        str, typer.Option("--format", help="Formats of figures: svg, png, pdf; several with commas.")
    ] = "svg,png",
    only: Annotated[
        list[str] | None,
        typer.Option(help="A table's or figure's name, such as edits; several with commas. Writes no pages."),
    ] = None,
    no_figures: Annotated[bool, typer.Option("--no-figures", help="Write no figures; needs no matplotlib.")] = False,
    no_pages: Annotated[bool, typer.Option("--no-pages", help="Write no pages into the directory.")] = False,
    episodes: Annotated[
        str,
        typer.Option(help="Episodes whose steps the pages contain: selected (the selected checkpoint's), none, all."),
    ] = "selected",
    most_mb: Annotated[
        float | None, typer.Option(help="The largest size of the pages in MB. Default: 256; 32 in a single file.")
    ] = None,
    allow_incomparable: Annotated[
        bool, typer.Option("--allow-incomparable", help="Pool runs that are not comparable, in one table.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Write into a directory with other files.")] = False,
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write tables, figures and the viewer's pages of runs into a directory with an index, or the pages as one file."""

    def follow(description: str, each: Sequence[Each], /) -> Iterable[Each]:
        return track(each, description, len(each), console=err(), disable=as_json)

    if output is None and single_file is None:
        raise UsageError("Missing output: pass -o DIR, or --single-file FILE.html for the pages alone.")
    published = load_published(split_names(tables))
    paths = find_paths(runs or None, below, needed=not published.tables)
    ranked = [name for name in split_names(tables) if name in shipped_names()]
    pages = Pages(paths, ranked, _parse_episodes(episodes), _parse_bytes(most_mb))
    document: dict[str, Any] = {}
    with interruptible():
        if output is not None:
            parts = select_parts(
                split_names(",".join(only or ())), split_names(form), figures=not no_figures, pages=not no_pages
            )
            results = load_results(paths, needed=not published.tables)
            if not as_json:
                print_problems(err(), results.problems)
            contents = write_report(
                output, results, published, parts, command=_command(),
                choice=TableFilter(mix=allow_incomparable), force=force, follow=follow,
            )  # fmt: skip
            clear_pages(output)
            document |= {"directory": str(output), **asdict(contents)}
            if not as_json:
                _print(contents, output)
            if parts.has_pages:
                tally = write_pages(output, replace(pages, report=document["parts"]), follow)
                document["pages"] = _print_page(output / "index.html", tally, quiet=as_json)
        if single_file is not None:
            document["single_file"] = _print_page(
                single_file, write_single_file(single_file, pages, follow), quiet=as_json
            )
    if as_json:
        print_json(document)


def _parse_episodes(name: str) -> "Episodes":
    if name not in list(Episodes):
        raise UnknownName("choice of episodes", name, list(Episodes))
    return Episodes(name)


def _parse_bytes(most_mb: float | None) -> int | None:
    if most_mb is not None and not 0 < most_mb < float("inf"):
        raise UsageError(f"Invalid --most-mb: expected a number above 0, got {most_mb:g}.")
    return None if most_mb is None else int(most_mb * (1 << 20))


def _print_page(page: Path, tally: "CacheTally", *, quiet: bool) -> dict[str, Any]:
    """Print, unless quiet, what a page contains; return it as JSON."""
    if not quiet:
        films = f", {tally.films} films" if tally.films else ""
        left_out = f"; {tally.left_out} documents left out by --most-mb" if tally.left_out else ""
        size = f"{tally.written / (1 << 20):.1f} MB"
        out().print(Text(f"{page}: pages of {tally.documents} documents{films}, {size}{left_out}"), soft_wrap=True)
    return {"page": str(page), **asdict(tally)}


def _command() -> str:
    """Return the command line for readers elsewhere: of an absolute path, the last name."""
    return shlex.join(["evopolicygym", *(re.sub(r"(^|=)/.*?([^/]*)/*$", r"\1\2", word) for word in sys.argv[1:])])


def _print(contents: "ReportContents", directory: Path) -> None:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for heading in ("part", "", "files"):
        table.add_column(heading, no_wrap=True)
    for part in contents.parts:
        table.add_row(Text(part.name), part.kind, Text(", ".join(Path(file).suffix[1:] for file in part.files)))
    out().print(table)
    left_out = f", {len(contents.problems)} problems" if contents.problems else ""
    out().print(
        Text(f"{counted(contents.runs, 'run')}{left_out}; start with {directory / (contents.page or 'README.md')}"),
        soft_wrap=True,
    )
