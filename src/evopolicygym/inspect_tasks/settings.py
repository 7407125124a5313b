"""What a task of Inspect's asks of the runs that its samples are: the sandbox's configuration, as Inspect logs it."""

from pydantic import BaseModel, ConfigDict

from evopolicygym.core.options import AUTO, DEFAULT_EXPERIMENT
from evopolicygym.core.places import DEFAULT_RUNS

ENVIRONMENT, SPEC = "environment", "spec"
"""What a sample's metadata names the environment by: its name, and where its spec is found."""


class RunSettings(BaseModel):
    """The options of the runs, which are those of ``evopolicygym run``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    budget: int = 128
    """Train episodes of each run."""
    validation: int = 16
    held_out: int = 32
    split: str = "private"
    experiment: str = DEFAULT_EXPERIMENT
    seed: int = 0
    """Of the first epoch's runs; each further epoch has the next."""
    runs: str = str(DEFAULT_RUNS)
    isolation: str = AUTO
    workers: int = 2
    """How many episodes of a run play at once."""
