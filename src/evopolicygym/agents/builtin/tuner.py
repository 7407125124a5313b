"""The agent that tunes numbers: CMA-ES over the weights of a small linear policy. It knows no environment.

It shares ``linear_search.py``, which spends the budget, with ``random_search``.
"""

from collections.abc import Sequence
from itertools import cycle, islice

import numpy as np

from evopolicygym.agents.base import About, refuse_choices
from evopolicygym.agents.kit.linear_search import STEP, LinearSearchAgent, Numbers
from evopolicygym.core.agent import Agent, AgentConfig

ABOUT = About("tunes the weights of a small linear policy by CMA-ES; the default")


class Cma:
    """CMA-ES, given ranks instead of scores."""

    def __init__(self, size: int, population: int, seed: int) -> None:
        import cmaes  # loads late: it takes longer than all the rest

        self._strategy = cmaes.CMA(np.zeros(size), STEP, population_size=population, seed=seed)
        self._population = population

    @property
    def believed(self) -> Numbers:
        """The distribution's mean."""
        return np.asarray(self._strategy.mean)

    def ask(self, factor: float) -> Numbers:
        """Return a candidate, its step from the mean stretched."""
        return np.asarray(self._strategy.mean + factor * (self._strategy.ask() - self._strategy.mean))

    def tell(self, asked: Sequence[Numbers], scores: Sequence[float]) -> None:
        """Tell the best and the worst of a generation; nothing where all are equal."""
        ranked = sorted(range(len(asked)), key=lambda place: -scores[place])
        if telling := _worth_telling(ranked, scores, self._population):
            self._strategy.tell([(asked[place], float(rank)) for rank, place in enumerate(telling)])


def make(config: AgentConfig) -> Agent:
    """Return the agent."""
    refuse_choices(config)
    return LinearSearchAgent("tuner", Cma)


def _worth_telling(ranked: Sequence[int], scores: Sequence[float], population: int) -> list[int]:
    """Return the candidates that CMA-ES is given, best first; none where all are equal.

    Its parents are the first half. Where fewer are better than the worst score, which is that of total failure where
    success is rare, these are repeated: candidates that failed alike would pull the mean at random.
    """
    better = [place for place in ranked if scores[place] > scores[ranked[-1]]]
    parents = list(islice(cycle(better), population // 2))
    return parents + list(ranked[len(parents) - population :]) if parents else []
