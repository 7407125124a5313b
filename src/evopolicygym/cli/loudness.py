"""``--quiet`` and ``--verbose``: how much is said beside the result, and the log of what goes on."""

import logging
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from evopolicygym.cli.console import err, hush
from evopolicygym.core.errors import UsageError
from evopolicygym.core.number_text import number
from evopolicygym.core.places import state_directory

if TYPE_CHECKING:
    from rich.console import Console

    from evopolicygym.core.event import Event
    from evopolicygym.core.run import RunState
    from evopolicygym.records.paths import RunPaths
    from evopolicygym.runs.suites.progress import Word
    from evopolicygym.runs.suites.records import PlannedRunResult
    from evopolicygym.runs.suites.suite import PlannedRun

LOG = logging.getLogger("evopolicygym")
"""The one logger of the package; nobody hears it unless ``--verbose`` is given."""
LOG.addHandler(logging.NullHandler())
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only; errors as ever.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Log what goes on: the sandbox, places of files, every episode.")
]


class Loudness(Enum):
    """How much is said beside the result."""

    QUIET = "quiet"
    NORMAL = "normal"
    VERBOSE = "verbose"


def loudness(*, quiet: bool, verbose: bool) -> Loudness:
    """Return what was asked for, with the log switched on or off; raise ``UsageError`` where both were."""
    if quiet and verbose:
        raise UsageError("Both --quiet and --verbose were asked for; one of them works.")
    _listen(on=verbose)
    hush(warnings=quiet)
    if verbose:
        return Loudness.VERBOSE
    return Loudness.QUIET if quiet else Loudness.NORMAL


def progress_console(loud: Loudness, *, as_json: bool) -> "Console":
    """Return where progress is drawn: nowhere where only the result is wanted."""
    from rich.console import Console

    return Console(quiet=True) if as_json or loud is Loudness.QUIET else err()


def log_opened(paths: "RunPaths", state: "RunState") -> None:
    """Log what a run was opened with, and where its files lie."""
    opened = state.opened
    LOG.info("record %s", paths.root)
    LOG.info("the agent's transcript %s", paths.transcript)
    LOG.info("what simulators and sandboxes print %s", paths.simulator_log)
    LOG.info("state directory %s", state_directory())
    LOG.info("versions %s", ", ".join(f"{name} {version}" for name, version in opened.versions.items()))
    LOG.info("isolation %s", opened.isolation)
    for name, found in opened.findings.items():
        LOG.info("sandbox, %s: %s", name, found)


def log_event(event: "Event", state: "RunState") -> None:
    """Log an event of a run."""
    if LOG.isEnabledFor(logging.INFO):
        for line in _told(event, state):
            LOG.info("%s", line)


def log_word(run: "PlannedRun", said: "Word | PlannedRunResult") -> None:
    """Log what a run of a suite says, or what has come of it."""
    LOG.info("%s: %s", run, said)


def _told(event: "Event", state: "RunState") -> "Iterator[str]":
    """Yield what an event is, in words."""
    from evopolicygym.core.event import (
        AgentEnded,
        AgentMetered,
        AgentStarted,
        EpisodePlayed,
        EpisodeRepeated,
        SubmissionCharged,
    )

    match event:
        case EpisodePlayed(split=split, position=position, episode=episode, submit_index=index):
            of = "" if index is None else f" of submission {index}"
            failed = f", failed: {episode.failure.reason}" if episode.failure else ""
            earned = number(episode.episode_return)
            yield f"{split} episode {position}{of}: return {earned}, {episode.length} steps{failed}"
        case EpisodeRepeated(split=split, position=position, message=message):
            yield f"{split} episode {position} is played again: {message}"
        case SubmissionCharged(submit_index=index, checkpoint=checkpoint, env_instances=cases):
            yield f"submission {index}: checkpoint {checkpoint[:16]}, {len(cases)} episodes charged"
        case AgentStarted(turn=turn):
            yield f"turn {turn} of the agent begins"
        case AgentEnded(turn=turn, end=end, message=message, findings=findings):
            yield f"turn {turn} of the agent ended: {end}{f': {message}' if message else ''}"
            yield from (f"agent's sandbox, {name}: {found}" for name, found in findings.items())
        case AgentMetered(usage=usage) if usage:
            yield f"model's usage so far {dict(usage)}"
        case AgentMetered():
            return
        case _:
            yield f"{type(event).__name__}, {state.spent} of {state.budget} episodes spent"


def _listen(*, on: bool) -> None:
    """Have the log printed on stderr, above whatever is drawn there; or no longer."""
    for handler in [one for one in LOG.handlers if not isinstance(one, logging.NullHandler)]:
        LOG.removeHandler(handler)
    LOG.setLevel(logging.INFO if on else logging.WARNING)
    if on:
        from rich.logging import RichHandler

        LOG.addHandler(RichHandler(console=err(), show_path=False, show_level=False, markup=False, highlighter=None))
