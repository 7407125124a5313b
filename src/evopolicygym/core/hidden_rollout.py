"""What one checkpoint has played of validation or of the held-out cases."""

from dataclasses import dataclass

from evopolicygym.core.cases import Split
from evopolicygym.core.episode import Episode


@dataclass(frozen=True, slots=True)
class HiddenRollout:
    """What one checkpoint has played of a hidden split so far."""

    split: Split
    checkpoint: str
    episodes: tuple[Episode | None, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """Indices of cases not yet played."""
        return tuple(index for index, episode in enumerate(self.episodes) if episode is None)

    @property
    def returns(self) -> tuple[float, ...]:
        """Returns of the cases played so far, in the split's order."""
        return tuple(episode.episode_return for episode in self.episodes if episode)
