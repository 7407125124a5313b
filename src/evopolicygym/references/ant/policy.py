"""Runs to a rhythm and steers back to its course.

As in the cheetah's policy, each of the eight joints is to swing by two harmonics of one rhythm about a middle of its
own (central pattern generators as controllers of gaits: Ijspeert, Neural Networks 21, 2008), and a PD control
follows. The rhythm alone would run in a circle: the trunk's heading, its turning and its drift sideways move all four
hips, which turns it back to the x axis, the only one along which distance is paid. The numbers were found by CMA-ES
on train cases.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[np.float64]]

ORDER = np.array([6, 7, 0, 1, 2, 3, 4, 5])
"""Where the joint of each action stands among the joints of an observation."""
ANGLES, SPEEDS = 5 + ORDER, 19 + ORDER
DRIFT, TURNING = 14, 18
"""Velocity along y, and about z."""
HIPS = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0])


class Policy:
    """A rhythm, the springs that follow it, and a helmsman."""

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
        steering = numbers["by_heading"] * heading(obs) + numbers["by_turning"] * obs[TURNING]
        wanted += (steering + numbers["by_drift"] * obs[DRIFT]) * HIPS
        torques = numbers["stiffness"] * (wanted - obs[ANGLES]) - numbers["damping"] * obs[SPEEDS]
        return np.asarray(np.clip(torques, -1, 1))


def heading(obs: Vector) -> float:
    """Return the angle about z by which the trunk is turned, from its quaternion."""
    w, x, y, z = obs[1:5]
    return math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
