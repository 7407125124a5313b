"""An agent that works in a run's own workplace and is driven from elsewhere: nothing here knows who has commands run.

Its commands are kept in as those of any program; whoever drives it is not. A workplace that stays is described in
``sandbox/program/standing.py``, an agent that has no workplace of ours in ``outside_agent.py``.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from threading import Condition, Event
from time import monotonic

from evopolicygym.agents.kit.run_workplace import LIMITS, run_workplace
from evopolicygym.core.agent import AgentEnd, AgentLimits, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.sandbox.program.standing import StandingWorkplace

LOOK_S = 0.05
RESTARTS = 10
"""How often a workplace is made anew whose commands ended it."""
PATIENCE_S = 120.0
"""Seconds within which a workplace must have been made."""
LEFT = "whoever drove the agent left"


class TurnOver(EvoPolicyGymError):
    """The agent's turn is over, and no command is executed any more."""


class HostedAgent:
    """Holds a workplace open for as long as its turn lasts."""

    max_turns = 1
    starts_program = True

    def __init__(self, findings: Mapping[str, str], used: Callable[[], Mapping[str, float]] = dict) -> None:
        """Record ``findings`` on who drives the agent, and in the end what that ``used`` of models, as it counts."""
        self.opened: Future[Workspace] = Future()
        """Where the run is played, once the workplace is made."""
        self._findings, self._used = dict(findings), used
        self._limits: AgentLimits = LIMITS
        self._workplace: StandingWorkplace | None = None
        self._changed, self._left = Condition(), Event()
        self._turn: Turn | None = None

    def workplace(self) -> StandingWorkplace:
        """Return the workplace, which is made anew where its commands ended it; raise ``TurnOver`` after the turn."""
        deadline = monotonic() + PATIENCE_S
        with self._changed:
            while self._turn is None and (self._workplace is None or self._workplace.lost):
                if not self._changed.wait(deadline - monotonic()):
                    raise TurnOver("no workplace could be made in time")
            if self._turn is not None or self._workplace is None:
                raise TurnOver(self._turn.message if self._turn else LEFT)
            return self._workplace

    def leave(self, end: AgentEnd = AgentEnd.FINISHED, message: str = "") -> None:
        """End the turn, as it is to be recorded; nothing where it is over."""
        self._over(Turn(end, message))
        self._left.set()

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Hold the workplace open until the turn is left, ``stop`` is set, or its commands pass a limit."""
        try:
            for _ in range(1 + RESTARTS):
                with run_workplace(workspace, endpoint, self._limits) as workplace:
                    self._findings = {**workplace.findings, **self._findings}
                    self._hand_out(workspace, workplace)
                    self._wait(workplace, stop)
                if self._turn is not None:
                    break
            self._over(Turn(AgentEnd.CRASHED, f"the agent's commands ended their sandbox {1 + RESTARTS} times"))
        except BaseException as error:
            self._over(Turn(AgentEnd.CRASHED, str(error)))
            raise
        turn = self._turn or Turn(AgentEnd.CRASHED)
        return replace(turn, findings=self._findings, tool_usage=self._used())

    def _hand_out(self, workspace: Workspace, workplace: StandingWorkplace) -> None:
        with self._changed:
            self._workplace = workplace
            self._changed.notify_all()
        if not self.opened.done():
            self.opened.set_result(workspace)

    def _wait(self, workplace: StandingWorkplace, stop: Event) -> None:
        """Wait until there is a reason to leave the workplace; where the turn is over, that is known then."""
        while not self._left.wait(LOOK_S) and not workplace.lost:
            if stop.is_set():
                self._over(Turn(AgentEnd.STOPPED, "the run takes no more submissions"))
                return
            if limit := workplace.limit_exceeded():
                self._over(Turn(AgentEnd.CRASHED, f"the agent's commands were ended: {limit}"))
                return

    def _over(self, turn: Turn) -> None:
        with self._changed:
            self._turn = self._turn or turn
            self._changed.notify_all()
