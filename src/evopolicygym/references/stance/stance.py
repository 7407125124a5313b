"""A body that stands: what the policies of the hopper and of the walker share.

Around a posture in which the body is balanced, small errors grow and are removed by torques that are linear in them:
``torques - gains @ (observed - posture)``. The gains are those of the linear-quadratic regulator (Kalman, 1960) of the
simulator's own model, made linear at that posture by small differences, contact with the ground included. Posture,
torques and gains are in ``parameters.json`` of each environment.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[np.float64]]


class Stance:
    """A regulator around a posture, with the numbers of an environment."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Read the numbers."""
        file = Path(__file__).parent / "parameters.json"
        self.numbers: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["numbers"]

    def reset(self, episode_index: int) -> None:
        """Make arrays of the numbers; nothing is remembered of what was seen."""
        self.torques = np.array(self.numbers["torques"])
        self.gains = np.array([self.numbers[f"{joint}_gains"] for joint in ("thigh", "leg", "foot")])
        posture = self.numbers["posture"]
        self.posture = np.array([*posture, *[0.0] * (self.gains.shape[1] - len(posture))])

    def act(self, obs: Vector) -> Vector:
        """Return the torques."""
        return np.asarray(np.clip(self.torques - self.gains @ (obs - self.posture), -1, 1))
