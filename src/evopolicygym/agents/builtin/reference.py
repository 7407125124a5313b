"""The agent that plays what a person wrote: it lays the environment's reference into ``system/`` and submits once.

For measuring a reference by the rules of a run, and for seeing what a good score looks like. The policies themselves
are in ``references/``.
"""

from pathlib import Path
from threading import Event

from evopolicygym import references
from evopolicygym.agents.base import About, refuse_choices
from evopolicygym.agents.kit.judge_client import JudgeClient, replace_system, submit_once, turn
from evopolicygym.core.agent import Agent, AgentConfig, JudgeEndpoint, Turn, Workspace

ABOUT = About("plays the policy that a person wrote for the environment")
KEY = "reference"


class ReferenceAgent:
    """Submits the reference on as many train cases as one submission may have."""

    max_turns = 1

    def refuse(self, environment: str) -> None:
        """Raise ``UsageError`` where the environment has no reference."""
        references.files_of(environment)

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Play; raise ``UsageError`` where the environment has no reference."""
        return turn(lambda judge: _play(workspace.system, judge), endpoint, stop)


def make(config: AgentConfig) -> Agent:
    """Return the agent."""
    refuse_choices(config)
    return ReferenceAgent()


def _play(system: Path, judge: JudgeClient) -> str:
    environment = str(judge.info().env_meta["env"])
    lay(environment, system)
    submit_once(judge, KEY)
    return f"the reference policy of {environment}, submitted once"


def lay(environment: str, system: Path) -> None:
    """Have a directory hold an environment's reference and nothing else; raise ``UsageError`` where there is none."""
    replace_system(system, references.files_of(environment))
