"""The executor of a run: the one that its config names, or another when it is played on; results are the same."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from evopolicygym.core.agent import Agent, ProgramAgent
from evopolicygym.core.errors import SandboxError, UsageError
from evopolicygym.core.event import RunOpened
from evopolicygym.core.options import AUTO, LOCAL
from evopolicygym.core.rollout import Executor
from evopolicygym.core.task import Task
from evopolicygym.rollout.arithmetic import ARITHMETIC
from evopolicygym.rollout.executor import EXECUTORS, ExecutorConfig
from evopolicygym.runs.config import RunConfig
from evopolicygym.runs.policy_packages import refuse_other_packages
from evopolicygym.sandbox.levels import BACKENDS, named, program_sandbox
from evopolicygym.tracking.tracker import refuse_unknown_tracker


def refuse_unknown(config: RunConfig) -> None:
    """Raise ``UsageError`` where a level, an executor or a tracker is named that there isn't; none is made here."""
    EXECUTORS.load(config.executor)
    refuse_unknown_tracker(config.track)
    name = named(config.isolation).backend
    if name != AUTO:
        BACKENDS.load(name)


def refuse_program(config: RunConfig, agent: Agent) -> None:
    """Raise ``UsageError`` where an agent starts a program, and the isolation that is asked for keeps none in."""
    if isinstance(agent, ProgramAgent) and agent.starts_program and named(config.isolation).backend != AUTO:
        try:
            program_sandbox(config.isolation)
        except SandboxError as error:
            raise UsageError(f"The agent {config.agent.name!r} is a program. {error}") from error


def config_for_resume(
    opened: RunOpened, workers: int | None, executor: str, address: str, isolation: str | None = None
) -> RunConfig:
    """Return the configuration to resume or replay a run with: all that results depend on is as it was.

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


@contextmanager
def open_executor(config: RunConfig, scratch: Path, log: Path) -> Iterator[Executor]:
    """Make the executor that a run's options name, and close it when the context ends.

    ``scratch`` is a directory that it makes and removes, ``log`` the file that simulators and sandboxes print into.
    """
    task = config.task
    executor: Executor = EXECUTORS.load(config.executor)(
        ExecutorConfig(
            spec=task.environment,
            limits=task.limits,
            isolation=config.isolation,
            scratch=scratch,
            log=log,
            workers=config.workers,
            address=config.executor_address,
            pinned=config.pinned,
            policy_packages=task.policy_packages,
        )
    )
    with closing(executor):
        yield executor


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
