"""Made runs as real run directories: an event log, ``run.json`` and checkpoints, of returns that nobody played.

Every check of a record accepts them; feedback and the files of hidden episodes are left out, as a record may leave
them out. Benchmarks and tests of verbs write them where the truth about an agent has to be known.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.cases import Split
from evopolicygym.core.event import (
    CheckpointSelected,
    CloseReason,
    EpisodePlayed,
    Event,
    RunClosed,
    RunFinished,
    RunStatus,
    SubmissionCharged,
    SubmissionPublished,
)
from evopolicygym.core.rollout import Episode
from evopolicygym.core.score import estimate
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.core.task import BudgetRule, EnvironmentSpec, Task
from evopolicygym.records.checkpoints import checkpoint_name
from evopolicygym.records.writer import RunWriter
from fakes import TIME, opening

ANY_HASH = "ab" * 32
TRAIN_CASES = 16


@dataclass(frozen=True, slots=True)
class MadeRun:
    """A finished run whose returns are made."""

    task: EnvironmentSpec
    agent: str
    seed: int
    held_out: tuple[float, ...]
    """The returns of the selected checkpoint."""
    validation: tuple[tuple[float, ...], ...]
    """The returns of each submission's checkpoint."""
    budget: int = 2
    """The episodes of all submissions, as many of each."""

    @property
    def run_id(self) -> str:
        """A name that no other run of the same agents and tasks has."""
        return f"{self.agent}-{self.task.name}-{self.budget}-{self.seed}"

    @property
    def selected(self) -> int:
        """The submission that validation names: the best, and of equals the latest."""
        return max(range(len(self.validation)), key=lambda at: (estimate(self.validation[at]).mean, at))


def write_made(root: Path, run: MadeRun) -> Path:
    """Write a made run's directory; return it."""
    first, *others = made_events(run)
    for at in range(len(run.validation)):
        checkpoint = root / "checkpoints" / _checkpoint(at)
        checkpoint.mkdir(parents=True)
        (checkpoint / "policy.py").write_text(_policy(at), encoding="utf-8")
    with RunWriter(root, first) as writer:
        for event in others:
            writer.record(event, flush=False)
        writer.write_document()
    return root


def write_many_made(
    below: Path, agents: Sequence[str], repeats: int, tasks: Sequence[EnvironmentSpec], cases: int = 32
) -> int:
    """Write runs of agents of falling strength on many tasks; return how many."""
    random, validation = np.random.default_rng(0), ((1.0, 2.0), (3.0, 4.0))
    for spec in tasks:
        of_cases = random.normal(size=cases)
        low = spec.random_anchor.mean if spec.random_anchor else 0.0
        for place, agent in enumerate(agents):
            for seed in range(repeats):
                level = low + 10 * (len(agents) - place) + random.normal()
                returns = tuple((level + of_cases + random.normal(size=cases)).tolist())
                write_made(below / f"{spec.name}-{place}-{seed}", MadeRun(spec, agent, seed, returns, validation))
    return len(tasks) * len(agents) * repeats


def made_events(run: MadeRun) -> Iterator[Event]:
    """Yield the events of a made run."""
    sizes = {"validation_cases": len(run.validation[0]), "held_out_cases": len(run.held_out)}
    yield opening(
        run_id=run.run_id,
        task=Task(run.task, BudgetRule(run.budget), train_cases=TRAIN_CASES, **sizes),
        agent=AgentConfig(run.agent),
        seed=run.seed,
        commitment=f"commitment to {run.task.name}",
    )
    count = run.budget // len(run.validation)
    for at, returns in enumerate(run.validation):
        yield SubmissionCharged(TIME, at, _checkpoint(at), tuple(range(count)))
        yield from _episodes(run, Split.TRAIN, at, [estimate(returns).mean] * count)
        yield SubmissionPublished(TIME, at, SubmissionStatus.OK, ANY_HASH, 0.0)
    yield RunClosed(TIME, CloseReason.BUDGET_SPENT)
    for at, returns in enumerate(run.validation):
        yield from _episodes(run, Split.VALIDATION, at, returns)
    chosen, score = run.selected, estimate(run.held_out)
    yield CheckpointSelected(TIME, chosen, _checkpoint(chosen), estimate(run.validation[chosen]).mean)
    yield from _episodes(run, Split.HELD_OUT, chosen, run.held_out)
    yield RunFinished(TIME, RunStatus.SCORED, score.mean, score.standard_error, evaluation_sha256=ANY_HASH)


def _episodes(run: MadeRun, split: Split, submission: int, returns: Sequence[float]) -> Iterator[Event]:
    for position, value in enumerate(returns):
        success = value > 0 if run.task.success else None
        episode = Episode(value, 1, terminated=True, truncated=False, trajectory_sha256=ANY_HASH, success=success)
        yield EpisodePlayed(
            split, _checkpoint(submission), position, episode, submission if split is Split.TRAIN else None
        )


def _policy(submission: int) -> str:
    return f"SUBMISSION = {submission}\n"


def _checkpoint(submission: int) -> str:
    content = _policy(submission).encode()
    return checkpoint_name({"policy.py": (len(content), sha256(content).hexdigest())})
