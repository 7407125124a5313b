"""The NetHack Learning Environment, whose ids ignore the seed of a reset: here it seeds the game.

The game has a method for its seeds, which must be called before a reset.
"""

from typing import Any

import gymnasium
import nle  # noqa: F401 - registers the ids
from gymnasium.envs.registration import WrapperSpec, registry

SIMULATOR = "nle."
"""Prefix of the ids' entry points."""


class SeededGame(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A game that the seed of a reset decides, and nothing else: neither the day nor the games before it."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the game of a seed, or any game without one."""
        if seed is not None:
            game: Any = self.unwrapped
            game.seed(core=seed, disp=seed, reseed=False)
        return self.env.reset(options=options)


def _wrap_games() -> None:
    wrapper = WrapperSpec(SeededGame.__name__, f"{__name__}:{SeededGame.__name__}", {})
    for spec in registry.values():
        if str(spec.entry_point).startswith(SIMULATOR):
            spec.additional_wrappers = (wrapper,)


_wrap_games()
