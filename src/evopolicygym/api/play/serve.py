"""``evopolicygym.serve``, and runs whose agent another program drives in the run's own workplace (``host``).

``serve`` is for a program that is the agent itself, or has one play; ``play_served`` waits until somebody
else has played.
"""

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any, Unpack

from evopolicygym.agents.kit.judge_client import JudgeClient
from evopolicygym.agents.kit.outside_agent import (
    FINDINGS,
    Announce,
    HostedAgent,
    OpenAccess,
    OutsideAccess,
    OutsideAgent,
    no_proxy,
)
from evopolicygym.agents.kit.session import Session
from evopolicygym.api.play.run import OnEvent, OnOpen, OnWarning, Progress, spec_notes, watched
from evopolicygym.api.read.run import Run
from evopolicygym.core.agent import OUTSIDE, Agent, AgentEnd, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.errors import UsageError
from evopolicygym.core.options import LOCAL, RunArguments
from evopolicygym.core.run import RunState, Stage
from evopolicygym.core.text import shell_word
from evopolicygym.judge_client.address import JudgeAddress
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import find_run, read_run
from evopolicygym.records.release import refuse_release
from evopolicygym.runs import run as runs
from evopolicygym.runs.config import RunConfig, resolve_run_config
from evopolicygym.runs.preflight import cap_workers
from evopolicygym.sandbox.program.standing import StandingWorkplace
from evopolicygym.tracking.tracker import refuse_unknown_tracker

NOWHERE_ELSE = OutsideAccess()
"""On this machine's loopback alone."""
LOOK_S = 0.05
"""How often a served session looks whether its program has left it, or the run is over."""


class ServedSession(Session):
    """A run from the side of an agent outside: what a function that is an agent is given, and where others find it."""

    def __init__(self, workspace: Workspace, judge: JudgeClient, address: JudgeAddress) -> None:
        super().__init__(workspace, judge)
        self._submissions = int(judge.all_info()["state"]["n_submits"])
        self.variables = {**address.environment, **no_proxy(address.environment)}
        """The environment variables by which a program finds the judge, such as ``EVOPOLICYGYM_INFO_URL``."""
        self.run: Run | None = None
        """The finished run, once the ``with`` block has ended."""


@contextmanager
def serve(  # noqa: PLR0913 - each is an argument of its own
    task: str | Path | None = None,
    *,
    resume: str | Path | None = None,
    config: str | Path | None = None,
    workspace: str | Path | None = None,
    listen: str = "",
    socket: str | Path | None = None,
    allow_hosts: Sequence[str] = (),
    progress: Progress = None,
    on_warning: OnWarning = warnings.warn,
    **options: Unpack[RunArguments],
) -> Iterator[ServedSession]:
    """Begin a run, or resume one, and yield its session; when the block ends, the run is closed and scored.

    The session's ``submit``, ``task``, ``info`` and ``workspace`` are those that a function that is an agent has; its
    ``variables`` tell any other program where the judge answers. What is left of the budget at the end stays unspent.
    An exception that leaves the block ends the agent's turn, and the run is scored all the same; Ctrl-C stops the run,
    and ``resume`` continues it, here or in a shell (``evopolicygym resume RUN``).

    Args:
        task: An environment's name, such as ``"acrobot"``, or the path of a spec's ``.toml`` file.
        resume: A served run that stopped, in place of a task: its directory, its id, or ``"latest"``. Of the options,
            only ``workers``, ``runs`` and ``track`` can be given with it.
        config: As for ``run``.
        workspace: The directory that the agent works in, new or empty; by default it lies in the run's record. A run
            that is resumed finds it again, and with a new or empty one begins from the policy that was submitted last.
        listen: ``"HOST:PORT"`` on which the judge answers too; 0 for any port that is free.
        socket: The path of a Unix socket, made for this, at which the judge answers too.
        allow_hosts: Names by which requests may call this machine, besides ``listen``'s own and the loopback's.
        progress: As for ``run``.
        on_warning: As for ``run``.
        **options: As for ``run``. With ``label``, tables call the agent so, and always say that it was outside.

    Raises:
        UsageError: An argument is invalid, or the judge can't listen there; nothing was made. Also where a run that is
            resumed takes no more submissions; it is scored then.
        AgentError, EnvironmentFault, SandboxError, StorageError: The run stopped.
    """
    served = _opened(task, resume, workspace, config, options, on_warning)
    asked = OutsideAccess(listen, Path(socket) if socket else None, allow_hosts)
    with asked.open() as access, ThreadPoolExecutor(1, "served run") as threads:
        agent = _SessionAgent(access)
        played = threads.submit(served.play, agent, progress, None, None, on_warning)
        either: list[Future[Any]] = [agent.session, played]
        wait(either, return_when=FIRST_COMPLETED)
        if played.done() and not agent.session.done():
            scored = played.result()
            raise UsageError(
                f"The run takes no more submissions; it was scored now ({scored.score}). "
                f"evopolicygym.load_run({str(scored.path)!r}) returns it."
            )
        session = agent.session.result()
        try:
            yield session
        except BaseException as error:
            agent.leave(error)
            raise
        finally:
            agent.leave()
            wait([played])
        session.run = played.result()


