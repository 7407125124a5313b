"""``evopolicygym report``: all tables and figures of some runs, in one directory."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from evopolicygym.cli.console import err, interruptible, out

if TYPE_CHECKING:
    from evopolicygym.report.contents import Contents

Each = TypeVar("Each")
EXAMPLES = """
Examples:

evopolicygym report runs -o report --with paper

evopolicygym report runs/mine -o figures --only learning_curve --only edits --format png

evopolicygym report runs -o tables --no-figures

Exit codes: 0 written, 1 it can't be written, 2 asked for what can't be done, 130 interrupted (the same command again).
"""


def report(
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Runs, or directories with runs below. Default: runs, unless --with.")
    ] = None,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The directory to write into.")],
    shipped: Annotated[str, typer.Option("--with", help="Shipped tables to stand beside, such as paper.")] = "",
    form: Annotated[str, typer.Option("--format", help="Of figures: svg, png, or both with a comma.")] = "svg,png",
    only: Annotated[
        list[str] | None, typer.Option(help="A table's and figure's name, such as edits; may be given several times.")
    ] = None,
    no_figures: Annotated[bool, typer.Option("--no-figures", help="Write tables alone; needs no matplotlib.")] = False,
    mix: Annotated[bool, typer.Option("--mix", help="Show runs together that were not measured alike.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write into a directory that holds something else.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write all tables and figures of runs into one directory, with an index that says what is what."""
    from evopolicygym.analysis.published import shipped as shipped_table
    from evopolicygym.analysis.results import load_results
    from evopolicygym.analysis.score_table import Choice
    from evopolicygym.cli.tables import places, tell_problems
    from evopolicygym.records.jsontext import dumps
    from evopolicygym.report.write import wanted, write_report

    def follow(what: str, each: Sequence[Each], /) -> Iterable[Each]:
        from rich.progress import track

        return track(each, what, len(each), console=err(), disable=as_json)

    parts = wanted(only or (), _names(form), figures=not no_figures)
    beside = [shipped_table(name) for name in _names(shipped)]
    with interruptible():
        results = load_results(places(runs, needed=not beside))
        if not as_json:
            tell_problems(results.problems)
        contents = write_report(
            output, results, beside, parts, command=_command(), choice=Choice(mix=mix), force=force, follow=follow
        )
    if as_json:
        typer.echo(dumps({"directory": str(output), **_document(contents)}, indent=2))
    else:
        _print(contents, output)


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]


def _command() -> str:
    """Return what was typed."""
    import shlex
    import sys

    return shlex.join(["evopolicygym", *sys.argv[1:]])


def _document(contents: "Contents") -> dict[str, object]:
    from dataclasses import asdict

    return asdict(contents)


def _print(contents: "Contents", directory: Path) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1), header_style="dim")
    for heading in ("part", "", "files"):
        table.add_column(heading, no_wrap=True)
    for part in contents.parts:
        table.add_row(Text(part.name), part.kind, Text(", ".join(Path(file).suffix[1:] for file in part.files)))
    out().print(table)
    left_out = f", {len(contents.problems)} problems" if contents.problems else ""
    out().print(Text(f"{contents.runs} runs{left_out}; begin with {directory / 'README.md'}"), soft_wrap=True)
