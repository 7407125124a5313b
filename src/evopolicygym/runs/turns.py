"""The agent loop: each turn is played and metered, and ends when the run is done or a limit is reached.

Time and turns are limited here; cost and tokens are limited where they are counted, at the model proxy.
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
from evopolicygym.core.errors import AgentError, EvoPolicyGymError, RecordError, SandboxError, UsageError
from evopolicygym.core.event import RunOpened
from evopolicygym.core.run import RunState
from evopolicygym.core.shortage import shortage_error
from evopolicygym.core.task import Memory
from evopolicygym.core.text import well_formed
from evopolicygym.environments.versions import places_of, simulators_of
from evopolicygym.judge.server import JudgeServer
from evopolicygym.judge.session import JudgeSession
from evopolicygym.records.paths import RunPaths

AGENT_LAST_WORDS_S = 2.0
"""Seconds that an agent has to end by itself after the budget is spent, before it is stopped."""
AGENT_GRACE_S = 45.0
"""Seconds that a stopped agent has to end."""
MAX_FRUITLESS_TURNS = 3
"""Consecutive turns without a submission that end a run of independent samples."""
LONG_WAIT_S = 1.0
"""Seconds of waiting for a model server that are worth a word."""
METER_S = 10.0
"""Seconds between flushes of a turn's usage to disk."""
MAX_NOTES = 20_000
"""Requests of a turn that are recorded individually; later usage is recorded only when it is flushed."""
TRACEBACK_LINES = 200
"""The last lines of a traceback that are kept."""
MESSAGE_LENGTH = 500
"""The largest recorded length of the reason for an agent's end."""


@dataclass(slots=True)
class TurnMeter:
    """Measures the usage of a turn.

    A request is recorded before the agent's program gets the response, without a flush. So the death of this process
    loses only the usage of requests in progress, and a machine failure that of a few seconds.
    """

    session: JudgeSession
    turn: int
    usage: Mapping[str, float] = field(default_factory=dict)
    """The latest reported usage, from any thread."""
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
        """Record the turn's usage of the model proxy."""
        with self._lock:
            if self._over:
                return
            self.usage = usage
            self._notes += 1
            if self._notes <= MAX_NOTES:
                with suppress(OSError, EvoPolicyGymError):  # ``check`` tries again and may raise
                    self.session.turn_metered(self.turn, self.seconds, usage, flush=False)

    def check(self, left: float | None) -> float:
        """Flush if it is due; return the seconds until the next check, 0 if the time is up."""
        if left is not None and self.seconds >= left:
            self.late = True
            return 0.0
        if monotonic() >= self._next:
            self.flush()
        soon = max(0.01, self._next - monotonic())
        return soon if left is None else min(soon, max(0.001, left - self.seconds))

    def flush(self) -> None:
        """Flush the usage to disk if it changed."""
        with self._lock:
            usage, self._next = self.usage, monotonic() + METER_S
            if usage != self._flushed or self.session.state.opened.agent.allowance.seconds is not None:
                self.session.turn_metered(self.turn, self.seconds, usage, flush=True)
                self._flushed = usage

    def end(self) -> None:
        """Ignore further reports, which an agent that didn't end in time may send."""
        with self._lock:
            self._over = True


def run_agent_loop(
    session: JudgeSession,
    server: JudgeServer,
    agent: Agent,
    open_directory: Callable[[], AbstractContextManager[Path]],
) -> None:
    """Play turns of the agent until the run is done or its turns or allowance are used up.

    ``open_directory`` opens the working directory of each turn. Raises ``AgentError`` if the agent can't continue for a
    reason outside itself.
    """
    writer = session.writer
    before = len(writer.state.submissions)
    while not session.done and _has_turns_left(writer.state, agent):
        if writer.state.allowance_spent:
            return
        turn = writer.state.turns
        if writer.state.opened.task.memory is Memory.NONE:
            session.wait_until_idle()
            if session.done:
                return
        session.turn_started(turn)
        with open_directory() as directory, _meter_turn(session, turn) as meter:
            outcome = _play_turn(session, server, agent, directory, meter, before)
            session.raise_fault()  # a turn that the runner broke is played again
        session.turn_ended(turn, _apply_limits(outcome, meter), meter.seconds)
        if outcome.end.pauses and not session.done and not writer.state.allowance_spent:
            raise AgentError(outcome.message)


def _has_turns_left(state: RunState, agent: Agent) -> bool:
    """Return whether the agent's limit of turns allows another turn."""
    if state.opened.task.memory is Memory.NONE:
        return state.fruitless_turns < MAX_FRUITLESS_TURNS
    return state.turns - state.pauses < agent.max_turns


