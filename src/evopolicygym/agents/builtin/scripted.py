"""The agent ``scripted``: a fixed list of edits and submissions, for tests and for playing a known policy.

Each step in its configuration is a table with one of ``write``, ``delete``, ``submit`` and ``finish``::

    steps = [
        { write = "policy.py", content = "class Policy: ..." },
        { delete = "old.py" },
        { submit = [0, 1, 2], key = "first" },
        { finish = true },
    ]
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from evopolicygym.agents.base import About, refuse_effort
from evopolicygym.agents.kit.judge_client import JudgeClient, StopRequested, turn
from evopolicygym.core.agent import Agent, AgentConfig, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.errors import UsageError

ABOUT = About("takes a fixed list of steps, for tests", needs="steps in a configuration's [agent.options]")


@dataclass(frozen=True, slots=True)
class Write:
    """Creates or replaces a file of the policy project."""

    write: str
    """Its path, relative to ``system/``."""
    content: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Removes a file of the policy project."""

    delete: str
    """Its path, relative to ``system/``."""


@dataclass(frozen=True, slots=True)
class Submit:
    """Submits the current policy."""

    submit: tuple[int, ...]
    """Train case indices."""
    key: str = ""
    """If empty, the step's index, so that a repeated script is charged once."""
    films: tuple[int, ...] = ()
    """The cases to film."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Ends the run with budget left."""

    finish: bool


Step = Write | Delete | Submit | Finish


class ScriptedAgent:
    """Executes its steps in order."""

    max_turns = 1

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = tuple(steps)

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Execute all steps; a refusal ends the turn as crashed."""
        return turn(lambda judge: self._follow(workspace, judge, stop), endpoint, stop)

    def _follow(self, workspace: Workspace, judge: JudgeClient, stop: Event) -> str:
        for index, step in enumerate(self._steps):
            if stop.is_set():
                raise StopRequested(f"The agent was asked to stop before its step {index}.")
            _execute(step, f"scripted-{index}", workspace.system, judge)
        return f"{len(self._steps)} steps taken"


def make(config: AgentConfig) -> Agent:
    """Return the agent with the option ``steps``; raise ``UsageError`` if that is invalid."""
    refuse_effort(config, None)
    return ScriptedAgent(_decode(config.options))


def _execute(step: Step, key: str, system: Path, judge: JudgeClient) -> None:
    match step:
        case Write():
            file = system / step.write
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(step.content, encoding="utf-8")
        case Delete():
            (system / step.delete).unlink(missing_ok=True)
        case Submit():
            judge.submit(step.submit, step.key or key, step.films)
        case Finish():
            judge.finish()


def _decode(options: Mapping[str, Any]) -> tuple[Step, ...]:
    try:
        return decoder(tuple[Step, ...]).value(options.get("steps", ()))
    except Undecodable as error:
        problem = error.problems[0]
        which = f"step {problem.path[0]}" if problem.path else "steps"
        raise UsageError(
            f"Invalid {which} of the agent 'scripted': {problem.found!r}. A step is a table with write and content; "
            f"delete; submit, optionally with key and films; or finish."
        ) from error
