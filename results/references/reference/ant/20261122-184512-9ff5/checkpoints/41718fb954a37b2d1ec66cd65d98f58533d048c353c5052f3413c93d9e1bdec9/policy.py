"""Runs to a rhythm and steers back to its course.

The rhythm is told in ``gait.py``; a PD control draws the eight joints to it. The rhythm alone would run in a circle:
the trunk's heading, its turning and its drift sideways move all four hips, which turns it back to the x axis, the only
one along which distance is paid. The numbers were found by CMA-ES on train cases.
"""

import math

import numpy as np
from gait import Gait, Vector

ORDER = np.array([6, 7, 0, 1, 2, 3, 4, 5])
"""Where the joint of each action stands among the joints of an observation."""
ANGLES, SPEEDS = 5 + ORDER, 19 + ORDER
DRIFT, TURNING = 14, 18
"""Velocity along y, and about z."""
HIPS = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0])


class Policy(Gait):
    """A rhythm, the springs that follow it, and a helmsman."""

    def act(self, obs: Vector) -> Vector:
        """Return the torques."""
        wanted, numbers = self.swung(), self.arrays
        steering = numbers["by_heading"] * heading(obs) + numbers["by_turning"] * obs[TURNING]
        wanted += (steering + numbers["by_drift"] * obs[DRIFT]) * HIPS
        torques = numbers["stiffness"] * (wanted - obs[ANGLES]) - numbers["damping"] * obs[SPEEDS]
        return np.asarray(np.clip(torques, -1, 1))


def heading(obs: Vector) -> float:
    """Return the angle about z by which the trunk is turned, from its quaternion."""
    w, x, y, z = obs[1:5]
    return math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
