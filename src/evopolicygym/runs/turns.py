"""The agent loop: each turn is played, metered while it lasts, and ends when the run is done or a limit is reached.

``run.py`` has the run before and after them, ``core/agent.py`` the limits. Cost and
tokens are kept where they are counted, at the model proxy.
"""

import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event as Flag
from threading import Lock, Thread
from time import monotonic

from evopolicygym.core import regular_file
from evopolicygym.core.agent import Agent, AgentEnd, Allowance, Turn, Workspace, reached, used_of
from evopolicygym.core.errors import AgentError, EvoPolicyGymError, RecordError, SandboxError
from evopolicygym.core.event import RunOpened
from evopolicygym.core.run import RunState
from evopolicygym.core.task import Memory
from evopolicygym.core.text import well_formed
from evopolicygym.environments.versions import places_of, simulators_of
from evopolicygym.judge.server import JudgeServer
from evopolicygym.judge.session import JudgeSession
from evopolicygym.records.paths import RunPaths

AGENT_LAST_WORDS_S = 2.0
"""Seconds that an agent has to end by itself once the budget is spent, before it is stopped."""
AGENT_GRACE_S = 45.0
"""Seconds within which a stopped agent must be gone."""
MOST_FRUITLESS = 3
"""Turns in a row without a submission after which a run of independent samples ends."""
METER_S = 10.0
"""How often it is flushed to disk what a turn has used."""
MOST_NOTES = 20_000
"""Requests of one turn that are noted one by one; after so many, what is used is noted as often as it is flushed."""
TRACEBACK_LINES = 200
"""The most that are kept of a traceback, the last ones."""
MESSAGE = 500
"""The most characters that are recorded of why an agent was stopped."""


@dataclass(slots=True)
class TurnMeter:
    """What one turn uses, while it lasts.

    A request is noted before the agent's program knows that it is over, and at first without a flush: so the death of
    this process forgets no usage but of requests under way, and the machine's end that of a few seconds.
    """

    session: JudgeSession
    turn: int
    usage: Mapping[str, float] = field(default_factory=dict)
    """As it was reported last, by whatever thread."""
    late: bool = False
    """Whether the turn's time is up."""
    _began: float = field(default_factory=monotonic)
    _flushed: Mapping[str, float] = field(default_factory=dict)
    _next: float = field(default_factory=lambda: monotonic() + METER_S)
    _notes: int = 0
    _over: bool = False
    _lock: Lock = field(default_factory=Lock)

    @property
    def seconds(self) -> float:
        """Wall time of the turn so far."""
        return monotonic() - self._began

    def report(self, usage: Mapping[str, float]) -> None:
        """Take note of what has gone through the model proxy in this turn."""
        with self._lock:
            if self._over:
                return
            self.usage = usage
            self._notes += 1
            if self._notes <= MOST_NOTES:
                with suppress(OSError, EvoPolicyGymError):  # ``look`` tries again, and may fail
                    self.session.turn_metered(self.turn, self.seconds, usage, flush=False)

    def look(self, left: float | None) -> float:
        """Keep what is due; return after how many seconds to look again, 0 where the time is up."""
        if left is not None and self.seconds >= left:
            self.late = True
            return 0.0
        if monotonic() >= self._next:
            self.keep()
        soon = max(0.01, self._next - monotonic())
        return soon if left is None else min(soon, max(0.001, left - self.seconds))

    def keep(self) -> None:
        """Have on disk what has been used, where that says anything."""
        with self._lock:
            usage, self._next = self.usage, monotonic() + METER_S
            if usage != self._flushed or self.session.state.opened.agent.allowance.seconds is not None:
                self.session.turn_metered(self.turn, self.seconds, usage, flush=True)
                self._flushed = usage

    def end(self) -> None:
        """Note nothing more: an agent that didn't leave in time may still report."""
        with self._lock:
            self._over = True


def run_agent_loop(
    session: JudgeSession,
    server: JudgeServer,
    agent: Agent,
    open_directory: Callable[[], AbstractContextManager[Path]],
) -> None:
    """Have the agent play while there is anything to play, and until its turns or its allowance are used up.

    Each turn works in the directory that ``open_directory`` opens for it.

    Raises ``AgentError`` where it can't go on for a reason outside of itself.
    """
    writer = session.writer
    before = len(writer.state.submissions)
    while not session.done and _may_go_on(writer.state, agent):
        if writer.state.allowance_spent:
            return
        turn = writer.state.turns
        if writer.state.opened.task.memory is Memory.NONE:
            session.wait_until_idle()
            if session.done:
                return
        session.turn_started(turn)
        with open_directory() as directory, _metered(session, turn) as meter:
            outcome = _turn(session, server, agent, directory, meter, before)
            session.raise_fault()  # a turn that ended by the runner's fault is played again
        session.turn_ended(turn, _limited(outcome, meter), meter.seconds)
        if outcome.end.pauses and not session.done and not writer.state.allowance_spent:
            raise AgentError(outcome.message)


