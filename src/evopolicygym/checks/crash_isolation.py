"""A simulator that kills its process once in the middle of an episode, for the check of executors.

A marker beside its worker's temporary directory tells the second attempt from the first, which removes it.
"""

import os
import signal
import tempfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from evopolicygym.core.task import EnvironmentSpec, TaskKind

ID = "CrashIsolation-v0"
STEPS, FATAL_STEP = 6, 3
FATAL_SEED = 1
"""The only seed with which it is killed."""


def spec(token: str) -> EnvironmentSpec:
    """Return its spec; ``token`` names its marker."""
    return EnvironmentSpec(
        name="crash_isolation",
        id=ID,
        family="checks",
        kind=TaskKind.TUNING,
        max_steps=STEPS,
        objective="Nothing.",
        reward="The size of the action, negative.",
        termination="Never.",
        observation=("drift",),
        action=("push",),
        idle_action=[0.0],
        imports=("evopolicygym.checks.crash_isolation",),
        arguments={"token": token},
    )


class CrashesOnce(gymnasium.Env[Any, Any]):
    """Observations are random numbers."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, token: str) -> None:
        self._marker = Path(tempfile.gettempdir()).with_name(f"evopolicygym-crash-isolation-{token}")
        self._fatal, self._steps = False, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed, options=options)
        self._fatal, self._steps = seed == FATAL_SEED, 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ANN401 - gymnasium's contract
        """Take a step, or kill the process on the first attempt."""
        self._steps += 1
        if self._fatal and self._steps == FATAL_STEP:
            self._die_once()
        return self._observe(), -float(np.abs(action).sum()), False, False, {}

    def _observe(self) -> Any:  # noqa: ANN401 - as above
        return self.np_random.uniform(-1.0, 1.0, 1).astype(np.float32)

    def _die_once(self) -> None:
        try:
            self._marker.touch(exist_ok=False)
        except FileExistsError:
            self._marker.unlink()
        else:
            os.kill(os.getpid(), signal.SIGKILL)


gymnasium.register(ID, entry_point="evopolicygym.checks.crash_isolation:CrashesOnce")
