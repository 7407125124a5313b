"""The agent that does as it is asked: a fixed list of edits, submissions and at most one wish to finish.

For tests of everything around an agent, and for playing a known policy by the rules of a run. As configured, each step
is a table with one of ``write``, ``delete``, ``submit`` and ``finish``::

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
    """A file of the policy project, made or replaced."""

    write: str
    """Its path, relative to ``system/``."""
    content: str


@dataclass(frozen=True, slots=True)
class Delete:
    """A file of the policy project, removed."""

    delete: str
    """Its path, relative to ``system/``."""


@dataclass(frozen=True, slots=True)
class Submit:
    """The policy as it stands, submitted."""

    submit: tuple[int, ...]
    """Train case indices."""
    key: str = ""
    """Empty: the step's place in the script, so that a script played again charges nothing again."""
    films: tuple[int, ...] = ()
    """Those of the cases that are to be filmed."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The wish to end the run with budget left."""

    finish: bool


Step = Write | Delete | Submit | Finish


class ScriptedAgent:
    """Takes its steps in order."""

    max_turns = 1

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = tuple(steps)

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Take every step; a refusal ends the turn as crashed."""
        return turn(lambda judge: self._follow(workspace, judge, stop), endpoint, stop)

    def _follow(self, workspace: Workspace, judge: JudgeClient, stop: Event) -> str:
        for place, step in enumerate(self._steps):
            if stop.is_set():
                raise StopRequested(f"The agent was asked to stop before its step {place}.")
            _take(step, f"scripted-{place}", workspace.system, judge)
        return f"{len(self._steps)} steps taken"


def make(config: AgentConfig) -> Agent:
    """Return the agent that the option ``steps`` describes; raise ``UsageError`` where it can't be read."""
    refuse_effort(config, None)
    return ScriptedAgent(_decode(config.options))


def _take(step: Step, key: str, system: Path, judge: JudgeClient) -> None:
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
            f"The agent 'scripted' can't read its {which}: {problem.found!r}. A step is a table "
            f"with one of: write and content; delete; submit and perhaps key and films; finish."
        ) from error
