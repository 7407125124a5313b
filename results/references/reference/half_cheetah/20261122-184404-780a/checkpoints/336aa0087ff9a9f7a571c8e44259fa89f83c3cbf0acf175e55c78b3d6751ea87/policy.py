"""Gallops to a rhythm that a PD control follows.

The rhythm is told in ``gait.py``. Torques draw each of the six joints to where the rhythm has it, and answer the
trunk's pitch. The numbers were found by CMA-ES on train cases.
"""

import numpy as np
from gait import Gait, Vector

PITCH, ANGLES, PITCH_SPEED, SPEEDS = 1, slice(2, 8), 10, slice(11, 17)
"""Where they stand in an observation; joints in the order of actions."""


class Policy(Gait):
    """A rhythm and the springs that follow it."""

    def act(self, obs: Vector) -> Vector:
        """Return the torques."""
        wanted, numbers = self.swung(), self.arrays
        torques = numbers["stiffness"] * wanted - numbers["hold"] * obs[ANGLES] - numbers["damping"] * obs[SPEEDS]
        torques += numbers["by_pitch"] * obs[PITCH] + numbers["by_pitch_speed"] * obs[PITCH_SPEED]
        return np.asarray(np.clip(torques, -1, 1))
