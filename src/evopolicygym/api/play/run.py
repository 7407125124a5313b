"""``evopolicygym.run`` and ``resume``: playing a run and watching it."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack, get_args

from rich.console import Console

from evopolicygym.agents.base import forward_warnings
from evopolicygym.agents.kit.session import FUNCTION_AGENT as FUNCTION
from evopolicygym.agents.kit.session import AgentFunction, FunctionAgent
from evopolicygym.api.play.progress import LOG, RunView, log_event, log_opened
from evopolicygym.api.read.run import Run
from evopolicygym.core.agent import INSPECT, OUTSIDE, Agent
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.errors import AgentError, UsageError
from evopolicygym.core.event import Event
from evopolicygym.core.options import LOCAL, RunArguments
from evopolicygym.core.run import RunState
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.core.text import shell_word
from evopolicygym.environments.pickled import Maker
from evopolicygym.records.experiment import revealed
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import find_run, read_run
from evopolicygym.records.release import refuse_release
from evopolicygym.runs import run as runs_module
from evopolicygym.runs.config import resolve_run_config
from evopolicygym.runs.disk_forecast import disk_note
from evopolicygym.runs.preflight import cap_workers, missing_price_warning
from evopolicygym.tracking.sink import attach_tracker
from evopolicygym.tracking.tracker import refuse_unknown_tracker

if TYPE_CHECKING:
    from evopolicygym.agents.kit.outside_agent import Announce, OutsideAgent

OnOpen = Callable[[RunPaths, RunState], None]
"""Called once a run has a record: with where it lies, and its state."""
OnWarning = Callable[[str], object]
"""Called with a sentence that a person should know."""
OnEvent = Callable[[Event, RunState], None]
"""Called after each event of a run is recorded."""
Progress = bool | Console | None
"""Whether to show progress, or the console to show it on; None: in a terminal and in a notebook."""
OnAgentError = Literal["warn", "raise", "ignore"]
"""What to do once a run is scored whose agent crashed or hung."""
Playing = Callable[[OnOpen, OnEvent], RunState]


class RunInterrupted(KeyboardInterrupt):
    """A run was interrupted after it was opened; nothing is lost."""

    def __init__(self, path: Path, command: str) -> None:
        super().__init__(f"The run was interrupted; nothing is lost. evopolicygym.resume({str(path)!r}) continues it.")
        self.path = path
        """The run's directory."""
        self.command = command
        """What continues it in a shell."""


def run(
    task: str | Path | Maker | None = None,
    agent: str | AgentFunction | None = None,
    *,
    config: str | Path | None = None,
    progress: Progress = None,
    on_open: OnOpen | None = None,
    on_event: OnEvent | None = None,
    on_warning: OnWarning = warnings.warn,
    on_agent_error: OnAgentError = "warn",
    **options: Unpack[RunArguments],
) -> Run:
    """Let an agent evolve a policy in an environment, score the best of its submissions, and return the run.

    Args:
        task: An environment's name, such as ``"acrobot"``, the path of a spec's ``.toml`` file, an id of gymnasium,
            ``"module:Class"``, or a class of environments or a function that returns one, also of a notebook's cell.
        agent: A built-in agent's name, ``"package.module:make"``, or a function of one argument, a ``Session``; such a
            function runs in this process and is not sandboxed, its policies are. Default: the tuner.
        config: A TOML file that holds a run's configuration; arguments override it.
        progress: Whether to show progress, or the console to show it on. Default: in a terminal and in a notebook.
        on_open: Called with the run's paths and state as soon as it has a record.
        on_event: Called with each event and the state after it, once it is recorded.
        on_warning: Called with each warning, such as that cases were revealed. Default: ``warnings.warn``.
        on_agent_error: What to do if the agent crashed or hung, once what it submitted is scored: ``"warn"`` calls
            ``on_warning``, ``"raise"`` raises ``AgentError``, ``"ignore"`` leaves it to ``run.agent_error``.
        **options: Options of a run by the names that a TOML file has them by, such as ``budget`` (train episodes),
            ``validation`` and ``held_out`` (hidden cases), ``split``, ``seed``, ``model``, ``max_cost`` (US dollars) or
            ``max_time`` (seconds, or a text such as ``"2h"``). ``evopolicygym run --help`` describes them all.

    Returns:
        The finished run: its score, its submissions, where its record lies.

    Raises:
        UsageError: An argument is invalid; nothing was made.
        AgentError, EnvironmentFault, SandboxError, StorageError: The run stopped; ``resume`` continues it.
        RunInterrupted: Ctrl-C, after the run was opened; ``resume`` continues it.
    """
    _refuse_unknown(on_agent_error)
    asked, function = resolve_run_config(task, agent, options, config)
    asked = replace(asked, workers=cap_workers(asked.workers, asked.executor, on_warning, asked.task))
    _log_workers(asked.workers, asked.executor)
    for note in spec_notes(task, asked.task.environment):
        on_warning(note)

    def playing(opened: OnOpen, event: OnEvent) -> RunState:
        return runs_module.play(asked, opened, event, function)

    played = watched(playing, progress, on_open, on_event, on_warning, asked.track)
    return _report_agent_error(played, function, on_agent_error, on_warning)


