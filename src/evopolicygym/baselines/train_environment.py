"""An environment for Stable-Baselines3: train cases in order, numeric observations, actions between -1 and 1.

``project/policy.py`` defines how a network sees an observation, here and when it plays.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from evopolicygym.baselines.project.policy import see
from evopolicygym.core.cases import PUBLIC_KEY, Split, derive
from evopolicygym.core.errors import UsageError
from evopolicygym.core.spaces import Box, Dict, Discrete, Space, to_schema
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.environment import Environment


class TrainSeedSequence:
    """Hands out train cases, so many at most, and keeps what each episode returned, in the order of their ends."""

    def __init__(self, environment: str, episodes: int | None = None) -> None:
        """TrainSeedSequence ``episodes`` cases at most; any number where that is None."""
        self._seeds = derive(PUBLIC_KEY, environment).seeds[Split.TRAIN]
        self._most = episodes
        self.played = 0
        """Episodes begun."""
        self.returns: list[float] = []
        """Returns of ended episodes."""

    @property
    def first(self) -> int:
        """The seed of the first train case, to look at spaces with."""
        return self._seeds[0]

    @property
    def is_exhausted(self) -> bool:
        """Whether no case is left to deal."""
        return self._most is not None and self.played >= self._most

    def next(self) -> int:
        """Return the seed of the next case; raise ``LookupError`` where none is left."""
        if self.is_exhausted:
            raise LookupError(f"all {self.played} episodes of the budget have been played")
        seed = self._seeds[self.played % len(self._seeds)]
        self.played += 1
        return seed


PICTURE, VECTOR = "picture", "vector"
"""The names of an observation's parts where there is a picture; else it is the vector alone."""
CAR_RACING, MINIGRID = (96, 96, 3), (7, 7, 3)
"""Shapes of the pictures that can be seen."""
TABLE = 2
"""Arrays of so many dimensions at most are seen as they are."""


class TrainEnvironment(gymnasium.Env[Any, Any]):
    """Plays what a deal hands out, each case in a fresh environment, as a judge does.

    Raises ``UsageError`` where observations or actions are of a space that no network here is built for.
    """

    def __init__(self, spec: EnvironmentSpec, deal: TrainSeedSequence) -> None:
        self._spec, self._deal = spec, deal
        self._environment = Environment(spec)
        first = self._environment.reset(deal.first)
        observed, acted = self._environment.observation_space, self._environment.action_space
        if not _can_be_seen(observed) or not isinstance(acted, Discrete | Box):
            raise UsageError(
                f"Baselines can't be trained in the environment {spec.name!r}: they see vectors, tables, goals, "
                f"MiniGrid's views and CarRacing's picture, and play actions that are a Discrete or a Box."
            )
        self._schema = to_schema(observed)
        self._shown: Any = self._show(first)
        self.observation_space = _space_of(self._shown)
        self._start, self._low, self._width = 0, np.zeros(0), np.zeros(0)
        if isinstance(acted, Discrete):
            self._start = acted.start
            self.action_space = spaces.Discrete(acted.n)
        else:
            low, high = acted.limits()
            self._low, self._width, self._dtype = low, high - low, acted.dtype
            self.action_space = spaces.Box(-1.0, 1.0, acted.shape, np.float32)
        self._return = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002 - the deal decides
        """Begin the next case; where none is left, show what was seen last, and begin nothing."""
        if not self._deal.is_exhausted:
            self._environment.close()
            self._environment = Environment(self._spec)
            self._shown, self._return = self._show(self._environment.reset(self._deal.next())), 0.0
        return self._shown, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ANN401 - of either space
        """Play an action between -1 and 1, or a choice counted from 0."""
        observation, reward, terminated, truncated, _ = self._environment.step(self._played(action))
        self._shown = self._show(observation)
        self._return += reward
        if terminated or truncated:
            self._deal.returns.append(self._return)
        return self._shown, reward, terminated, truncated and not terminated, {}

    def close(self) -> None:
        """Free what the simulator holds."""
        self._environment.close()

    def _played(self, action: Any) -> Any:  # noqa: ANN401 - as above
        if isinstance(self.action_space, spaces.Discrete):
            return int(action) + self._start
        unit = (np.clip(np.asarray(action, dtype=np.float64), -1, 1) + 1) / 2
        return (self._low + unit * self._width).astype(self._dtype)

    def _show(self, observation: Any) -> Any:  # noqa: ANN401 - of any space
        picture, vector = see(self._schema, observation)
        return {PICTURE: picture, VECTOR: vector} if picture.size else vector


def _can_be_seen(space: Space) -> bool:
    match space:
        case Box():
            return len(space.shape) <= TABLE or space.shape == CAR_RACING
        case Dict():
            parts = dict(space.spaces)
            view = parts.get("image")
            is_view = isinstance(view, Box) and view.shape == MINIGRID and "direction" in parts
            return is_view or {"observation", "achieved_goal", "desired_goal"} <= parts.keys()
        case _:
            return False


def _space_of(shown: Any) -> spaces.Space[Any]:  # noqa: ANN401 - an array, or arrays by name
    if isinstance(shown, dict):
        return spaces.Dict({name: _space_of(part) for name, part in shown.items()})
    return spaces.Box(-np.inf, np.inf, shown.shape, np.float32)
