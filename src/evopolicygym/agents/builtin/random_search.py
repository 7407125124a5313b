"""The agent that draws numbers: random search over the weights of the linear policy that ``tuner`` tunes.

The field's plainest baseline of a search that learns: it keeps the best it has seen and never looks near it. It has
the tuner's policy and spends its budget in the tuner's portions (``linear_search.py``), so that the two differ in how
candidates are drawn and in nothing else. It is not the agent ``random``, which plays at random and never learns.
"""

import math
from collections.abc import Sequence

import numpy as np

from evopolicygym.agents.base import About, refuse_choices
from evopolicygym.agents.kit.linear_search import STEP, LinearSearchAgent, Numbers
from evopolicygym.core.agent import Agent, AgentConfig

ABOUT = About("random search over the weights of the linear policy that tuner tunes")


class Draws:
    """Weights from one normal distribution, that of the tuner's first generation; the best so far is believed in."""

    def __init__(self, size: int, population: int, seed: int) -> None:  # noqa: ARG002 - every draw is like any other
        self._generator = np.random.default_rng(seed)
        self.believed: Numbers = np.zeros(size)
        self._best = -math.inf

    def ask(self, factor: float) -> Numbers:
        """Return a draw, stretched."""
        return factor * STEP * self._generator.standard_normal(len(self.believed))

    def tell(self, asked: Sequence[Numbers], scores: Sequence[float]) -> None:
        """Keep the best; of equals the earliest, whose case came first."""
        for candidate, score in zip(asked, scores, strict=True):
            if score > self._best:
                self.believed, self._best = candidate, score


def make(config: AgentConfig) -> Agent:
    """Return the agent."""
    refuse_choices(config)
    return LinearSearchAgent("random_search", Draws)
