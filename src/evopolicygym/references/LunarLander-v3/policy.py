"""Falls as long as it can, brakes late, and leans towards the pad until it stands.

How it plays: the craft may sink as fast as its main engine can still brake before the ground (a parabola over height),
so it fires that engine late and seldom. It leans against its drift and its distance from the pad; the side engines
turn it to that lean. On a leg it leans no more, and only softens the fall. When both legs stand it does nothing.
From what: the description says what is seen and done; that braking late is cheap follows from the price of fuel and
the parabola from constant deceleration. The numbers were found by CMA-ES on train cases.
What it lacks: it looks at the pad alone, so it hardly uses a slope beside it, and it plans nothing ahead: a start
with much drift is corrected as it comes.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[np.float32]]
NOTHING, TURN_LEFT, BRAKE, TURN_RIGHT = range(4)


class Policy:
    """A braking parabola and a lean."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Read the tuned numbers."""
        file = Path(__file__).parent / "parameters.json"
        self.numbers: dict[str, float] = json.loads(file.read_text(encoding="utf-8"))["numbers"]

    def reset(self, episode_index: int) -> None:
        """Do nothing: all that is needed is seen."""

    def act(self, obs: Vector) -> int:
        """Return which engine fires."""
        across, up, drift, climb, angle, turning, left_leg, right_leg = map(float, obs)
        numbers = self.numbers
        if left_leg and right_leg:
            return BRAKE if climb < -numbers["bump"] else NOTHING
        lean = numbers["lean_by_place"] * across + numbers["lean_by_drift"] * drift
        lean = max(-numbers["most_lean"], min(numbers["most_lean"], lean))
        if left_leg or right_leg:
            lean = 0.0
        turn = lean - angle - numbers["turn_damping"] * turning
        height = max(0.0, up - numbers["spare"] - numbers["spare_aside"] * abs(across))
        allowed = numbers["touch_down"] + math.sqrt(2 * numbers["deceleration"] * height)
        too_fast = -climb - allowed
        if too_fast > 0 and too_fast > numbers["brake_before_turn"] * abs(turn):
            return BRAKE
        if abs(turn) < numbers["small_turn"]:
            return NOTHING
        return TURN_LEFT if turn > 0 else TURN_RIGHT
