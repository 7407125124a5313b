"""What a person asks for when a run begins."""

from dataclasses import dataclass
from pathlib import Path

from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.errors import UsageError
from evopolicygym.core.task import Task
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
