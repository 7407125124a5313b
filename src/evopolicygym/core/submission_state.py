"""One submission of a run and what has come of it so far. How events change it is described in ``run.py``."""

from dataclasses import dataclass

from evopolicygym.core.episode import Episode, failures
from evopolicygym.core.event import SubmissionCharged, SubmissionPublished
from evopolicygym.core.submission import SubmissionStatus


@dataclass(frozen=True, slots=True)
class SubmissionState:
    """One submission and what has come of it so far."""

    charged: SubmissionCharged
    first_global_episode: int
    remaining_budget: int
    """After its charge."""
    episodes: tuple[Episode | None, ...]
    """By local index; None where not yet played."""
    published: SubmissionPublished | None = None

    @property
    def index(self) -> int:
        """Its number in the run, from 0."""
        return self.charged.submit_index

    @property
    def status(self) -> SubmissionStatus:
        """Its status; ``interrupted`` until its feedback is published."""
        return self.published.status if self.published else SubmissionStatus.INTERRUPTED

    @property
    def missing(self) -> tuple[int, ...]:
        """Local indices of episodes not yet played."""
        return tuple(local for local, episode in enumerate(self.episodes) if episode is None)

    @property
    def returns(self) -> tuple[float, ...]:
        """Returns of the episodes played so far, in the submission's order."""
        return tuple(episode.episode_return for episode in self.episodes if episode)

    @property
    def failed(self) -> int:
        """In how many of the episodes played so far the policy failed."""
        return sum(episode is not None and episode.failure is not None for episode in self.episodes)

    @property
    def load_error(self) -> str:
        """In a line, why its policy could not be loaded; empty where it could."""
        error = self.published.error if self.published else None
        return f"{error.status}: {next(iter(error.message.splitlines()), '')}" if error else ""

    @property
    def trouble(self) -> str:
        """In a line, why it didn't load, or in how many of its episodes the policy failed; empty where all is well."""
        trouble = self.load_error or (failures("episodes", self.episodes) if self.failed else "")
        return f"submission {self.index}: {trouble}" if trouble else ""
