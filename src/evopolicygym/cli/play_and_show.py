"""Playing with a live view, and what is printed at the end: what ``run`` and ``resume`` share."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from evopolicygym.cli.console import complain, out, say_json, warn
from evopolicygym.cli.interruption import INTERRUPTED, interruptible
from evopolicygym.cli.loudness import Loudness, loudness, progress_console
from evopolicygym.core.errors import AgentError

if TYPE_CHECKING:
    from evopolicygym.api.run import Run


def play_and_show(
    playing: "Callable[..., Run]", *, quiet: bool, verbose: bool, as_json: bool, fail_on_agent_error: bool = False
) -> None:
    """Call ``evopolicygym.run`` or ``resume`` with a live view and print the outcome.

    An interruption leaves a record that can be resumed. With ``fail_on_agent_error`` the exit code is 5 where the agent
    crashed or hung.
    """
    loud = loudness(quiet=quiet, verbose=verbose)
    console = progress_console(loud, as_json=as_json)
    try:
        with interruptible():
            run = playing(progress=console, on_note=warn)
    except KeyboardInterrupt as error:
        command = getattr(error, "command", "")
        how = f"; nothing is lost. Continue with: {command}" if command else ""
        complain(f"interrupted{how}")
        raise typer.Exit(INTERRUPTED) from None
    _show(run.path, loud, as_json=as_json)
    if fail_on_agent_error and run.agent_error:
        raise typer.Exit(AgentError.exit_code)


def _show(root: Path, loud: Loudness, *, as_json: bool) -> None:
    from evopolicygym.cli import outcome
    from evopolicygym.records.reader import read_run

    if as_json:
        say_json(outcome.as_json(root))
    elif loud is Loudness.QUIET:
        outcome.show_result(out(), read_run(root))
    else:
        outcome.show_outcome(out(), read_run(root))
