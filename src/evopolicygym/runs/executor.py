"""The executor of a run: the one that its config names, or another when it is played on; results are the same."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path

from evopolicygym.core.agent import Agent, ProgramAgent
from evopolicygym.core.errors import SandboxError, UsageError
from evopolicygym.core.event import RunOpened
from evopolicygym.core.options import AUTO, LOCAL
from evopolicygym.core.rollout import Executor
from evopolicygym.core.task import Task
from evopolicygym.rollout.arithmetic import ARITHMETIC
from evopolicygym.rollout.executor import EXECUTORS, ExecutorConfig, make
from evopolicygym.runs.config import RunConfig
from evopolicygym.runs.policy_packages import refuse_other_packages
from evopolicygym.sandbox.levels import BACKENDS, named, program_sandbox
from evopolicygym.tracking.tracker import refuse_unknown_tracker


def refuse_unknown(config: RunConfig) -> None:
    """Raise ``UsageError`` where a level, an executor or a tracker is named that there isn't; none is made here."""
    EXECUTORS.load(config.executor)
    refuse_unknown_tracker(config.track)
    name, _ = named(config.isolation)
    if name != AUTO:
        BACKENDS.load(name)


def refuse_program(config: RunConfig, agent: Agent) -> None:
    """Raise ``UsageError`` where an agent starts a program, and the isolation that is asked for keeps none in."""
    if isinstance(agent, ProgramAgent) and agent.starts_program and named(config.isolation)[0] != AUTO:
        try:
            program_sandbox(config.isolation)
        except SandboxError as error:
            raise UsageError(f"The agent {config.agent.name!r} is a program. {error}") from error


def taken_up(
    opened: RunOpened, workers: int | None, executor: str, address: str, isolation: str | None = None
) -> RunConfig:
    """Return what is asked for when a run that was opened before is played on: all that results depend on stays.

    The level is the recorded one where none is named: whoever plays what somebody else recorded names one. Raises
    ``RecordError`` where what its policies may import isn't here as it was.
    """
    refuse_other_packages(opened)
    return RunConfig(
        opened.task,
        opened.agent,
        workers=workers,
        isolation=isolation or opened.isolation,
        executor=executor,
        executor_address=address,
        pinned=is_pinned(opened),
    )


def is_pinned(opened: RunOpened) -> bool:
    """Return whether a run is played with pinned arithmetic: those from before it was pinned go on as they were."""
    return ARITHMETIC in opened.findings


def opened_executor(config: RunConfig, scratch: Path, log: Path) -> AbstractContextManager[Executor]:
    """Return the executor that a config names, open; it is closed when its context ends."""
    task, by = config.task, (config.workers, config.executor_address, config.pinned)
    settings = ExecutorConfig(task.environment, task.limits, config.isolation, scratch, log, *by, task.policy_packages)
    return closing(make(config.executor, settings))


def capped(
    workers: int | None, executor: str, on_note: Callable[[str], object], task: Task | None = None
) -> int | None:
    """Return how many workers are started here, with a note where fewer would do as much as were asked for.

    What a cluster has is for its executor to know.
    """
    if workers is None or executor != LOCAL:
        return workers
    cores = len(os.sched_getaffinity(0))
    episodes = max(task.budget.episodes, task.validation_cases, task.held_out_cases) if task else cores
    most = min(cores, episodes)
    if workers > most:
        why = f"{cores} cores" if most == cores else f"{episodes} episodes at once"
        on_note(f"--workers {workers}: only {most} are started, for {why}.")
    return min(workers, most)
