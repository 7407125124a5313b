"""Training: from settings and a budget to a network that has learned.

The same seed, settings and versions on the same machine give the same weights, where the budget is in episodes or
steps. The last weights count; nothing is picked by playing other cases.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evopolicygym.baselines.settings import Algorithm, TrainingBudget, Unit, settings_of
from evopolicygym.baselines.train_environment import TrainEnvironment, TrainSeedSequence
from evopolicygym.core.errors import MissingExtra, UsageError
from evopolicygym.core.task import EnvironmentSpec

EXTRA = "baselines"
ENDLESS = 10**12
"""Steps, where something else ends training."""


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """The progress of a training."""

    steps: int
    seconds: float
    """Seconds of processor time."""
    returns: Sequence[float]
    """Returns of all ended episodes, in order; it grows."""
    done: float
    """The share of the budget that is spent, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Training:
    """A training that is over."""

    spec: EnvironmentSpec
    algorithm: Algorithm
    budget: TrainingBudget
    seed: int
    settings: Mapping[str, Any]
    model: Any
    """Stable-Baselines3's."""
    normaliser: Any
    """Its VecNormalize."""
    episodes: int
    """Begun; the last ones of a budget in steps or minutes didn't end."""
    updates: int
    """Updates of the network: gradient steps (SAC), or passes over the collected data (PPO)."""
    progress: TrainingProgress


def train(
    spec: EnvironmentSpec,
    algorithm: Algorithm,
    budget: TrainingBudget,
    seed: int,
    observe: Callable[[TrainingProgress], None] = lambda _progress: None,
) -> Training:
    """Train until the budget is spent; ``observe`` is passed after every step.

    Raises ``MissingExtra`` where Stable-Baselines3 or torch is not installed, ``UsageError`` where the algorithm can't
    play the environment's actions or no network can see its observations.
    """
    environments_of, learner_of = _library()
    settings = settings_of(spec.name, algorithm)
    deal = TrainSeedSequence(spec.name, budget.episodes)
    many = 1 if budget.unit is Unit.EPISODES else settings["parallel"]
    environments = environments_of([lambda: TrainEnvironment(spec, deal) for _ in range(many)])
    try:
        _refuse_misfit(spec, algorithm, environments.action_space)
        model, normaliser = learner_of(algorithm, settings, environments, seed)
        clock = _Clock(budget, deal)

        def follow(found: Mapping[str, Any], _globals: Mapping[str, Any]) -> bool:
            progress = clock.progress(found["self"].num_timesteps)
            observe(progress)
            return progress.done < 1

        model.learn(ENDLESS, callback=follow)
    finally:
        environments.close()
    last = clock.progress(model.num_timesteps)
    updates = int(model._n_updates)  # noqa: SLF001 - reported nowhere else
    return Training(spec, algorithm, budget, seed, settings, model, normaliser, deal.played, updates, last)


def _library() -> tuple[Any, Any]:
    """Return what steps environments and what makes a learner; raise ``MissingExtra`` where these aren't installed."""
    try:
        from stable_baselines3.common.vec_env import DummyVecEnv

        from evopolicygym.baselines.networks import learner
    except ModuleNotFoundError as error:
        raise MissingExtra("Training a baseline", EXTRA, str(error.name)) from error
    return DummyVecEnv, learner


class _Clock:
    """Tells how much of a budget is spent."""

    def __init__(self, budget: TrainingBudget, deal: TrainSeedSequence) -> None:
        self._budget, self._deal, self._start = budget, deal, time.process_time()

    def progress(self, steps: int) -> TrainingProgress:
        seconds = time.process_time() - self._start
        spent = {Unit.EPISODES: len(self._deal.returns), Unit.STEPS: steps, Unit.MINUTES: seconds / 60}
        done = min(1.0, spent[self._budget.unit] / self._budget.amount)
        return TrainingProgress(steps, seconds, self._deal.returns, done)


def _refuse_misfit(spec: EnvironmentSpec, algorithm: Algorithm, actions: Any) -> None:  # noqa: ANN401 - gymnasium's
    if algorithm is Algorithm.SAC and hasattr(actions, "n"):
        raise UsageError(f"SAC needs continuous actions, and {spec.name!r} has {actions.n} choices. PPO plays them.")
