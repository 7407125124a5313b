"""Episodes beside those of plain gymnasium: the same observations, rewards, endings and info, bit for bit."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.environment import Environment


def wandering(space: spaces.Space[Any], seed: int, steps: int) -> Iterator[Any]:
    """Yield actions that stay the same for a while, so that an episode gets somewhere; those of a car brake little."""
    random, action = np.random.default_rng(seed), space.sample()
    for step in range(steps):
        if step == 0 or random.random() < 0.1:
            if isinstance(space, spaces.Box):
                action = random.uniform(0.4 * space.low, 0.4 * space.high).astype(space.dtype)
                action[2:] *= random.random() < 0.2
            else:
                action = int(random.integers(space.n))  # type: ignore[attr-defined]
        yield action


def sampled(space: spaces.Space[Any], seed: int, steps: int) -> Iterator[Any]:
    """Yield actions drawn from all of the space, each by itself."""
    space.seed(seed)
    for _ in range(steps):
        yield space.sample()


def assert_plays_as_plain(
    spec: EnvironmentSpec,
    seed: int,
    steps: int,
    actions: Callable[[spaces.Space[Any], int, int], Iterator[Any]] = wandering,
) -> None:
    """Play one episode in an environment of ours and in ``gymnasium.make``'s, side by side."""
    ours = Environment(spec)
    arguments = copy.deepcopy(spec.arguments)
    plain = gymnasium.make(spec.id, max_episode_steps=spec.max_steps, disable_env_checker=True, **arguments)
    first, _ = plain.reset(seed=seed)
    assert _bits(ours.reset(seed)) == _bits(first)
    for action in actions(plain.action_space, seed, steps):
        drawn = np.int64(action) if isinstance(action, int) else action  # as the simulator's space draws it
        observation, reward, terminated, truncated, info = plain.step(drawn)
        after = ours.step(action)
        assert _bits(after[0]) == _bits(observation)
        assert after[1:4] == (float(reward), bool(terminated), bool(truncated))  # type: ignore[arg-type]
        assert repr(after[4]) == repr(info)
        if terminated or truncated:
            break
    ours.close()
    plain.close()


def _bits(observation: Any) -> list[tuple[str, Any]]:
    """Return what makes an observation: its parts, arrays by dtype, shape and bytes."""
    parts = observation.items() if isinstance(observation, dict) else [("", observation)]
    return [
        (name, (part.dtype, part.shape, part.tobytes()) if isinstance(part, np.ndarray) else part)
        for name, part in parts
    ]
