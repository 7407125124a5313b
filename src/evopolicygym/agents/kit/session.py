"""Agents that are Python functions, and the session that such a function is given.

The function runs in this process, without a sandbox, with all rights of its user; its policies run in their sandbox.
The run ends when the function returns.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Event

import numpy as np

from evopolicygym.agents.kit.evaluator import Evaluator, load_error_of
from evopolicygym.agents.kit.judge_client import Info, JudgeClient, turn
from evopolicygym.core import regular_file
from evopolicygym.core.agent import JudgeEndpoint, Turn, Workspace
from evopolicygym.core.beneath import replace_content
from evopolicygym.core.errors import UsageError
from evopolicygym.core.score import estimate

Policy = str | Mapping[str, str | bytes]
"""The text of ``policy.py``, or the content of each file of a policy project by path in ``system/``."""
MAX_POLICY = 64 << 20
"""Largest ``policy.py`` that is read, in bytes."""
FUNCTION_AGENT = "function"
"""The recorded name of such agents; their label is the function's name."""
EPISODES = 8
"""Episodes of a submission that names none."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """The result of a submission."""

    submission: int
    """Its number in the run, from 0."""
    status: str
    """``ok``, or why the policy could not be loaded, such as ``import_error``."""
    returns: tuple[float, ...]
    """The return of each episode, in the order of the cases; empty if nothing was played."""
    failed: tuple[int, ...]
    """Indices into ``returns`` of episodes in which the policy failed."""
    remaining: int
    """Train episodes left."""
    error: str
    """The end of the traceback if the policy could not be loaded; otherwise empty."""
    directory: Path
    """The directory with the submission's feedback: ``summary.json``, ``episodes/``."""

    @property
    def mean(self) -> float | None:
        """The mean return; None if nothing was played."""
        return estimate(self.returns).mean if self.returns else None


class Session:
    """A run from the agent's side: the task, a policy to edit, and a judge to submit it to."""

    def __init__(self, workspace: Workspace, judge: JudgeClient) -> None:
        self._workspace, self._judge = workspace, judge
        self._submissions = 0

    @cached_property
    def task(self) -> str:
        """The task description as Markdown: the goal, observations, actions and how the policy is called."""
        return self._judge.task()

    @cached_property
    def info(self) -> Info:
        """The budget, the cases, and the schemas of both spaces in ``env_meta``, at the start of the session."""
        return self._judge.info()

    @property
    def remaining(self) -> int:
        """Train episodes left."""
        return self._judge.info().remaining_budget

    @property
    def seed(self) -> int:
        """The run's seed, for the agent's random numbers."""
        return self._workspace.seed

    @property
    def workspace(self) -> Path:
        """The directory with ``AGENTS.md``, ``system/`` and ``feedback/``."""
        return self._workspace.directory

    @property
    def policy(self) -> str:
        """The current text of ``policy.py``; at the start of a run, a policy that plays at random."""
        file = self._workspace.system / "policy.py"
        return regular_file.read(file, MAX_POLICY, self._workspace.directory).decode("utf-8")

    @cached_property
    def evaluator(self) -> Evaluator:
        """The run as an evaluator of candidates, for optimisers."""
        return Evaluator(self._workspace, self._judge)

    def submit(self, policy: Policy | None = None, episodes: int | Sequence[int] | None = None) -> Feedback:
        """Submit a policy for some train episodes and return its feedback; each episode is charged.

        ``policy`` replaces all of ``system/``; without it, the current content of ``system/`` is submitted.
        ``episodes`` is a number of episodes (the next cases in order) or a list of case indices, from 0. Default: 8,
        or as many as are left.

        Raises ``RequestRefused``, without a charge, if the judge rejects the request, for example for lack of budget.
        Once the budget is spent, a further submission ends the function.
        """
        if policy is not None:
            files = {"policy.py": policy} if isinstance(policy, str) else policy
            replace_content(self._workspace.system, {name: _bytes(content) for name, content in files.items()})
        summary = self._judge.submit(self._cases(episodes), f"session-{self._submissions}")
        self._submissions += 1
        directory = self.workspace / "feedback" / f"submit_{summary.submit_id:03d}"
        return Feedback(
            summary.submit_id,
            summary.status,
            summary.returns,
            summary.failed,
            summary.remaining_budget,
            "" if summary.returns else load_error_of(directory) or summary.status,
            directory,
        )

    def _cases(self, episodes: int | Sequence[int] | None) -> list[int]:
        if isinstance(episodes, Sequence | np.ndarray):
            return [int(case) for case in episodes]
        info = self._judge.info()
        if episodes is None:
            episodes = info.portion(EPISODES, info.remaining_budget) if info.remaining_budget else EPISODES
        return info.cases(info.episode_budget - info.remaining_budget, int(episodes))


def _bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode()


AgentFunction = Callable[[Session], object]


class FunctionAgent:
    """Calls a function once."""

    max_turns = 1

    def __init__(self, function: AgentFunction) -> None:
        self.function = function
        self.error: Exception | None = None
        """The exception that the function raised."""

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Call the function; a returned string is recorded as the turn's message."""

        def call(judge: JudgeClient) -> str:
            try:
                message = self.function(Session(workspace, judge))
            except Exception as error:
                self.error = error
                raise
            return message if isinstance(message, str) else ""

        return turn(call, endpoint, stop)


def function_name(function: AgentFunction) -> str:
    """Return a function's label in tables; raise ``UsageError`` if it doesn't take one argument."""
    try:
        inspect.signature(function).bind(None)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"Invalid agent {getattr(function, '__name__', function)!r}: it must take one argument: def agent(session)"
        ) from error
    return getattr(function, "__name__", type(function).__name__)
