"""JSBGym, whose turns are drawn from Python's global generator: here the seed of a reset draws them."""

import random
from typing import Any

import gymnasium
import jsbgym  # noqa: F401 - registers the ids
from gymnasium.envs.registration import WrapperSpec, registry

TURN = "TurnHeadingControlTask"
"""In the ids of tasks whose headings are drawn."""
SEEDS = 2**31


class SeededTurn(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A flight whose first and wanted headings the seed of a reset decides; the global generator is left as it was."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the flight of a seed, or the next one without a seed."""
        flight: Any = self.unwrapped
        gymnasium.Env.reset(flight, seed=seed)  # the generator that gymnasium promises; the flight uses Python's
        before = random.getstate()
        random.seed(int(flight.np_random.integers(SEEDS)) if seed is None else seed)
        try:
            return self.env.reset(seed=seed, options=options)
        finally:
            random.setstate(before)


for _spec in registry.values():
    if TURN in _spec.id and str(_spec.entry_point).startswith("jsbgym."):
        _spec.additional_wrappers = (
            WrapperSpec(SeededTurn.__name__, f"{__name__}:{SeededTurn.__name__}", {}),
        )  # fmt: skip
