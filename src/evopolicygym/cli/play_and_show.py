"""Playing with a live view, and what is printed at the end: what ``run`` and ``resume`` share."""

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import typer

from evopolicygym.cli.console import complain, err, out, say_json, warn
from evopolicygym.cli.interruption import INTERRUPTED, interruptible
from evopolicygym.cli.loudness import Loudness, log_event, log_opened, progress_console

if TYPE_CHECKING:
    from evopolicygym.api.run import Run
    from evopolicygym.core.event import Event
    from evopolicygym.core.run import RunState
    from evopolicygym.records.paths import RunPaths


def play_and_show(playing: "Callable[..., Run]", loud: Loudness, *, as_json: bool) -> None:
    """Call ``evopolicygym.run`` or ``resume`` with a live view and print the outcome.

    An interruption leaves a record that can be resumed.
    """
    opened: list[Path] = []

    def on_open(paths: "RunPaths", state: "RunState") -> None:
        opened.append(paths.root)
        log_opened(paths, state)

    def on_event(event: "Event", state: "RunState") -> None:
        log_event(event, state)
        if not as_json and not err().is_terminal:
            _warn_of_trouble(event, state)

    console = progress_console(loud, as_json=as_json)
    try:
        with interruptible():
            playing(progress=console, on_open=on_open, on_event=on_event, on_note=warn)
    except KeyboardInterrupt:
        how = f"; nothing is lost. Continue with: evopolicygym resume {quote(str(opened[0]))}" if opened else ""
        complain(f"interrupted{how}")
        raise typer.Exit(INTERRUPTED) from None
    if opened:
        _show(opened[0], loud, as_json=as_json)


def _warn_of_trouble(event: "Event", state: "RunState") -> None:
    from evopolicygym.cli.outcome import submission_trouble
    from evopolicygym.core.event import SubmissionPublished

    if isinstance(event, SubmissionPublished) and (trouble := submission_trouble(state, event.submit_index)):
        warn(trouble)


def _show(root: Path, loud: Loudness, *, as_json: bool) -> None:
    from evopolicygym.cli import outcome
    from evopolicygym.records.reader import read_run

    if as_json:
        say_json(outcome.as_json(root))
    elif loud is Loudness.QUIET:
        outcome.show_result(out(), read_run(root))
    else:
        outcome.show_outcome(out(), read_run(root))
