"""Environments as their authors write them: each keeps Gymnasium's contract, in its own way."""

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeAwareObservation


class Guess(gymnasium.Env[Any, Any]):
    """Pays for the action that the observation names; refuses an action that its space doesn't contain."""

    observation_space: spaces.Space[Any] = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(2)

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002 - Gymnasium passes it
    ) -> tuple[Any, dict[str, Any]]:
        """Draw the goal."""
        super().reset(seed=seed)
        self.steps, self.goal = 0, int(self.np_random.integers(2))
        return self.observation(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Pay 1 for the goal."""
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is no action")
        self.steps += 1
        return self.observation(), self.reward(float(self.choice(action) == self.goal)), self.steps >= 12, False, {}

    def observation(self) -> Any:
        """Return the goal."""
        return np.array([self.goal, 0.5], np.float32)

    def choice(self, action: Any) -> int:
        """Return the goal that an action guesses."""
        return int(action)

    def reward(self, gain: float) -> Any:
        """Return the reward as this environment does."""
        return gain


class TextWithCharset(Guess):
    """Takes words of two characters."""

    action_space = spaces.Text(max_length=3, min_length=2, charset="ab")

    def choice(self, action: Any) -> int:
        """Read the first character."""
        return "ab".index(action[0])


class IntegerKeys(Guess):
    """Has dicts whose keys are no texts."""

    observation_space = spaces.Dict({0: spaces.Box(-1.0, 1.0, (2,), np.float32), 1: spaces.Discrete(2)})  # type: ignore[dict-item]
    action_space = spaces.Dict({0: spaces.Discrete(2), 7: spaces.Box(0.0, 1.0, (1,), np.float32)})  # type: ignore[dict-item]

    def observation(self) -> Any:
        """Return the goal twice."""
        return {0: super().observation(), 1: self.goal}

    def choice(self, action: Any) -> int:
        """Read the first part."""
        return int(action[0])


class Scalars(Guess):
    """Returns whatever its spaces contain: arrays without a dimension, numpy's scalars, lists."""

    observation_space = spaces.Dict(
        {
            "flag": spaces.Discrete(2),
            "level": spaces.Box(0.0, 1.0, (), np.float32),
            "count": spaces.Box(0, 5, (), np.int64),
            "bits": spaces.MultiBinary(2),
            "codes": spaces.MultiDiscrete([3, 3]),
            "narrow": spaces.Box(-1.0, 1.0, (1,), np.float32),
        }
    )

    def observation(self) -> Any:
        """Return no value in the form that its space draws."""
        return {
            "flag": np.array(self.goal, np.int32),
            "level": np.float32(0.5),
            "count": np.int64(3),
            "bits": [1, 0],
            "codes": [0, 2],
            "narrow": np.array([0.25], np.float16),
        }


class RewardInArray(Guess):
    """Returns rewards of shape (1,)."""

    def reward(self, gain: float) -> Any:
        """Return the reward in an array."""
        return np.array([gain])


class NumpyActions(Guess):
    """Expects actions as its space draws them."""

    action_space = spaces.Tuple((spaces.Discrete(2), spaces.MultiBinary(2)))

    def choice(self, action: Any) -> int:
        """Read the first part as numpy's integer."""
        return int(action[0].item())


class Everything(Guess):
    """Has most of this at once."""

    observation_space = spaces.Dict({0: Scalars.observation_space, 1: spaces.Text(9)})  # type: ignore[dict-item]
    action_space = spaces.Dict({0: TextWithCharset.action_space, 1: spaces.Discrete(2)})  # type: ignore[dict-item]
    observed: ClassVar[Any] = Scalars.observation

    def observation(self) -> Any:
        """Return the scalars beside a text."""
        return {0: type(self).observed(self), 1: "goal"}

    def choice(self, action: Any) -> int:
        """Read the second part as numpy's integer."""
        return int(action[1].item())

    def reward(self, gain: float) -> Any:
        """Return the reward in an array."""
        return np.array([gain])


NAMES = ("TextWithCharset", "IntegerKeys", "Scalars", "RewardInArray", "NumpyActions", "Everything")
for name in NAMES:
    gymnasium.register(f"{name}-v0", globals()[name], max_episode_steps=10)
gymnasium.register(
    "TimeAware-v0", Guess, max_episode_steps=10, additional_wrappers=(TimeAwareObservation.wrapper_spec(),)
)


class Unseeded(Guess):
    """Draws its observations from a generator that no seed sets, and has one case."""

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Begin the one case."""
        super().reset(**arguments)
        self.goal = 0
        return self.observation(), {}

    def observation(self) -> Any:
        """Return the goal beside noise."""
        return np.array([self.goal, np.random.default_rng().uniform()], np.float32)


class OneCase(Unseeded):
    """Ignores its seed."""

    def observation(self) -> Any:
        """Return the goal."""
        return np.array([self.goal, 0.5], np.float32)


gymnasium.register("Unseeded-v0", Unseeded, max_episode_steps=10)
gymnasium.register("OneCase-v0", OneCase, max_episode_steps=10)


class Pictured(Guess):
    """Draws a picture of an argument's shape; with none it opens a window only."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - as gymnasium declares it

    def __init__(self, shape: tuple[int, ...] = (), render_mode: str | None = None) -> None:
        self.shape, self.render_mode = tuple(shape), render_mode
        if not shape:
            self.metadata = {"render_modes": ["human"]}

    def render(self) -> Any:
        """Draw it in one colour."""
        return np.full(self.shape, 100, np.uint8) if self.shape else None


class HumanOnly(Guess):
    """Refuses to be made for pictures."""

    metadata = {"render_modes": ["human"]}  # noqa: RUF012 - as gymnasium declares it

    def __init__(self, render_mode: str | None = None) -> None:
        if render_mode not in {None, "human"}:
            raise AssertionError
        self.render_mode = render_mode


gymnasium.register("Pictured-v0", Pictured)
gymnasium.register("HumanOnly-v0", HumanOnly)
