"""Cases to jobs: the one place where an index meets its seed. Seeds go from here to the executor and nowhere else."""

from dataclasses import dataclass
from pathlib import Path

from evopolicygym.core import cases
from evopolicygym.core.cases import CaseSet, Split
from evopolicygym.core.rollout import EpisodeJob, Recording


@dataclass(frozen=True, slots=True)
class Dealer:
    """Deals cases of one run. Never leaves the trusted side."""

    cases: CaseSet
    secret: bytes
    """Of the experiment; policies' seeds are derived from it."""
    run_seed: int

    def job(self, split: Split, index: int, position: int, directory: Path | None, recording: Recording) -> EpisodeJob:
        """Return the job that plays one case at a place in a rollout; its files go into ``directory``, if any."""
        return EpisodeJob(
            position=position,
            seed=self.cases.seed(split, index),
            policy_seed=cases.policy_seed(self.secret, self.cases.environment, split, index, self.run_seed),
            directory=directory,
            recording=recording,
        )
