"""``evopolicygym enter``: a shell in the workplace of a run."""

import warnings
from pathlib import Path
from threading import Event as Flag

from evopolicygym.agents.builtin.shell import COMMAND
from evopolicygym.agents.builtin.shell import make as make_shell
from evopolicygym.agents.kit.outside_agent import find_judge
from evopolicygym.agents.kit.program import attach_terminal, refuse_no_terminal, run_workplace
from evopolicygym.api.play.run import OnEvent, OnOpen, OnWarning, Progress, watched
from evopolicygym.api.read.run import Run
from evopolicygym.core.agent import OUTSIDE, SHELL, AgentConfig
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.errors import UsageError
from evopolicygym.core.options import LOCAL
from evopolicygym.core.run import RunState, Stage
from evopolicygym.core.text import shell_word
from evopolicygym.records.atomic import is_locked
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import find_run, read_run
from evopolicygym.records.release import refuse_release
from evopolicygym.runs import run as runs_module
from evopolicygym.runs.preflight import cap_workers
from evopolicygym.runs.turns import workspace_of
from evopolicygym.runs.workspace import workspace_directory


def enter(
    run: str | Path = "latest",
    *,
    runs: str | Path = DEFAULT_RUNS,
    workers: int | None = None,
    trust: bool = False,
    progress: Progress = None,
    on_open: OnOpen | None = None,
    on_event: OnEvent | None = None,
    on_warning: OnWarning = warnings.warn,
) -> Run:
    """Open a shell in a run's workplace and return the run once the shell is left.

    A run that another process serves is entered while that process plays it; any other is resumed, with the shell as
    its agent.

    Args:
        run: The run's directory, its id or the beginning of it, or ``"latest"``.
        runs: Where runs are looked for by id.
        workers: How many episodes play at once, where nobody else plays the run; None for one each core.
        trust: Whether to continue a run that was not begun here.
        progress: As for ``run``.
        on_open: As for ``run``.
        on_event: As for ``run``.
        on_warning: As for ``run``.

    Raises:
        UsageError: There is no such run, it is over, its agent is a program or function, or nobody is at a terminal.
        AgentError: The shell was left before the run was over, which this process played; ``enter`` continues it.
        SandboxError: The isolation keeps no program in.
    """
    root = find_run(Path(run), Path(runs)).resolve()
    refuse_release(root)
    refuse_no_terminal("A shell")
    state = read_run(root).state
    agent = state.opened.agent
    if state.stage is not Stage.OPEN:
        raise UsageError(
            f"The run {root} takes no more submissions; evopolicygym show {shell_word(root)} shows what came of it."
        )
    if agent.name not in {OUTSIDE, SHELL}:
        raise UsageError(
            f"The run's agent is {agent.entry}, which works in its workplace alone; a run that evopolicygym serve or "
            f"run --agent shell began can be entered."
        )
    if is_locked(RunPaths(root).lock):
        return _enter_beside(root, state)
    most = cap_workers(workers, LOCAL, on_warning)

    def playing(opened: OnOpen, event: OnEvent) -> RunState:
        return runs_module.resume(root, most, opened, event, trusted=trust, agent=make_shell(AgentConfig(SHELL)))

    return watched(playing, progress, on_open, on_event, on_warning)


def _enter_beside(root: Path, state: RunState) -> Run:
    """Open a shell in the workplace of a run that another process serves."""
    paths = RunPaths(root)
    directory = workspace_directory(paths)
    if (judge := find_judge(paths.addresses)) is None:
        raise UsageError(f"The run {root} is being played by another process, and no judge answers for it.")
    with run_workplace(workspace_of(state.opened, paths, directory), judge) as workplace:
        attach_terminal(workplace, COMMAND, Flag())
    return Run(root)
