"""The NetHack Learning Environment, whose ids ignore the seed of a reset: here it seeds the game.

The game has a method for its seeds, which must be called before a reset. The argument ``actions`` of an id names a
tuple of ``nle.nethack``, such as ``ACTIONS``, so that a pack can give it as text.
"""

from typing import Any

import gymnasium
import nle  # noqa: F401 - registers the ids
from gymnasium.envs.registration import WrapperSpec, load_env_creator, registry
from nle import nethack

SEEDS = 2**31
MAX_STEPS = 10**9
"""The game's own limit, at which it terminates; here the limit of the task truncates."""


class SeededGame(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A game that the seed of a reset decides, and nothing else: neither the day nor the games before it."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the game of a seed, or the next one without a seed."""
        game: Any = self.unwrapped
        gymnasium.Env.reset(game, seed=seed)  # the generator that gymnasium promises; the game has its own
        drawn = int(game.np_random.integers(SEEDS)) if seed is None else seed
        game.seed(core=drawn, disp=drawn, reseed=False)
        return self.env.reset(options=options or None)  # empty ones are taken for a list of items


def make_game(game: str, actions: str = "", **arguments: Any) -> gymnasium.Env[Any, Any]:  # noqa: ANN401 - as gymnasium's
    """Create the game of an entry point, with its own actions or those of a tuple of ``nle.nethack``."""
    if actions:
        arguments["actions"] = getattr(nethack, actions)
    create: Any = load_env_creator(game)
    made: gymnasium.Env[Any, Any] = create(**arguments, max_episode_steps=MAX_STEPS)
    return made


def seed_games(simulator: str, wrapper: type[SeededGame] = SeededGame) -> None:
    """Wrap the games of all ids whose entry points begin with ``simulator``."""
    spec_of_wrapper = WrapperSpec(wrapper.__name__, f"{wrapper.__module__}:{wrapper.__name__}", {})
    for spec in registry.values():
        if str(spec.entry_point).startswith(simulator):
            spec.kwargs = {**spec.kwargs, "game": spec.entry_point}
            spec.entry_point = f"{__name__}:{make_game.__name__}"
            spec.additional_wrappers = (spec_of_wrapper,)


seed_games("nle.")
