"""The agent ``random_search``: random search over the weights of the linear policy that ``tuner`` tunes.

It keeps the best candidate so far and never searches near it. Policy and submissions are those of ``tuner``
(``linear_search.py``), so the two agents differ only in how candidates are drawn. The agent ``random`` is another one:
it plays at random and learns nothing.
"""

import math
from collections.abc import Sequence

import numpy as np

from evopolicygym.agents.base import About, refuse_choices
from evopolicygym.agents.kit.linear_search import STEP, LinearSearchAgent, Numbers
from evopolicygym.core.agent import Agent, AgentConfig

ABOUT = About("random search over the weights of the linear policy that tuner tunes")


class Draws:
    """Draws weights from the normal distribution of the tuner's first generation; its estimate is the best so far."""

    def __init__(self, size: int, population: int, seed: int) -> None:  # noqa: ARG002 - draws are independent
        self._generator = np.random.default_rng(seed)
        self.estimate: Numbers = np.zeros(size)
        self._best = -math.inf

    def ask(self, factor: float) -> Numbers:
        """Return a draw, scaled by ``factor``."""
        return factor * STEP * self._generator.standard_normal(len(self.estimate))

    def tell(self, candidates: Sequence[Numbers], scores: Sequence[float]) -> None:
        """Keep the best candidate; the earliest of equals."""
        for candidate, score in zip(candidates, scores, strict=True):
            if score > self._best:
                self.estimate, self._best = candidate, score


def make(config: AgentConfig) -> Agent:
    """Return the agent."""
    refuse_choices(config)
    return LinearSearchAgent("random_search", Draws)