def _may_go_on(state: RunState, agent: Agent) -> bool:
    """Return whether the agent has another turn, as far as its own limit of turns goes."""
    if state.opened.task.memory is Memory.NONE:
        return state.fruitless_turns < MOST_FRUITLESS
    return state.turns - state.pauses < agent.max_turns


@contextmanager
def _metered(session: JudgeSession, turn: int) -> Iterator[TurnMeter]:
    """Give what meters a turn; one that is stopped leaves a note of what it has used."""
    meter = TurnMeter(session, turn)
    try:
        yield meter
    except BaseException:
        with suppress(OSError, EvoPolicyGymError):
            meter.keep()
        raise
    finally:
        meter.end()


def _limited(outcome: Turn, meter: TurnMeter) -> Turn:
    """Return how a turn ended, with the limit that ended it, and with what was seen used where it reported nothing."""
    outcome = replace(outcome, usage=outcome.usage or meter.usage, message=well_formed(outcome.message))
    state = meter.session.state
    allowance = state.opened.agent.allowance
    if meter.late and allowance.seconds is not None:
        return replace(outcome, end=AgentEnd.ALLOWANCE_SPENT, message=reached("seconds", allowance.seconds))
    if outcome.end is AgentEnd.ALLOWANCE_SPENT:
        return replace(outcome, message=allowance.spent(state.used + used_of(outcome.usage)) or outcome.message)
    return outcome


def _turn(
    session: JudgeSession, server: JudgeServer, agent: Agent, directory: Path, meter: TurnMeter, before: int
) -> Turn:
    """Play one turn of the agent; it is stopped when the run is done, or its time is up.

    ``before`` submissions were made before this process played the run.
    """
    opened, paths = session.state.opened, session.writer.paths
    left = opened.agent.allowance.left(session.state.used)
    workspace = workspace_of(opened, paths, directory, left, meter.report)
    stop, future = Flag(), Future[Turn]()
    thread = Thread(target=_fulfil, args=(future, agent, workspace, server, stop), name="agent", daemon=True)
    thread.start()
    try:
        session.wait_for_end(future, lambda: meter.look(left.seconds))
        session.raise_fault()  # after which nobody answers the agent
        if not meter.late:
            wait([future], AGENT_LAST_WORDS_S)
    finally:
        stop.set()
        thread.join(AGENT_GRACE_S)
    if not future.done():
        return Turn(AgentEnd.STOPPED, f"it did not leave within {AGENT_GRACE_S:g} s")
    try:
        return future.result()
    except AgentError as error:
        if len(session.state.submissions) == before:  # once what it lacks is mended, it can begin again
            raise
        return _crashed(error, workspace.transcript)


def workspace_of(
    opened: RunOpened,
    paths: RunPaths,
    directory: Path,
    left: Allowance | None = None,
    report: Callable[[Mapping[str, float]], None] = lambda _usage: None,
) -> Workspace:
    """Return a run's workspace as an agent is given it, which lies in ``directory``."""
    return Workspace(
        directory,
        paths.transcript,
        opened.seed,
        opened.isolation,
        left or opened.agent.allowance,
        opened.price,
        _not_to_import(opened),
        report,
        opened.task.policy_packages,
    )


def _not_to_import(opened: RunOpened) -> tuple[str, ...]:
    """Return what makes a run's environment: names of modules, then where they and what they import from beside lie."""
    named = simulators_of(opened.task.environment)
    return (*named, *places_of({*named, *opened.simulator_code}))


def _fulfil(future: "Future[Turn]", agent: Agent, workspace: Workspace, server: JudgeServer, stop: Flag) -> None:
    try:
        outcome = agent.play(workspace, server, stop)
        if not isinstance(outcome, Turn):
            raise TypeError(f"play must return a Turn, not {type(outcome).__name__}")  # noqa: TRY301 - as any failure
        future.set_result(outcome)
    except (AgentError, SandboxError) as error:  # what can't be ended may be alive: nothing hidden is played beside it
        future.set_exception(error)
    except Exception as error:  # noqa: BLE001 - an agent's failure is recorded, whatever it is
        future.set_result(_crashed(error, workspace.transcript))


def _crashed(error: Exception, transcript: Path) -> Turn:
    """Return how a turn ended by an exception, whose traceback goes into the agent's log."""
    text = "".join(traceback.format_exception(error)[-TRACEBACK_LINES:])
    with suppress(OSError, RecordError):
        transcript.parent.mkdir(parents=True, exist_ok=True)
        with regular_file.appender(transcript) as log:
            log.write(text.encode("utf-8", "replace"))
    return Turn(AgentEnd.CRASHED, f"{type(error).__name__}: {error}"[:MESSAGE])
