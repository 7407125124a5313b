"""A run whose agent works in the run's own workplace and is driven by another program, such as a harness.

The agent's commands are executed where an agent's program would run. Whoever asks the model and decides on commands is
that other program, in this process. A run whose agent has no workplace of ours is in ``serve.py``.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any, Unpack

from evopolicygym.agents.kit.hosted_agent import HostedAgent
from evopolicygym.api.play import OnEvent, OnOpen, watched
from evopolicygym.api.run import Run
from evopolicygym.core.agent import AgentEnd
from evopolicygym.core.options import LOCAL, RunArguments
from evopolicygym.core.run import RunState, Stage
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.runs import run as runs
from evopolicygym.runs.config import configured
from evopolicygym.runs.executor import capped
from evopolicygym.sandbox.program.standing import StandingWorkplace

LOG = logging.getLogger(__name__)
Used = Callable[[], Mapping[str, float]]
"""Returns what the driver has used of models so far, by the names of ``Turn.tool_usage``."""


class HostedRun:
    """A run that is being played, from the side of whoever drives its agent. Any thread may call it."""

    def __init__(self, agent: HostedAgent, playing: Callable[[OnOpen, OnEvent], RunState], track: str = "") -> None:
        """Begin to play, with a tracker where one is named; raise what stops the run before there is a workplace."""
        self._agent, self._track = agent, track
        self._root: Path | None = None
        self._state: RunState | None = None
        self._played: Future[Run] = Future()
        Thread(target=self._play, args=(playing,), name="hosted run", daemon=True).start()
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

    def _play(self, playing: Callable[[OnOpen, OnEvent], RunState]) -> None:
        def opened(paths: RunPaths, state: RunState) -> None:
            self._root, self._state = paths.root, state

        def observe(_event: object, state: RunState) -> None:
            self._state = state

        try:
            run = watched(playing, False, opened, observe, LOG.warning, self._track)  # noqa: FBT003 - shown there
            self._played.set_result(run)
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
    asked, _ = configured(task, agent, options)
    asked = replace(asked, workers=capped(asked.workers, asked.executor, LOG.info, asked.task))
    hosted = HostedAgent(findings, used)
    return HostedRun(hosted, lambda opened, event: runs.play(asked, opened, event, hosted), asked.track)


def host_again(root: Path, findings: Mapping[str, str], used: Used, workers: int | None = None) -> "HostedRun | Run":
    """Resume such a run, with what is left of its budget; a finished one is returned as it is, and a closed one scored.

    Raises what ``resume`` raises.
    """
    stage = read_run(root).state.stage
    most = capped(workers, LOCAL, LOG.info)
    hosted = HostedAgent(findings, used)

    def playing(opened: OnOpen, event: OnEvent) -> RunState:
        return runs.resume(root, most, opened, event, agent=hosted)

    if stage is not Stage.OPEN:
        return watched(playing, False, on_note=LOG.warning)  # noqa: FBT003 - as above
    return HostedRun(hosted, playing)
