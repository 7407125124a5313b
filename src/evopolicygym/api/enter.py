"""``evopolicygym enter``: a shell in the workplace of a run, at the isolation that an agent's program would have there.

A run that another process serves is entered beside it; one that nobody plays is resumed, with the shell as its agent.
"""

import warnings
from pathlib import Path
from threading import Event as Flag

from evopolicygym.agents.builtin.shell import COMMAND
from evopolicygym.agents.builtin.shell import make as make_shell
from evopolicygym.agents.kit.outside_agent import read_addresses
from evopolicygym.agents.kit.relay import RelayedJudge
from evopolicygym.agents.kit.run_workplace import run_workplace
from evopolicygym.agents.kit.terminal import attach, refuse_no_terminal
from evopolicygym.api.play import OnEvent, OnNote, OnOpen, Progress, watched
from evopolicygym.api.run import Run
from evopolicygym.core.agent import OUTSIDE, SHELL, AgentConfig
from evopolicygym.core.errors import UsageError
from evopolicygym.core.options import LOCAL
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.core.run import RunState, Stage
from evopolicygym.records.lock import is_held
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.records.run_names import named_run
from evopolicygym.runs import run as runs
from evopolicygym.runs.agent_workspace import workspace_directory
from evopolicygym.runs.executor import capped
from evopolicygym.runs.turns import workspace_of


def enter(
    run: str | Path = "latest",
    *,
    runs_directory: str | Path = DEFAULT_RUNS,
    workers: int | None = None,
    trust: bool = False,
    progress: Progress = None,
    on_open: OnOpen | None = None,
    on_event: OnEvent | None = None,
    on_note: OnNote = warnings.warn,
) -> Run:
    """Open a shell in a run's workplace and return the run once the shell is left.

    Args:
        run: The run's directory, its id or the beginning of it, or ``"latest"``.
        runs_directory: Where runs are looked for by id.
        workers: How many episodes play at once, where nobody else plays the run; None for one each core.
        trust: Whether to continue a run that was not begun here.
        progress: As for ``run``.
        on_open: As for ``run``.
        on_event: As for ``run``.
        on_note: As for ``run``.

    Raises:
        UsageError: There is no such run, it is over, its agent is a program or function, or nobody is at a terminal.
        AgentError: The shell was left before the run was over, which this process played; ``enter`` continues it.
        SandboxError: The isolation keeps no program in.
    """
    refuse_no_terminal("A shell")
    root = named_run(Path(run), Path(runs_directory)).resolve()
    state = read_run(root).state
    agent = state.opened.agent
    if state.stage is not Stage.OPEN:
        raise UsageError(f"The run {root} takes no more submissions; evopolicygym show {root} shows what came of it.")
    if agent.name not in {OUTSIDE, SHELL}:
        raise UsageError(
            f"The run's agent is {agent.entry}, which works in its workplace alone; a run that evopolicygym serve or "
            f"run --agent shell began can be entered."
        )
    if is_held(RunPaths(root).lock):
        return _enter_beside(root, state)
    most = capped(workers, LOCAL, on_note)

    def playing(opened: OnOpen, event: OnEvent) -> RunState:
        return runs.resume(root, most, opened, event, trusted=trust, agent=make_shell(AgentConfig(SHELL)))

    return watched(playing, progress, on_open, on_event, on_note)


def _enter_beside(root: Path, state: RunState) -> Run:
    """Open a shell in the workplace of a run that another process serves."""
    paths = RunPaths(root)
    directory = workspace_directory(paths)
    variables = read_addresses(directory)
    judge = RelayedJudge(variables) if variables else None
    if judge is None or not judge.answers():
        raise UsageError(f"The run {root} is being played by another process, and {directory} leads to no judge.")
    with run_workplace(workspace_of(state.opened, paths, directory), judge) as workplace:
        attach(workplace, COMMAND, Flag())
    return Run(root)
