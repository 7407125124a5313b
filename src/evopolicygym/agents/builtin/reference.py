"""The agent ``reference``: it copies the environment's reference policy to ``system/`` and submits it once.

This measures a reference by the rules of a run. The policies are in ``references/``.
"""

from pathlib import Path
from threading import Event

from evopolicygym import references
from evopolicygym.agents.base import About, refuse_choices
from evopolicygym.agents.kit.judge_client import JudgeClient, replace_system, submit_once, turn
from evopolicygym.core.agent import Agent, AgentConfig, JudgeEndpoint, Turn, Workspace

ABOUT = About("plays the hand-written policy of the environment")
KEY = "reference"


class ReferenceAgent:
    """Submits the reference on as many train cases as one submission allows."""

    max_turns = 1

    def refuse(self, environment: str) -> None:
        """Raise ``UsageError`` if the environment has no reference."""
        references.files_of(environment)

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Play; raise ``UsageError`` if the environment has no reference."""
        return turn(lambda judge: _play(workspace.system, judge), endpoint, stop)


def make(config: AgentConfig) -> Agent:
    """Return the agent."""
    refuse_choices(config)
    return ReferenceAgent()


def _play(system: Path, judge: JudgeClient) -> str:
    environment = str(judge.info().env_meta["env"])
    write_reference(environment, system)
    submit_once(judge, KEY)
    return f"the reference policy of {environment}, submitted once"


def write_reference(environment: str, system: Path) -> None:
    """Replace a directory's content by an environment's reference; raise ``UsageError`` if there is none."""
    replace_system(system, references.files_of(environment))
