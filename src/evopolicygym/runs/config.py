"""What a person asks for when a run begins."""

from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.errors import UsageError
from evopolicygym.core.event import RunOpened
from evopolicygym.core.rollout import Executor
from evopolicygym.core.task import Task
from evopolicygym.rollout.executors.base import LOCAL, ExecutorConfig, make
from evopolicygym.sandbox.levels import AUTO

DEFAULT_RUNS = Path("runs")
DEFAULT_EXPERIMENT = "default"


@dataclass(frozen=True, slots=True)
class RunConfig:
    """One run to be played."""

    task: Task
    agent: AgentConfig
    split: SplitSource = SplitSource.PRIVATE
    split_directory: Path | None = None
    """Where the cases are read from, for a split of source ``directory``."""
    experiment: str = DEFAULT_EXPERIMENT
    """Runs of one experiment play the same cases."""
    seed: int = 0
    workers: int | None = None
    """How many episodes play at once; None for one each core."""
    runs: Path = DEFAULT_RUNS
    isolation: str = AUTO
    executor: str = LOCAL
    """Where episodes play; like ``workers`` no part of the record, as results don't depend on it."""
    executor_address: str = ""


def taken_up(opened: RunOpened, workers: int | None, executor: str, address: str) -> RunConfig:
    """Return what is asked for when a run that was opened before is played on: all that results depend on stays."""
    return RunConfig(
        opened.task,
        opened.agent,
        workers=workers,
        isolation=opened.isolation,
        executor=executor,
        executor_address=address,
    )


def opened_executor(config: RunConfig, scratch: Path, log: Path) -> AbstractContextManager[Executor]:
    """Return the executor that a config names, open; it is closed when its context ends."""
    task = config.task
    told = ExecutorConfig(
        task.environment, task.limits, config.isolation, scratch, log, config.workers, config.executor_address
    )
    return closing(make(config.executor, told))


def split_named(name: str) -> tuple[SplitSource, Path | None]:
    """Return what a person means by a split: ``private``, ``public``, or an existing directory."""
    if name in (SplitSource.PRIVATE, SplitSource.PUBLIC):
        return SplitSource(name), None
    directory = Path(name)
    if not directory.is_dir():
        raise UsageError(
            f"There is no split {name!r}: private, public, or a directory that holds train.json, valid.json and "
            f"heldout.json is asked for."
        )
    return SplitSource.DIRECTORY, directory
