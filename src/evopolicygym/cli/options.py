"""Options and arguments that several verbs share, and their shell completion.

Typer sets a shell up for completion (``--install-completion``). Without a completion here, the shell proposes files.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.core.directories import DEFAULT_RUNS


def complete_environment(incomplete: str) -> list[str]:
    """Return the names of environments that start with a text."""
    from evopolicygym.specs.catalog import names

    return matching_names(names(), incomplete)


def complete_run(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return ``latest`` and the ids of runs that start with a text, below ``--runs`` or its default."""
    from evopolicygym.records.reader import LATEST, run_ids

    return matching_names([LATEST, *run_ids(Path(ctx.params.get("below") or DEFAULT_RUNS))], incomplete)


def matching_names(names: Iterable[str], incomplete: str) -> list[str]:
    """Return the names that start with a text."""
    return [name for name in names if name.startswith(incomplete)]


RunArgument = Annotated[
    Path,
    typer.Argument(help="The run: a directory, an id, the beginning of an id, or latest.", autocompletion=complete_run),
]
RUNS_TEXT = "Runs (by directory, id, beginning of an id, or latest), or directories with runs below them."
RunsArgument = Annotated[list[Path], typer.Argument(help=RUNS_TEXT, autocompletion=complete_run)]
RunsOrAll = Annotated[
    list[Path] | None, typer.Argument(help=f"{RUNS_TEXT} Default: runs.", autocompletion=complete_run)
]
RunsOrShipped = Annotated[
    list[Path] | None, typer.Argument(help=f"{RUNS_TEXT} Default: runs, unless --tables.", autocompletion=complete_run)
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
Isolation = Annotated[
    str,
    typer.Option(help="The sandbox of policies, regardless of the record: auto, bubblewrap, process or none."),
]
Trust = Annotated[bool, typer.Option("--trust", help="Run a simulator that only the record names, with your rights.")]


def split_names(listed: str) -> list[str]:
    """Split a list of names separated by commas."""
    return [name.strip() for name in listed.split(",") if name.strip()]