def resume(  # noqa: PLR0913 - each is an argument of its own
    run: str | Path = "latest",
    *,
    agent: AgentFunction | None = None,
    runs: str | Path = DEFAULT_RUNS,
    workers: int | None = None,
    executor: str = LOCAL,
    address: str = "",
    trust: bool = False,
    allow_changed_program: bool = False,
    track: str = "",
    announce: "Announce" = lambda _address, _workspace: None,
    progress: Progress = None,
    on_open: OnOpen | None = None,
    on_event: OnEvent | None = None,
    on_warning: OnWarning = warnings.warn,
    on_agent_error: OnAgentError = "warn",
) -> Run:
    """Resume a run after a crash or an interruption; its record ends as if nothing had happened.

    Args:
        run: The run's directory, its id or the beginning of it, or ``"latest"``.
        agent: The function that is the agent, for a run that was begun with one.
        runs: Where runs are looked for by id.
        workers: How many episodes play at once; None for one each core.
        executor: Where episodes play: ``"local"``, ``"ray"`` or ``"package.module:Class"``.
        address: The executor's cluster.
        trust: Whether to continue a run that was not begun here, and start the program that it names.
        allow_changed_program: Whether to continue with an agent whose program or source changed since the run was
            played last; the record then shows it.
        track: The tracker that the run is logged to besides. Default: the one that logged it before, if any did.
        announce: Called with the judge's address and the workspace, for a run whose agent is outside: it is served on
            loopback until it is over. ``serve`` has it answer elsewhere, or moves the workspace.
        progress: As for ``run``.
        on_open: As for ``run``.
        on_event: As for ``run``.
        on_warning: As for ``run``.
        on_agent_error: As for ``run``.

    Raises:
        UsageError: There is no such run, it was begun elsewhere and is not trusted, or its agent's program is missing
            or changed.
        RecordError: It is being played, is damaged, or was begun under other versions.
    """
    _refuse_unknown(on_agent_error)
    refuse_unknown_tracker(track)
    root = find_run(Path(run), Path(runs))
    made = FunctionAgent(agent) if agent else _outside_agent(root, announce)
    most = cap_workers(workers, executor, on_warning)
    _log_workers(most, executor)

    def playing(opened: OnOpen, event: OnEvent) -> RunState:
        return runs_module.resume(
            root,
            most,
            opened,
            event,
            executor,
            address,
            trusted=trust,
            allow_changed_program=allow_changed_program,
            agent=made,
        )

    played = watched(playing, progress, on_open, on_event, on_warning, track)
    return _report_agent_error(played, made, on_agent_error, on_warning)


