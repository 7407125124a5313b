"""A run as an agent that is a Python function sees it: the task, a policy to edit, a judge to submit it to.

The function runs in this process, not in a sandbox, and can read whatever its user can; the run goes on until it
returns. What it submits runs where policies do.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Event

from evopolicygym.agents.kit.evaluator import Evaluator, load_error_of
from evopolicygym.agents.kit.judge_client import Info, JudgeClient, replace_system, turn
from evopolicygym.core.agent import AgentConfig, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.errors import UsageError
from evopolicygym.core.score import estimate

Policy = str | Mapping[str, str | bytes]
"""The text of ``policy.py``, or all files of a policy project by their paths in ``system/``."""
FUNCTION_AGENT = "function"
"""What such agents are recorded as; their label is the function's name."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """What came of a submission."""

    submission: int
    """Its number in the run, from 0."""
    status: str
    """``ok``, or why the policy could not be loaded, such as ``import_error``."""
    returns: tuple[float, ...]
    """The return of each episode, in the order of the cases; empty where nothing was played."""
    failed: tuple[int, ...]
    """Places in ``returns`` of episodes in which the policy failed."""
    remaining: int
    """Train episodes that are left."""
    error: str
    """Why the policy could not be loaded, in the end of its traceback; empty where it could."""
    directory: Path
    """All that the judge shows of the submission, as files: ``summary.json``, ``episodes/``."""

    @property
    def mean(self) -> float | None:
        """The mean return; None where nothing was played."""
        return estimate(self.returns).mean if self.returns else None


class Session:
    """One run, from the agent's side."""

    def __init__(self, workspace: Workspace, judge: JudgeClient) -> None:
        self._workspace, self._judge = workspace, judge
        self._submissions = 0

    @cached_property
    def task(self) -> str:
        """What the policy is to achieve, what it sees and does, and how it is called, as Markdown."""
        return self._judge.task()

    @cached_property
    def info(self) -> Info:
        """The rules of the run: its budget, its cases, the schemas of both spaces in ``env_meta``."""
        return self._judge.info()

    @property
    def remaining(self) -> int:
        """Train episodes that are left."""
        return self._judge.info().remaining_budget

    @property
    def seed(self) -> int:
        """The run's seed, for an agent that draws at random."""
        return self._workspace.seed

    @property
    def workspace(self) -> Path:
        """The directory with ``AGENTS.md``, ``system/`` and ``feedback/``."""
        return self._workspace.directory

    @property
    def policy(self) -> str:
        """The text of ``policy.py`` as it is now; at the beginning, a policy that plays at random."""
        return (self._workspace.system / "policy.py").read_text(encoding="utf-8")

    @cached_property
    def evaluator(self) -> Evaluator:
        """The same run as an evaluator of candidates, for an optimiser."""
        return Evaluator(self._workspace, self._judge)

    def submit(self, policy: Policy | None = None, episodes: int | Sequence[int] = 8) -> Feedback:
        """Submit a policy for some train episodes and return its feedback; each episode is charged.

        ``policy`` replaces all of ``system/``; without it, what lies there is submitted. ``episodes`` is how many (the
        next cases in order; fewer where fewer are left), or which cases, by their indices from 0.

        Raises ``RequestRefused``, with nothing charged, for what the judge doesn't take, such as more episodes than
        are left. The run ends the function when its budget is spent and it asks for more.
        """
        if policy is not None:
            files = {"policy.py": policy} if isinstance(policy, str) else policy
            replace_system(self._workspace.system, {name: _bytes(content) for name, content in files.items()})
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

    def _cases(self, episodes: int | Sequence[int]) -> list[int]:
        if not isinstance(episodes, int):
            return list(episodes)
        info = self._judge.info()
        spent = info.episode_budget - info.remaining_budget
        return info.cases(spent, info.portion(episodes, info.remaining_budget) if info.remaining_budget else episodes)


def _bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode()


AgentFunction = Callable[[Session], object]


class FunctionAgent:
    """Calls a function once."""

    max_turns = 1

    def __init__(self, function: AgentFunction) -> None:
        self.function = function
        self.error: Exception | None = None
        """What the function raised."""

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Call the function; what it returns is recorded as what it had to say, where that is a text."""

        def call(judge: JudgeClient) -> str:
            try:
                said = self.function(Session(workspace, judge))
            except Exception as error:
                self.error = error
                raise
            return said if isinstance(said, str) else ""

        return turn(call, endpoint, stop)


def function_name(function: AgentFunction) -> str:
    """Return what a function goes by in tables; raise ``UsageError`` where it takes no session."""
    try:
        inspect.signature(function).bind(None)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"Invalid agent {getattr(function, '__name__', function)!r}: it must take one argument: def agent(session)"
        ) from error
    return getattr(function, "__name__", type(function).__name__)


def function_missing(config: AgentConfig) -> UsageError:
    """Return what is said where such an agent is named and no function is at hand."""
    name = config.label or FUNCTION_AGENT
    return UsageError(
        f"The agent {name} is a Python function, which only Python can give: evopolicygym.run(TASK, agent={name}), or "
        f"evopolicygym.resume(RUN, agent={name}) for a run that stopped."
    )
