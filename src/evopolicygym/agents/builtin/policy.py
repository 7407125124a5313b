"""The agent that plays a policy project that is there already, such as a trained baseline's: it submits it once.

Its option ``project`` is the project's directory, as it would lie in ``system/``. Its model is free: what tables are to
call this policy, such as ``PPO 128 episodes``.
"""

from pathlib import Path
from threading import Event

from evopolicygym.agents.base import About, refuse_effort
from evopolicygym.agents.kit.judge_client import JudgeClient, replace_system, submit_once, turn
from evopolicygym.core.agent import Agent, AgentConfig, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.errors import UsageError

ABOUT = About("plays a policy project that is there already", needs="--option project=DIR")
KEY = "policy"
OPTION = "project"
MAIN = "policy.py"
NOT_LAID = "__pycache__"


class PolicyAgent:
    """Submits a given project on as many train cases as one submission may have."""

    max_turns = 1

    def __init__(self, project: Path) -> None:
        self._project = project

    def refuse(self, environment: str) -> None:  # noqa: ARG002 - a project may play any
        """Raise ``UsageError`` where there is no project to play."""
        files_of(self._project)

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Play; raise ``UsageError`` where the project is gone."""
        return turn(lambda judge: _play(files_of(self._project), workspace.system, judge), endpoint, stop)


def make(config: AgentConfig) -> Agent:
    """Return the agent; raise ``UsageError`` where its options are not the one it has."""
    refuse_effort(config, None)
    if set(config.options) != {OPTION}:
        given = ", ".join(config.options) or "none"
        raise UsageError(
            f"The agent {config.name!r} takes one option, the directory of the project that it plays, and was given "
            f"{given}: --option {OPTION}=DIR."
        )
    return PolicyAgent(Path(str(config.options[OPTION])))


def files_of(project: Path) -> dict[str, bytes]:
    """Return the files of a project by their paths in it; raise ``UsageError`` where it is none."""
    if not (project / MAIN).is_file():
        raise UsageError(f"There is no policy project in {project}: a directory with {MAIN} in it was expected.")
    return {
        file.relative_to(project).as_posix(): file.read_bytes()
        for file in sorted(project.rglob("*"))
        if file.is_file() and NOT_LAID not in file.parts
    }


def _play(files: dict[str, bytes], system: Path, judge: JudgeClient) -> str:
    replace_system(system, files)
    submit_once(judge, KEY)
    return f"a project of {len(files)} files, submitted once"
