"""The agent ``tuner``: CMA-ES over the weights of a small linear policy, without knowledge of the environment.

``linear_search.py``, shared with ``random_search``, spends the budget.
"""

from collections.abc import Sequence
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from itertools import cycle, islice
from typing import Any

import numpy as np

from evopolicygym.agents.base import About, refuse_choices
from evopolicygym.agents.kit.linear_search import STEP, LinearSearchAgent, Numbers
from evopolicygym.core.agent import Agent, AgentConfig

ABOUT = About("tunes the weights of a small linear policy by CMA-ES; the default")


class Cma:
    """CMA-ES, given ranks instead of scores."""

    def __init__(self, size: int, population: int, seed: int) -> None:
        self._strategy = _cma()(np.zeros(size), STEP, population_size=population, seed=seed)
        self._population = population

    @property
    def estimate(self) -> Numbers:
        """The distribution's mean."""
        return np.asarray(self._strategy.mean)

    def ask(self, factor: float) -> Numbers:
        """Return a candidate whose step from the mean is scaled by ``factor``."""
        return np.asarray(self._strategy.mean + factor * (self._strategy.ask() - self._strategy.mean))

    def tell(self, candidates: Sequence[Numbers], scores: Sequence[float]) -> None:
        """Update CMA-ES by the best and the worst of a generation; does nothing if all scores are equal."""
        ranked = sorted(range(len(candidates)), key=lambda index: -scores[index])
        if chosen := _informative(ranked, scores, self._population):
            self._strategy.tell([(candidates[index], float(rank)) for rank, index in enumerate(chosen)])


def make(config: AgentConfig) -> Agent:
    """Return the agent."""
    refuse_choices(config)
    return LinearSearchAgent("tuner", Cma)


@cache
def _cma() -> Any:  # noqa: ANN401 - of a package without types
    """Return the class ``CMA`` from its module alone: the package cmaes imports scipy.stats, for most of a second."""
    package = find_spec("cmaes")
    spec = PathFinder.find_spec("cmaes._cma", package.submodule_search_locations) if package else None
    if spec is None or spec.loader is None:
        import cmaes

        return cmaes.CMA
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CMA


def _informative(ranked: Sequence[int], scores: Sequence[float], population: int) -> list[int]:
    """Return the candidates for CMA-ES, best first; none if all scores are equal.

    CMA-ES moves its mean towards the first half. If fewer candidates than that beat the worst score, which is total
    failure where success is rare, they are repeated: equally bad candidates would move the mean at random.
    """
    better = [index for index in ranked if scores[index] > scores[ranked[-1]]]
    parents = list(islice(cycle(better), population // 2))
    return parents + list(ranked[len(parents) - population :]) if parents else []
