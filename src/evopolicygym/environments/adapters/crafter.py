"""Crafter, made for the gym before Gymnasium, whose episodes follow memory addresses: here a seed decides all of one.

Crafter keeps the creatures of each part of its world in a set, whose order decides which one vanishes; here it is the
order in which they came. A picture draws from the world's generator, so a film's pictures leave it as it was.
"""

from collections import defaultdict
from typing import Any

import crafter
import gymnasium
import numpy as np
from crafter import constants, engine
from gymnasium import spaces
from gymnasium.envs.registration import register

STEPS = 10_000
"""Crafter's own step limit."""
SEEDS = 2**31
ROWS, COLUMNS = 7, 9
"""The cells that are seen, the player's in the middle."""
KINDS = 19
"""Nothing beyond the edge, materials, then the player, cows, zombies, skeletons, arrows and plants."""
MOST = 9
"""Of an item."""
FILM = (256, 256)


class _InOrder(dict[Any, None]):
    """A set that keeps the order in which its members came."""

    def add(self, member: Any) -> None:  # noqa: ANN401 - a creature
        self[member] = None

    def remove(self, member: Any) -> None:  # noqa: ANN401 - as above
        del self[member]


class _World(engine.World):  # type: ignore[misc] # a library without types
    def reset(self, seed: int | None = None) -> None:
        super().reset(seed)
        self._chunks: Any = defaultdict(_InOrder)


engine.World = _World


class Survival(gymnasium.Env[Any, int]):
    """A world of blocks in which the player stays alive and earns achievements, seen as a picture or as numbers."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012 - as gymnasium declares it

    def __init__(self, *, symbolic: bool = False, render_mode: str | None = None) -> None:
        self.render_mode, self._symbolic = render_mode, symbolic
        self._game: Any = crafter.Env(length=None, seed=0)
        self.action_space = spaces.Discrete(len(constants.actions))
        self.observation_space = spaces.Box(0, 255, (64, 64, 3), np.uint8)
        if symbolic:
            self.observation_space = spaces.Dict({
                "map": spaces.Box(0, KINDS - 1, (ROWS, COLUMNS), np.uint8),
                "items": spaces.Box(0, MOST, (len(constants.items),), np.uint8),
                "facing": spaces.Box(-1, 1, (2,), np.int8),
                "daylight": spaces.Box(0.0, 1.0, (1,), np.float32),
                "sleeping": spaces.Discrete(2),
            })  # fmt: skip

    def get_action_meanings(self) -> list[str]:
        """Return the names of the actions."""
        return [name.replace("_", " ") for name in constants.actions]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start in the world of a seed, or in any world without one."""
        super().reset(seed=seed, options=options)
        self._game._seed, self._game._episode = int(self.np_random.integers(SEEDS)), 0  # noqa: SLF001 - no other way to seed it
        return self._seen(self._game.reset()), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ANN401 - as gymnasium's
        """Play one action."""
        picture, reward, dead, info = self._game.step(int(action))
        return self._seen(picture), float(reward), bool(dead), False, {"achievements": info["achievements"]}

    def render(self) -> Any:  # noqa: ANN401 - as gymnasium's
        """Draw the world, and leave its generator as it was."""
        generator = self._game._world.random  # noqa: SLF001 - as above
        state = generator.get_state()
        picture = self._game.render(FILM)
        generator.set_state(state)
        return picture

    def _seen(self, picture: Any) -> Any:  # noqa: ANN401 - an array
        if not self._symbolic:
            return picture
        player = self._game._player  # noqa: SLF001 - as above
        whole = np.pad(self._game._sem_view().astype(np.uint8), COLUMNS)  # noqa: SLF001 - as above
        left, top = player.pos[0] + COLUMNS - COLUMNS // 2, player.pos[1] + COLUMNS - ROWS // 2
        return {
            "map": whole[left : left + COLUMNS, top : top + ROWS].T.copy(),
            "items": np.array([player.inventory[name] for name in constants.items], np.uint8),
            "facing": np.array(player.facing, np.int8),
            "daylight": np.array([self._game._world.daylight], np.float32),  # noqa: SLF001 - as above
            "sleeping": int(player.sleeping),
        }


for _name, _symbolic in (("Reward", False), ("Symbolic", True)):
    register(
        f"crafter/Crafter{_name}-v1",
        f"{__name__}:{Survival.__name__}",
        max_episode_steps=STEPS,
        kwargs={"symbolic": _symbolic},
    )