def play_served(  # noqa: PLR0913 - each is an argument of its own
    task: str | Path | None,
    announce: Announce,
    access: OutsideAccess = NOWHERE_ELSE,
    *,
    resume: str | Path | None = None,
    workspace: str | Path | None = None,
    config: Path | None = None,
    progress: Progress = None,
    on_open: OnOpen | None = None,
    on_event: OnEvent | None = None,
    on_warning: OnWarning = warnings.warn,
    **options: Unpack[RunArguments],
) -> Run:
    """Play a run whose agent is outside, or resume one, and return it once it is over.

    ``announce`` is called when the judge answers; ``access`` says where else it does. Addresses and token of a resumed
    run are new ones. Other arguments and errors are those of ``serve`` and ``run``.
    """
    served = _opened(task, resume, workspace, config, options, on_warning)
    with access.open() as opened:
        return served.play(OutsideAgent(opened, announce), progress, on_open, on_event, on_warning)


class _SessionAgent:
    """Has this program's main thread be the agent."""

    max_turns = 1

    def __init__(self, access: OpenAccess) -> None:
        self.session: Future[ServedSession] = Future()
        self._access, self._left = access, Flag()
        self._error: BaseException | None = None

    def leave(self, error: BaseException | None = None) -> None:
        """End the turn; ``error`` is what ended the program's part of it, if anything did."""
        self._error = self._error or error
        self._left.set()

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Flag) -> Turn:
        """Hand out the session, and wait until it is left or the run is over."""
        agent = OutsideAgent(self._access, lambda address, _: self._hand_out(workspace, endpoint, stop, address))
        over = Flag()
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(agent.play, workspace, endpoint, over)
            while not (stop.wait(LOOK_S) or self._left.is_set() or waiting.done()):
                pass
            over.set()
            waiting.result()
        return self._turn()

    def _hand_out(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Flag, address: JudgeAddress) -> None:
        self.session.set_result(ServedSession(workspace, JudgeClient(endpoint.address, stop), address))

    def _turn(self) -> Turn:
        match self._error:
            case None:
                return Turn(AgentEnd.FINISHED, findings=FINDINGS)
            case Exception() as error:
                return Turn(AgentEnd.CRASHED, f"{type(error).__name__}: {error}", findings=FINDINGS)
            case error:
                return Turn(AgentEnd.UNAVAILABLE, f"the session was left: {type(error).__name__}", findings=FINDINGS)


@dataclass(frozen=True, slots=True)
class _ServedRun:
    """A run that is begun or resumed for an agent which the caller makes."""

    playing: Callable[[Agent, OnOpen, OnEvent], RunState]
    track: str = ""

    def play(
        self,
        agent: Agent,
        progress: Progress,
        on_open: OnOpen | None,
        on_event: OnEvent | None,
        on_warning: OnWarning,
    ) -> Run:
        """Play it to its end with a view of the progress, and return it."""
        return watched(partial(self.playing, agent), progress, on_open, on_event, on_warning, self.track)


def _opened(
    task: str | Path | None,
    resume: str | Path | None,
    workspace: str | Path | None,
    config: str | Path | None,
    options: Mapping[str, Any],
    on_warning: OnWarning,
) -> _ServedRun:
    """Return the run that is begun, or resumed, for an agent outside."""
    directory = Path(workspace).absolute() if workspace else None
    if not resume:
        return _begun(_configured(task, config, options, on_warning), directory)
    if task or config or options.keys() - {"runs", "workers", "track"}:
        raise UsageError(
            "A run is resumed as it was begun; only its workspace, where the judge answers, workers, runs and track "
            "may differ."
        )
    refuse_unknown_tracker(track := options.get("track") or "")
    root = find_run(Path(resume), Path(options.get("runs") or DEFAULT_RUNS))
    refuse_release(root)
    if (agent := read_run(root).state.opened.agent).name != OUTSIDE:
        raise UsageError(
            f"The run's agent is {agent.entry}, which is not outside: evopolicygym resume {shell_word(root)} works."
        )
    return _resumed(root, cap_workers(options.get("workers"), LOCAL, on_warning), directory, track)


