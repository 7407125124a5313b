"""The agent ``policy``: it submits an existing policy project once, such as a trained baseline's.

Its option ``project`` is the directory to copy to ``system/``. Its model is a free label for tables, such as
``PPO 128 episodes``.
"""

from pathlib import Path
from threading import Event

from evopolicygym.agents.base import About, refuse_effort
from evopolicygym.agents.kit.judge_client import JudgeClient, submit_once, turn
from evopolicygym.core.agent import Agent, AgentConfig, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.beneath import replace_content
from evopolicygym.core.errors import UsageError

ABOUT = About("plays an existing policy project", needs="--option project=DIR")
KEY = "policy"
OPTION = "project"
MAIN = "policy.py"
IGNORED = "__pycache__"


class PolicyAgent:
    """Submits a project on as many train cases as one submission allows."""

    max_turns = 1

    def __init__(self, project: Path) -> None:
        self._project = project

    def refuse(self, environment: str) -> None:  # noqa: ARG002 - a project may play any
        """Raise ``UsageError`` if the project is missing."""
        files_of(self._project)

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Play; raise ``UsageError`` if the project is missing."""
        return turn(lambda judge: _play(files_of(self._project), workspace.system, judge), endpoint, stop)


def make(config: AgentConfig) -> Agent:
    """Return the agent; raise ``UsageError`` unless its only option is ``project``."""
    refuse_effort(config, None)
    if set(config.options) != {OPTION}:
        given = ", ".join(config.options) or "none"
        raise UsageError(
            f"Invalid options of the agent {config.name!r}: expected only the directory of the project to play, "
            f"--option {OPTION}=DIR, got {given}."
        )
    return PolicyAgent(Path(str(config.options[OPTION])))


def files_of(project: Path) -> dict[str, bytes]:
    """Return the files of a project by path; raise ``UsageError`` if it has no ``policy.py``."""
    if not (project / MAIN).is_file():
        raise UsageError(f"Invalid policy project {project}: expected a directory with {MAIN}.")
    return {
        file.relative_to(project).as_posix(): file.read_bytes()
        for file in sorted(project.rglob("*"))
        if file.is_file() and IGNORED not in file.parts
    }


def _play(files: dict[str, bytes], system: Path, judge: JudgeClient) -> str:
    replace_content(system, files)
    submit_once(judge, KEY)
    return f"a project of {len(files)} files, submitted once"