def _outside_agent(root: Path, announce: "Announce") -> "OutsideAgent | None":
    """Return the agent of a run whose agent is outside; None for another run."""
    refuse_release(root)
    if read_run(root).state.opened.agent.name != OUTSIDE:
        return None
    from evopolicygym.agents.kit.outside_agent import OpenAccess, OutsideAgent  # imported late: few runs need it

    return OutsideAgent(OpenAccess(), announce)


def watched(
    playing: Playing,
    progress: Progress = None,
    on_open: OnOpen | None = None,
    on_event: OnEvent | None = None,
    on_warning: OnWarning = warnings.warn,
    track: str = "",
) -> Run:
    """Play with a view of the progress, and a tracker where one is named, and return the run."""
    console = progress if isinstance(progress, Console) else Console(stderr=True, highlight=False)
    shown = bool(progress) if progress is not None else console.is_terminal or console.is_jupyter
    view = RunView(console) if shown else None
    opened: list[tuple[RunPaths, str]] = []

    def open_run(paths: RunPaths, state: RunState) -> None:
        opened.append((paths, f"evopolicygym resume {shell_word(paths.root)}"))
        log_opened(paths, state)
        for note in notes_of(paths.root, state):
            on_warning(note)
        if view:
            view.opened(paths, state)
        if on_open:
            on_open(paths, state)

    def observe(event: Event, state: RunState) -> None:
        log_event(event, state)
        if view:
            view.observe(event, state)
        if on_event:
            on_event(event, state)

    try:
        with (
            view.live() if view else nullcontext(),
            forward_warnings(on_warning),
            attach_tracker(track, open_run, observe, on_warning) as (on_opened, on_each),
        ):
            playing(on_opened, on_each)
    except KeyboardInterrupt as interruption:
        if not opened:
            raise
        paths, command = opened[0]
        raise RunInterrupted(paths.root, command) from interruption
    return Run(opened[0][0].root)


def notes_of(root: Path, state: RunState) -> Iterator[str]:
    """Yield what a person should know of a run that begins or is resumed."""
    agent = state.opened.agent
    if agent.name not in {FUNCTION, OUTSIDE, INSPECT} and (note := missing_price_warning(agent, state.opened.price)):
        yield note
    if note := disk_note(state.opened.task, state.opened.observation_schema, root):
        yield note
    if state.opened.split is not SplitSource.PUBLIC and revealed(root, state.opened.experiment):
        yield (
            "The cases of this experiment were revealed, so they are no longer hidden. For hidden cases, begin another "
            "experiment with --experiment NAME."
        )


def _refuse_unknown(on_agent_error: str) -> None:
    if on_agent_error not in (known := get_args(OnAgentError)):
        raise UsageError(f"Invalid on_agent_error: expected one of {', '.join(known)}, got {on_agent_error!r}.")


def _report_agent_error(run: Run, agent: Agent | None, on_agent_error: OnAgentError, on_warning: OnWarning) -> Run:
    """Return a finished run; where its agent failed, say so or raise ``AgentError``."""
    if on_agent_error == "ignore" or run.agent_error is None:
        return run
    log = RunPaths(run.path).transcript
    where = f" Its output: {log}." if log.is_file() else ""
    message = f"The agent {run.agent_error}. What it submitted before is scored.{where}"
    if on_agent_error == "raise":
        raise AgentError(message) from getattr(agent, "error", None)
    on_warning(message)
    return run


def spec_notes(task: object, spec: EnvironmentSpec) -> Iterator[str]:
    """Yield what one random episode shows to be wrong with a TOML file of the user's own; nothing of other tasks."""
    if str(task).endswith(".toml"):
        from evopolicygym.checks.environment import check as check_environment  # imported late: few runs need it

        more = f"For more: evopolicygym check environment {shell_word(str(task))}"
        for finding in check_environment(spec, quick=True):
            if not finding.ok and finding.name != "plays":  # what can't be played is an error of the run
                yield f"{task}, {finding.name}: {finding.detail}. {more}"


def _log_workers(workers: int | None, executor: str) -> None:
    LOG.info("workers %s, executor %s", "one for each core" if workers is None else workers, executor)