@contextmanager
def _meter_turn(session: JudgeSession, turn: int) -> Iterator[TurnMeter]:
    """Yield the meter of a turn; flush it if the turn is interrupted."""
    meter = TurnMeter(session, turn)
    try:
        yield meter
    except BaseException:
        with suppress(OSError, EvoPolicyGymError):
            meter.flush()
        raise
    finally:
        meter.end()


def _apply_limits(outcome: Turn, meter: TurnMeter) -> Turn:
    """Return a turn's end with the limit that ended it, and with the metered usage if it reported none."""
    outcome = replace(outcome, usage=outcome.usage or meter.usage, message=well_formed(outcome.message))
    state = meter.session.state
    allowance = state.opened.agent.allowance
    if meter.late and allowance.seconds is not None:
        waiting = f", while a request to the model server had waited for {outcome.waiting_s:.0f} s"
        message = reached("seconds", allowance.seconds) + (waiting if outcome.waiting_s >= LONG_WAIT_S else "")
        return replace(outcome, end=AgentEnd.ALLOWANCE_SPENT, message=message)
    if outcome.end is AgentEnd.ALLOWANCE_SPENT:
        return replace(outcome, message=allowance.spent(state.used + used_of(outcome.usage)) or outcome.message)
    return outcome


def _play_turn(
    session: JudgeSession, server: JudgeServer, agent: Agent, directory: Path, meter: TurnMeter, before: int
) -> Turn:
    """Play a turn of the agent, and stop it when the run is done or its time is up.

    ``before`` is the number of submissions made before this process.
    """
    opened, paths = session.state.opened, session.writer.paths
    left = opened.agent.allowance.left(session.state.used)
    workspace = workspace_of(opened, paths, directory, left, meter.report)
    stop, future = Flag(), Future[Turn]()
    thread = Thread(target=_run_agent, args=(future, agent, workspace, server, stop), name="agent", daemon=True)
    thread.start()
    try:
        session.wait_for_end(future, lambda: meter.check(left.seconds))
        session.raise_fault()  # the judge no longer answers
        if not meter.late:
            wait([future], AGENT_LAST_WORDS_S)
    finally:
        stop.set()
        thread.join(AGENT_GRACE_S)
    if not future.done():
        return Turn(AgentEnd.STOPPED, f"it did not end within {AGENT_GRACE_S:g} s")
    try:
        return future.result()
    except (AgentError, UsageError) as error:
        if len(session.state.submissions) == before:  # it can start again once the cause is fixed
            raise
        return _crashed_turn(error, workspace.transcript)


def workspace_of(
    opened: RunOpened,
    paths: RunPaths,
    directory: Path,
    left: Allowance | None = None,
    report: Callable[[Mapping[str, float]], None] = lambda _usage: None,
) -> Workspace:
    """Return the workspace in ``directory`` as an agent gets it."""
    return Workspace(
        directory,
        paths.transcript,
        opened.seed,
        opened.isolation,
        left or opened.agent.allowance,
        opened.agent.allowance,
        opened.price,
        _hidden_modules(opened),
        report,
        opened.task.policy_packages,
        opened.model_details,
    )


def _hidden_modules(opened: RunOpened) -> tuple[str, ...]:
    """Return the modules of the simulator, and the directories of their code."""
    simulators = simulators_of(opened.task.environment)
    return (*simulators, *places_of({*simulators, *opened.simulator_code}))


def _run_agent(future: "Future[Turn]", agent: Agent, workspace: Workspace, server: JudgeServer, stop: Flag) -> None:
    try:
        outcome = agent.play(workspace, server, stop)
        if not isinstance(outcome, Turn):
            raise TypeError(f"play must return a Turn, not {type(outcome).__name__}")  # noqa: TRY301 - as any failure
        future.set_result(outcome)
    except SandboxError as error:
        future.set_exception(error)
    except Exception as error:  # noqa: BLE001 - an agent's failure is recorded, whatever it is
        if shortage := shortage_error(error):  # the machine's failure
            future.set_exception(shortage)
        elif isinstance(error, AgentError | UsageError):  # its processes may be alive, so no hidden case may be played
            future.set_exception(error)
        else:
            future.set_result(_crashed_turn(error, workspace.transcript))


def _crashed_turn(error: Exception, transcript: Path) -> Turn:
    """Return the end of a turn by an exception, and append the traceback to the agent's log."""
    text = "".join(traceback.format_exception(error)[-TRACEBACK_LINES:])
    with suppress(OSError, RecordError):
        transcript.parent.mkdir(parents=True, exist_ok=True)
        with regular_file.appender(transcript) as log:
            log.write(text.encode("utf-8", "replace"))
    return Turn(AgentEnd.CRASHED, f"{type(error).__name__}: {error}"[:MESSAGE_LENGTH])
