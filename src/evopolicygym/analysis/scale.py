"""What a return is worth on the scale from uniform random (0) to the best that is published (1)."""

from dataclasses import dataclass

from evopolicygym.analysis.published.score_tables import paper
from evopolicygym.core.score import normalised
from evopolicygym.core.task import EnvironmentSpec


@dataclass(frozen=True, slots=True)
class Scale:
    """The two ends of an environment's scale."""

    random: float
    best: float

    def value(self, score: float) -> float:
        """Return where a return stands on the scale, clipped to [0, 1]."""
        return normalised(score, self.random, self.best)


def scale_of(environment: EnvironmentSpec) -> Scale | None:
    """Return an environment's scale; None where its random anchor or a published score is not known."""
    published = paper().scores_on(environment)
    if environment.random_anchor is None or not published:
        return None
    return Scale(environment.random_anchor.mean, max(published.values()))
