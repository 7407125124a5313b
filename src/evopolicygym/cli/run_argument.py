"""The argument by which a verb is given a run or several, and the option that says where their ids are looked for."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.cli.completion import complete_run
from evopolicygym.core.places import DEFAULT_RUNS

RunArgument = Annotated[
    Path,
    typer.Argument(help="Its directory, its id or the beginning of it, or latest.", autocompletion=complete_run),
]
SEVERAL = "Runs by directory, id, beginning of an id or latest, or directories with runs below."
RunsArgument = Annotated[list[Path], typer.Argument(help=SEVERAL, autocompletion=complete_run)]
RunsOrAll = Annotated[list[Path] | None, typer.Argument(help=f"{SEVERAL} Default: runs.", autocompletion=complete_run)]
RunsOrShipped = Annotated[
    list[Path] | None, typer.Argument(help=f"{SEVERAL} Default: runs, unless --with.", autocompletion=complete_run)
]
RunsBelow = Annotated[
    Path, typer.Option("--runs", metavar="DIR", help="Where runs are looked for by id, and the latest.")
]


def run_meant(run: Path, below: Path = DEFAULT_RUNS) -> Path:
    """Return the directory of the run that was named; raise ``UsageError`` where none is, or several are."""
    from evopolicygym.records.run_names import named_run

    return named_run(run, below)


def places_meant(runs: Iterable[Path] | None, below: Path = DEFAULT_RUNS, *, needed: bool = True) -> list[Path]:
    """Return where runs are looked for: what was named, else the directory of all runs where they are needed.

    A directory of all runs that was named itself is looked in anyway.
    """
    named = [run_meant(run, below) for run in runs or []]
    return named or ([below] if needed or below != DEFAULT_RUNS else [])
