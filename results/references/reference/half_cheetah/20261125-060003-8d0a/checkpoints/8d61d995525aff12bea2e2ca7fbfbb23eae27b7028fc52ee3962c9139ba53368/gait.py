"""A rhythm that joints swing to: what the policies of the cheetah and of the ant share.

Each joint is to swing by two harmonics of one rhythm about a middle of its own (central pattern generators as
controllers of gaits: Ijspeert, Neural Networks 21, 2008). The rhythm's clock is the step; what is seen changes it in
nothing. How torques follow it is not told here but in each environment's ``policy.py``.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[np.float64]]


class Gait:
    """A rhythm with the tuned numbers of an environment."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Read the tuned numbers."""
        file = Path(__file__).parent / "parameters.json"
        self.numbers: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["numbers"]

    def reset(self, episode_index: int) -> None:
        """Start the clock."""
        self.step = 0
        self.arrays = {name: np.array(value) for name, value in self.numbers.items()}

    def swung(self) -> Vector:
        """Return where the rhythm has each joint in this step, and set the clock to the next."""
        numbers = self.arrays
        beat = self.step * numbers["radians_a_step"]
        self.step += 1
        wanted = numbers["middle"] + numbers["swing"] * np.sin(beat + numbers["swing_phase"])
        wanted += numbers["overtone"] * np.sin(2 * beat + numbers["overtone_phase"])
        return np.asarray(wanted)
