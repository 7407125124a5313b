"""A random walk that breaks one promise of an environment, which its argument names; without one it is sound."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

LATE = 300
"""The step from which late faults are there: no short look at an environment reaches it."""
CYCLE: dict[str, Any] = {}
CYCLE["itself"] = CYCLE
INFOS: dict[str, dict[Any, Any]] = {
    "keys beside a NaN": {"parts": {(0, 1): float("nan")}},
    "cycle": CYCLE,
    "bytes": {"image": b"\xff\x00"},
    "surrogate": {"mission": "\ud800"},
}
"""Values of ``info`` that JSON does not have."""


class Broken(gymnasium.Env[Any, Any]):
    """A random walk."""

    action_space = spaces.Discrete(3)

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.observation_space = spaces.Box(-1000.0, 1000.0, (1,), np.float32)

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002 - Gymnasium passes it
    ) -> tuple[Any, dict[str, Any]]:
        """Start at a place that the seed draws."""
        super().reset(seed=seed)
        self.steps, self.place = 0, 0.0 if self.fault == "one case" else self.np_random.normal()
        self.ends_at_once = self.fault == "one step" or (self.fault == "late in few" and self.np_random.random() < 0.75)
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Walk."""
        self.steps += 1
        self.place += float(action) - 1.0
        if self.steps >= LATE and self.fault == "late draw":
            self.place += np.random.default_rng().normal()
        if self.steps >= LATE and self.fault == "late error":
            raise ZeroDivisionError("late")
        is_nan = self.steps >= LATE and self.fault in {"late NaN reward", "late in few"}
        info = dict(INFOS.get(self.fault, {}))
        return self.observe(), float("nan") if is_nan else 1.0, self.ends_at_once, False, info

    def observe(self) -> Any:
        """Return the place."""
        dtype = np.float64 if self.steps >= LATE and self.fault == "late dtype" else np.float32
        return np.array([self.place + {"outside": 2000.0, "NaN": np.nan}.get(self.fault, 0.0)], dtype)


gymnasium.registry.pop("Broken-v0", None)
gymnasium.register("Broken-v0", Broken)
