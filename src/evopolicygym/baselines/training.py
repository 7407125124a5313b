"""The training of a network.

With a budget in episodes or steps, the same seed, settings and versions on the same machine give the same weights. The
last weights are the result; no checkpoint is selected on other cases.
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
"""A number of steps that is never reached."""


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """The progress of a training."""

    steps: int
    seconds: float
    """Seconds of processor time."""
    returns: Sequence[float]
    """Returns of all ended episodes, in order."""
    done: float
    """Spent share of the budget, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Training:
    """A completed training."""

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
    """Number of started episodes; with a budget in steps or minutes, the last ones didn't end."""
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
    """Train until the budget is spent; ``observe`` is called after every step.

    Raises ``MissingExtra`` without Stable-Baselines3 or torch, and ``UsageError`` for observation or action spaces that
    the algorithm doesn't support.
    """
    environments_of, learner_of = _library()
    settings = settings_of(spec.name, algorithm)
    seeds = TrainSeedSequence(spec.name, budget.episodes)
    count = 1 if budget.unit is Unit.EPISODES else settings["parallel"]
    environments = environments_of([lambda: TrainEnvironment(spec, seeds) for _ in range(count)])
    try:
        _check_actions(spec, algorithm, environments.action_space)
        model, normaliser = learner_of(algorithm, settings, environments, seed)
        clock = _BudgetClock(budget, seeds)

        def on_step(variables: Mapping[str, Any], _globals: Mapping[str, Any]) -> bool:
            progress = clock.progress(variables["self"].num_timesteps)
            observe(progress)
            return progress.done < 1

        model.learn(ENDLESS, callback=on_step)
    finally:
        environments.close()
    last = clock.progress(model.num_timesteps)
    updates = int(model._n_updates)  # noqa: SLF001 - reported nowhere else
    return Training(spec, algorithm, budget, seed, settings, model, normaliser, seeds.played, updates, last)


def _library() -> tuple[Any, Any]:
    """Return the class of vectorised environments and ``learner``; raise ``MissingExtra`` without their packages."""
    try:
        from stable_baselines3.common.vec_env import DummyVecEnv

        from evopolicygym.baselines.networks import learner
    except ModuleNotFoundError as error:
        raise MissingExtra("Training a baseline", EXTRA, str(error.name)) from error
    return DummyVecEnv, learner


class _BudgetClock:
    """Measures how much of a budget is spent."""

    def __init__(self, budget: TrainingBudget, seeds: TrainSeedSequence) -> None:
        self._budget, self._seeds, self._start = budget, seeds, time.process_time()

    def progress(self, steps: int) -> TrainingProgress:
        seconds = time.process_time() - self._start
        spent = {Unit.EPISODES: len(self._seeds.returns), Unit.STEPS: steps, Unit.MINUTES: seconds / 60}
        done = min(1.0, spent[self._budget.unit] / self._budget.amount)
        return TrainingProgress(steps, seconds, self._seeds.returns, done)


def _check_actions(spec: EnvironmentSpec, algorithm: Algorithm, actions: Any) -> None:  # noqa: ANN401 - gymnasium's
    if algorithm is Algorithm.SAC and hasattr(actions, "n"):
        raise UsageError(
            f"SAC needs continuous actions; {spec.name!r} has {actions.n} discrete actions. Use PPO instead."
        )