def _configured(
    task: str | Path | None, config: str | Path | None, options: Mapping[str, Any], on_warning: OnWarning
) -> RunConfig:
    """Return the run that is asked for; its agent may finish before the budget is spent."""
    if agent := options.get("agent"):
        raise UsageError(
            f"The agent {agent!r} was given for a run that is served; its agent is outside. label=NAME names it."
        )
    asked, _ = resolve_run_config(task, OUTSIDE, options, config)
    workers = cap_workers(asked.workers, asked.executor, on_warning, asked.task)
    for note in spec_notes(str(task), asked.task.environment):
        on_warning(note)
    return replace(asked, task=replace(asked.task, finish_allowed=True), workers=workers)


def _begun(asked: RunConfig, directory: Path | None = None) -> _ServedRun:
    return _ServedRun(lambda agent, opened, event: runs.play(asked, opened, event, agent, directory), asked.track)


def _resumed(root: Path, workers: int | None, directory: Path | None = None, track: str = "") -> _ServedRun:
    return _ServedRun(
        lambda agent, opened, event: runs.resume(root, workers, opened, event, agent=agent, directory=directory), track
    )


LOG = logging.getLogger(__name__)
NO_VIEW: Progress = False
"""The driver of a hosted run shows its progress."""
Used = Callable[[], Mapping[str, float]]
"""Returns what the driver has used of models so far, by the names of ``Turn.tool_usage``."""


class HostedRun:
    """A run that is being played, from the side of whoever drives its agent. Any thread may call it."""

    def __init__(self, agent: HostedAgent, served: _ServedRun) -> None:
        """Begin to play; raise what stops the run before there is a workplace."""
        self._agent, self._served = agent, served
        self._root: Path | None = None
        self._state: RunState | None = None
        self._played: Future[Run] = Future()
        Thread(target=self._play, name="hosted run", daemon=True).start()
        either: list[Future[Any]] = [self._agent.opened, self._played]
        wait(either, return_when=FIRST_COMPLETED)
        if self._played.done():
            self._played.result()

    @property
    def path(self) -> Path | None:
        """Where the run's record lies."""
        return self._root

    @property
    def remaining(self) -> int:
        """Train episodes that are left."""
        return self._state.remaining if self._state else 0

    @property
    def closed(self) -> bool:
        """Whether nothing can be submitted any more, and nothing that was is playing."""
        state = self._state
        return self._played.done() or (state is not None and not state.takes_submissions and not state.playing)

    @property
    def workplace(self) -> StandingWorkplace:
        """Where commands are executed; raises ``TurnOver`` once the agent's turn is over."""
        return self._agent.workplace()

    def finish(self) -> Run:
        """End the agent's turn, where that isn't over, and return the run once it is scored; raise what stopped it."""
        self._agent.leave()
        return self._played.result()

    def pause(self, why: str) -> None:
        """Stop the run, which can be resumed, where the agent's turn isn't over; what is hidden goes on by itself."""
        self._agent.leave(AgentEnd.UNAVAILABLE, why)
        if not self.closed:
            wait([self._played])

    def settle(self) -> None:
        """Wait until the run is scored or stopped."""
        wait([self._played])

    def _play(self) -> None:
        def opened(paths: RunPaths, state: RunState) -> None:
            self._root, self._state = paths.root, state

        def observe(_event: object, state: RunState) -> None:
            self._state = state

        try:
            self._played.set_result(self._served.play(self._agent, NO_VIEW, opened, observe, LOG.warning))
        except BaseException as error:  # noqa: BLE001 - it is raised where the run is waited for
            self._played.set_exception(error)
        finally:
            self._agent.leave()


def host(
    task: str | Path, agent: str, findings: Mapping[str, str], used: Used, **options: Unpack[RunArguments]
) -> HostedRun:
    """Begin a run whose agent is driven by the caller, and return it once there is a workplace.

    Args:
        task: An environment's name, or the path of a spec's ``.toml`` file.
        agent: What the record calls the agent.
        findings: What the record is to say of who drives it.
        used: Asked in the end what was used of models.
        **options: As for ``run``.

    Raises what ``run`` raises.
    """
    asked, _ = resolve_run_config(task, agent, options)
    asked = replace(asked, workers=cap_workers(asked.workers, asked.executor, LOG.info, asked.task))
    return HostedRun(HostedAgent(findings, used), _begun(asked))


def resume_hosted(root: Path, findings: Mapping[str, str], used: Used, workers: int | None = None) -> "HostedRun | Run":
    """Resume such a run, with what is left of its budget; a finished one is returned as it is, and a closed one scored.

    Raises what ``resume`` raises.
    """
    agent, served = HostedAgent(findings, used), _resumed(root, cap_workers(workers, LOCAL, LOG.info))
    if read_run(root).state.stage is not Stage.OPEN:
        return served.play(agent, NO_VIEW, None, None, LOG.warning)
    return HostedRun(agent, served)
