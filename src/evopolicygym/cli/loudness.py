"""``--quiet`` and ``--verbose``: how much is said beside the result, and the log of what goes on."""

import logging
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from evopolicygym.cli.console import err, hush
from evopolicygym.core.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from evopolicygym.runs.suites.messages import Message
    from evopolicygym.runs.suites.records import PlannedRunResult
    from evopolicygym.runs.suites.suite import PlannedRun

LOG = logging.getLogger("evopolicygym")
"""The one logger of the package; nobody hears it unless ``--verbose`` is given."""
LOG.addHandler(logging.NullHandler())
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result and errors.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Log details: the sandbox, where files lie, every episode.")
]


class Loudness(Enum):
    """How much is said beside the result."""

    QUIET = "quiet"
    NORMAL = "normal"
    VERBOSE = "verbose"


def loudness(*, quiet: bool, verbose: bool) -> Loudness:
    """Return what was asked for, with the log switched on or off; raise ``UsageError`` where both were."""
    if quiet and verbose:
        raise UsageError("--quiet and --verbose can't be combined; give one of them.")
    _listen(on=verbose)
    hush(warnings=quiet)
    if verbose:
        return Loudness.VERBOSE
    return Loudness.QUIET if quiet else Loudness.NORMAL


def progress_console(loud: Loudness, *, as_json: bool) -> "Console":
    """Return where progress is drawn: nowhere where only the result is wanted."""
    from rich.console import Console

    return Console(quiet=True) if as_json or loud is Loudness.QUIET else err()


def log_message(run: "PlannedRun", said: "Message | PlannedRunResult") -> None:
    """Log what a run of a suite says, or what has come of it."""
    LOG.info("%s: %s", run, said)


def _listen(*, on: bool) -> None:
    """Have the log printed on stderr, above whatever is drawn there; or no longer."""
    for handler in [one for one in LOG.handlers if not isinstance(one, logging.NullHandler)]:
        LOG.removeHandler(handler)
    LOG.setLevel(logging.INFO if on else logging.WARNING)
    if on:
        from rich.logging import RichHandler

        handler = RichHandler(console=err(), show_path=False, show_level=False, markup=False, highlighter=None)
        handler.addFilter(lambda record: record.levelno < logging.WARNING)  # those are notes, which are printed anyway
        LOG.addHandler(handler)
