"""Arguments that several verbs take: a run or several, where their ids are looked for, names with commas between."""

from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.cli.completion import complete_run

RunArgument = Annotated[
    Path,
    typer.Argument(
        help="The run: its directory, its id, the beginning of its id, or latest.", autocompletion=complete_run
    ),
]
SEVERAL = "Runs (by directory, id, beginning of an id, or latest), or directories with runs below them."
RunsArgument = Annotated[list[Path], typer.Argument(help=SEVERAL, autocompletion=complete_run)]
RunsOrAll = Annotated[list[Path] | None, typer.Argument(help=f"{SEVERAL} Default: runs.", autocompletion=complete_run)]
RunsOrShipped = Annotated[
    list[Path] | None, typer.Argument(help=f"{SEVERAL} Default: runs, unless --with.", autocompletion=complete_run)
]
RunsBelow = Annotated[
    Path, typer.Option("--runs", metavar="DIR", help="The directory in which ids and latest are looked up.")
]

FailOnAgentError = Annotated[
    bool,
    typer.Option(
        "--fail-on-agent-error", help="Exit with code 5 if the agent crashed or hung; the run is scored all the same."
    ),
]


def names(listed: str) -> list[str]:
    """Return names that were typed with commas between."""
    return [name.strip() for name in listed.split(",") if name.strip()]
