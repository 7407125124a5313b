"""The run of an Inspect sample: started, or found and resumed when Inspect retries the sample.

A run's record names the sample by Inspect's task identity, which eval-retry and eval-set keep, the sample's id and the
epoch. Episodes charged in an earlier try stay charged.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from evopolicygym.api.play.serve import HostedRun, host, resume_hosted
from evopolicygym.api.read.run import Run
from evopolicygym.core.agent import INSPECT
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.errors import UsageError
from evopolicygym.core.options import AUTO, DEFAULT_EXPERIMENT
from evopolicygym.records.paths import RunPaths, run_directory
from evopolicygym.records.reader import read_run
from evopolicygym.specs import catalog

ENVIRONMENT, SPEC = "environment", "spec"
"""Keys of a sample's metadata: the environment's name, and the location of its spec."""


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
    """Seed of the first epoch's runs; it grows by 1 with each epoch."""
    runs: str = str(DEFAULT_RUNS)
    isolation: str = AUTO
    workers: int = 2
    """Number of episodes that play concurrently."""


SAMPLE, SOLVER = "sample", "solver"
"""Options of the agent in a run's record."""
HOSTED_RUNS: dict[str, HostedRun] = {}
"""Runs of this process by sample; a retry waits for a run that is being scored."""


@dataclass(frozen=True, slots=True)
class SampleIdentity:
    """The identity of a sample, its solver and model."""

    task: str
    """Inspect's identity of the task, the same for every try."""
    sample: str
    epoch: int
    """From 1."""
    solver: str
    model: str
    version: str
    """Version of Inspect."""

    @property
    def name(self) -> str:
        """The name in a run's record."""
        return f"{self.task} {self.sample} {self.epoch}"

    @property
    def label(self) -> str:
        """The agent's label in tables."""
        return f"{self.solver} (inspect)"

    @property
    def findings(self) -> Mapping[str, str]:
        """Findings in the record on the agent's driver."""
        return {
            "driven by": f"Inspect AI {self.version}, solver {self.solver}, outside of the sandbox with its user's "
            f"rights; commands that it executes are sandboxed",
            "model": f"{self.model}, called by Inspect from outside of the sandbox; tokens as counted by Inspect",
        }


@dataclass(slots=True)
class SampleRun:
    """A sample's run."""

    hosted: HostedRun | None
    """None if it was scored in an earlier try."""
    scored: Run | None = None
    resumed: bool = False
    """Whether an earlier try started it."""

    @property
    def closed(self) -> bool:
        """Whether no more submissions are accepted."""
        return self.hosted is None or self.hosted.closed

    def finish(self) -> Run:
        """End the agent's turn and return the scored run; raise the error that stopped it."""
        if self.scored is None and self.hosted is not None:
            self.scored = self.hosted.finish()
        if self.scored is None:
            raise UsageError("The sample has no run.")
        return self.scored

    def leave(self) -> None:
        """Stop the run unless it is scored; another try of the sample resumes it."""
        if self.scored is None and self.hosted is not None:
            self.hosted.pause("Inspect left the sample before it was scored")


def sample_run(
    settings: RunSettings, spec: str, identity: SampleIdentity, used: Callable[[], Mapping[str, float]]
) -> SampleRun:
    """Return a sample's run: that of an earlier try, with its remaining budget, or a new one.

    Raises what ``evopolicygym.run`` raises, and ``UsageError`` if an earlier try had other options.
    """
    if earlier := HOSTED_RUNS.get(identity.name):
        earlier.settle()
    root = _find_earlier_run(settings, spec, identity)
    if root is not None:
        run = resume_hosted(root, identity.findings, used, settings.workers)
        if isinstance(run, Run):
            return SampleRun(None, run, resumed=True)
    else:
        run = host(
            spec,
            INSPECT,
            identity.findings,
            used,
            budget=settings.budget,
            validation=settings.validation,
            held_out=settings.held_out,
            split=settings.split,
            experiment=settings.experiment,
            seed=settings.seed + identity.epoch - 1,
            runs=settings.runs,
            isolation=settings.isolation,
            workers=settings.workers,
            model=identity.model,
            label=identity.label,
            options={SAMPLE: identity.name, SOLVER: identity.solver},
        )
    HOSTED_RUNS[identity.name] = run
    return SampleRun(run, resumed=root is not None)


def _find_earlier_run(settings: RunSettings, spec: str, identity: SampleIdentity) -> Path | None:
    """Return the run directory of a sample's earlier try; None if there is none."""
    environment = catalog.load(spec).name
    runs = run_directory(Path(settings.runs).resolve(), settings.experiment, INSPECT, environment, "any").parent
    for root in sorted(runs.iterdir(), reverse=True) if runs.is_dir() else ():
        if not _may_name(RunPaths(root).journal, identity.name):
            continue
        opened = read_run(root).state.opened
        if opened.agent.options.get(SAMPLE) != identity.name:
            continue
        if opened.task.budget.episodes != settings.budget or opened.agent.model != identity.model:
            raise UsageError(
                f"An earlier try of this sample started the run {root} with {opened.task.budget.episodes} episodes and "
                f"the model {opened.agent.model!r}; now it is {settings.budget} and {identity.model!r}. Start a new "
                f"evaluation for new runs."
            )
        return root
    return None


def _may_name(journal: Path, name: str) -> bool:
    """Return whether the first line of an event log contains a name, so that the run must be read."""
    try:
        with journal.open("rb") as file:
            return name.encode() in file.readline()
    except OSError:
        return False
