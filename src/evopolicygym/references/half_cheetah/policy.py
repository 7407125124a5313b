"""Gallops to a rhythm: a central pattern generator whose joint angles a PD control follows.

Each of the six joints is to swing by two harmonics of one rhythm about a middle of its own (central pattern
generators as controllers of gaits: Ijspeert, Neural Networks 21, 2008). Torques draw a joint to where the rhythm has
it, and answer the trunk's pitch. The rhythm's clock is the step; what is seen changes it in nothing. The numbers were
found by CMA-ES on train cases.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[np.float64]]

PITCH, ANGLES, PITCH_SPEED, SPEEDS = 1, slice(2, 8), 10, slice(11, 17)
"""Where they stand in an observation; joints in the order of actions."""


class Policy:
    """A rhythm and the springs that follow it."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Read the tuned numbers."""
        file = Path(__file__).parent / "parameters.json"
        self.numbers: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["numbers"]

    def reset(self, episode_index: int) -> None:
        """Start the clock."""
        self.step = 0
        self.arrays = {name: np.array(value) for name, value in self.numbers.items()}

    def act(self, obs: Vector) -> Vector:
        """Return the torques."""
        numbers = self.arrays
        beat = self.step * numbers["radians_a_step"]
        self.step += 1
        wanted = numbers["middle"] + numbers["swing"] * np.sin(beat + numbers["swing_phase"])
        wanted += numbers["overtone"] * np.sin(2 * beat + numbers["overtone_phase"])
        torques = numbers["stiffness"] * wanted - numbers["hold"] * obs[ANGLES] - numbers["damping"] * obs[SPEEDS]
        torques += numbers["by_pitch"] * obs[PITCH] + numbers["by_pitch_speed"] * obs[PITCH_SPEED]
        return np.asarray(np.clip(torques, -1, 1))
