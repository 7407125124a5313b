"""What is seen of a run while it plays: the live view (budget, submissions, validation, held-out), and its log."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from evopolicygym.api.read.submissions import submissions_table
from evopolicygym.core.cases import Split
from evopolicygym.core.directories import state_directory
from evopolicygym.core.event import (
    AgentEnded,
    AgentMetered,
    AgentStarted,
    CheckpointSelected,
    EpisodePlayed,
    EpisodeRepeated,
    Event,
    RunClosed,
    SubmissionCharged,
    SubmissionPublished,
)
from evopolicygym.core.rollout import AND, WEAKER, Isolation, is_unverified
from evopolicygym.core.run import RunState, Stage
from evopolicygym.core.score import estimate
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.core.text import counted, duration, number, plus_minus, printable
from evopolicygym.records.paths import RunPaths
from evopolicygym.runs.progress import Clock, Pace, progress_of, validation_played

LOG = logging.getLogger("evopolicygym")
"""The one logger of the package; nobody hears it unless a program, or ``--verbose``, listens."""
LOG.addHandler(logging.NullHandler())
BAR_WIDTH = 40
HIDDEN = {Stage.CLOSED: "validation", Stage.SELECTED: "held-out"}
"""Stages in which the judge plays hidden cases, and the agent is gone."""


class RunView:
    """Follows one run and draws where it stands."""

    def __init__(self, console: Console, clock: Clock = monotonic) -> None:
        self._console = console
        self._clock = clock
        self._state: RunState | None = None
        self._paces: dict[Stage, Pace] = {}
        """Of each stage, from when it was first seen."""
        self._live: Live | None = None

    def opened(self, paths: RunPaths, state: RunState) -> None:
        """Say what is played and where its record lies."""
        self._see(state)
        opened = state.opened
        title = Text.assemble(
            (opened.task.environment.name, "bold"),
            f" · {printable(opened.agent.entry)} · {state.budget} episodes",
            f" · {opened.split} split · isolation {opened.isolation}",
            _limit(opened.agent.allowance.seconds),
        )
        self._console.print(title, soft_wrap=True)
        self._console.print(Text(f"record: {paths.root}", style="dim"), soft_wrap=True)
        if is_unverified(opened.isolation):
            self._console.print(Text("Warning: isolation 'none': no sandbox; the score is unverified.", "yellow"))
        if weaker := opened.findings.get(WEAKER):
            self._console.print(Text(f"Warning: {printable(weaker)}", "yellow"), soft_wrap=True)
        if missing := Isolation.parse(opened.isolation).missing:
            message = f"Played without {AND.join(sorted(missing))}, as was waived; the run is marked."
            self._console.print(Text(message, "yellow"))
        if self._live and opened.agent.has_terminal and state.stage is Stage.OPEN:
            self._live.stop()

    def observe(self, event: Event, state: RunState) -> None:
        """Take note of an event; without a terminal, print a line where one is due."""
        pace = self._see(state)
        if self._console.is_terminal:
            if self._live and isinstance(event, RunClosed):
                self._live.start()  # where it was stopped for an agent that had the terminal
            return
        if line := _line(event, state) or _hidden_line(state, pace):
            self._console.print(line, soft_wrap=True)
        if isinstance(event, SubmissionPublished) and (trouble := state.submissions[event.submit_index].trouble):
            self._console.print(Text(f"Warning: {printable(trouble)}"), soft_wrap=True)

    def _see(self, state: RunState) -> Pace:
        """Take note of how far the run is, and return the pace of its stage."""
        self._state = state
        if state.stage not in self._paces:
            self._paces[state.stage] = Pace(progress_of(state).done, self._clock)
        return self._paces[state.stage]

    @contextmanager
    def live(self) -> Iterator[None]:
        """Draw while something goes on, on a terminal."""
        if not self._console.is_terminal:
            yield
            return
        live = Live(get_renderable=self._draw, console=self._console, refresh_per_second=8, transient=False)
        with live as self._live:
            yield

    def _draw(self) -> RenderableType:
        state = self._state
        if state is None:
            return Text("getting ready …", style="dim")
        parts: list[RenderableType] = [_bar("budget", state.spent, state.budget, _best(state))]
        if state.submissions:
            parts.append(submissions_table(state))
        if state.stage is not Stage.OPEN:
            parts.append(self._hidden_bar("validation", Stage.CLOSED, *validation_played(state)))
        if state.selected:
            rollout = state.rollout(Split.HELD_OUT, state.selected.checkpoint)
            played = len(rollout.returns), len(rollout.episodes)
            parts.append(self._hidden_bar("held-out", Stage.SELECTED, *played, _mean(rollout.returns)))
        return Group(*parts)

    def _hidden_bar(self, name: str, stage: Stage, done: int, total: int, mean: str = "") -> Table:
        pace = self._paces.get(stage)
        return _bar(name, done, total, ", ".join(filter(None, (mean, pace.left(done, total) if pace else ""))))


def _limit(seconds: float | None) -> str:
    return "" if seconds is None else f" · at most {duration(seconds)} for the agent"


def _bar(name: str, done: int, total: int, note: str = "") -> Table:
    row = Table.grid(padding=(0, 1))
    row.add_column(width=10)
    row.add_column(width=BAR_WIDTH)
    row.add_column(justify="right", min_width=9)
    row.add_column()
    row.add_row(name, ProgressBar(total=max(1, total), completed=done, width=BAR_WIDTH), f"{done}/{total}", note)
    return row


def _best(state: RunState) -> str:
    means = [mean for item in state.submissions if item.published and (mean := item.train_mean) is not None]
    return f"best mean return {number(max(means))}" if means else ""


def _mean(returns: tuple[float, ...]) -> str:
    if not returns:
        return ""
    now = estimate(returns)
    return plus_minus(now.mean, now.standard_error)


def _hidden_line(state: RunState, pace: Pace) -> str:
    """Return now and then how far validation or held-out is; empty while the agent is at work."""
    now = progress_of(state)
    if now.stage not in HIDDEN or now.done >= now.total or not pace.is_due():
        return ""
    played = f"{HIDDEN[now.stage]}: {now.done}/{now.total} episodes played"
    return ", ".join(filter(None, (played, pace.left(now.done, now.total))))


def _line(event: Event, state: RunState) -> str:
    """Return what is said of an event where nothing can be drawn; empty for most."""
    match event:
        case SubmissionPublished(submit_index=index, status=SubmissionStatus.OK):
            mean = estimate(state.submissions[index].returns).mean
            return f"submission {index}: mean return {number(mean)}, {state.spent}/{state.budget} episodes spent"
        case SubmissionPublished(submit_index=index, status=status):
            return f"submission {index}: {status}, {state.spent}/{state.budget} episodes spent"
        case RunClosed():
            if not state.candidates:
                return "closed: nothing to validate"
            candidates = counted(len(state.candidates), "candidate")
            distinct = counted(len(state.checkpoints), "distinct checkpoint")
            cases = counted(state.opened.task.validation_cases, "hidden case")
            return f"closed: {candidates} ({distinct}) to validate on {cases}"
        case CheckpointSelected(submit_index=index, validation_mean=mean):
            return f"selected: submission {index}, validation {number(mean)}"
        case _:
            return ""


def log_opened(paths: RunPaths, state: RunState) -> None:
    """Log what a run was opened with, and where its files lie."""
    if not LOG.isEnabledFor(logging.INFO):
        return
    opened = state.opened
    LOG.info("record %s", paths.root)
    LOG.info("the agent's transcript %s", paths.transcript)
    LOG.info("what simulators and sandboxes print %s", paths.simulator_log)
    LOG.info("state directory %s", state_directory())
    LOG.info("versions %s", ", ".join(f"{name} {version}" for name, version in opened.versions.items()))
    LOG.info("isolation %s", opened.isolation)
    for name, finding in opened.findings.items():
        LOG.info("sandbox, %s: %s", name, finding)


def log_event(event: Event, state: RunState) -> None:
    """Log an event of a run."""
    if LOG.isEnabledFor(logging.INFO):
        for line in _logged(event, state):
            LOG.info("%s", line)


def _logged(event: Event, state: RunState) -> Iterator[str]:
    """Yield the lines that are logged of an event."""
    match event:
        case EpisodePlayed(split, checkpoint, position, episode, index):
            of = f" of checkpoint {checkpoint[:16]}" if index is None else f" of submission {index}"
            failed = f", failed: {episode.failure.reason}" if episode.failure else ""
            earned = number(episode.episode_return)
            yield f"{split} episode {position}{of}: return {earned}, {episode.length} steps{failed}"
        case EpisodeRepeated(split=split, position=position, message=message):
            yield f"{split} episode {position} is played again: {message}"
        case SubmissionCharged(submit_index=index, checkpoint=checkpoint, env_instances=cases):
            yield f"submission {index}: checkpoint {checkpoint[:16]}, {counted(len(cases), 'episode')} charged"
        case AgentStarted(turn=turn):
            yield f"turn {turn} of the agent begins"
        case AgentEnded(turn=turn, end=end, message=message, findings=findings):
            yield f"turn {turn} of the agent ended: {end}{f': {message}' if message else ''}"
            yield from (f"agent's sandbox, {name}: {finding}" for name, finding in findings.items())
        case AgentMetered(usage=usage) if usage:
            yield f"model's usage so far {dict(usage)}"
        case AgentMetered():
            return
        case _:
            yield f"{type(event).__name__}, {state.spent} of {state.budget} episodes spent"
