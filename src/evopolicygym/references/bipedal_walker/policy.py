"""Walks by three stages for each step: stand on one leg and swing the other, put it down, push off.

The stages are those of the heuristic in Gymnasium's ``bipedal_walker.py`` (after Oleg Klimov). One leg moves, the
other supports: while the moving leg swings, the supporting knee stretches; when the supporting thigh has come far
enough back, the moving leg goes down; when it touches the ground, the other pushes off until its knee is stretched or
the hull is fast, and the legs change places. A PD control draws hips and knees to the stage's angles, leans against
the hull's tilt and its vertical speed. The numbers were found by CMA-ES on train cases, starting from those of the
heuristic.
"""

import json
from enum import Enum, auto
from pathlib import Path
from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[np.float64]]

TILT, TILT_SPEED, FORWARD, UPWARD = range(4)
LEGS = (4, 9)
"""Where each leg begins in an observation: hip, its speed, knee, its speed, contact."""


class Stage(Enum):
    """What the moving leg does."""

    SWING = auto()
    PUT_DOWN = auto()
    PUSH_OFF = auto()


class Policy:
    """The stages and the springs that follow them."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Read the tuned numbers."""
        file = Path(__file__).parent / "parameters.json"
        self.numbers: dict[str, float] = json.loads(file.read_text(encoding="utf-8"))["numbers"]

    def reset(self, episode_index: int) -> None:
        """Stand ready to swing the first leg."""
        self.stage, self.moving = Stage.SWING, 0
        self.support_knee = self.numbers["bent_knee"]

    def act(self, obs: Vector) -> Vector:
        """Return the torques: hip and knee of one leg, then of the other."""
        numbers = self.numbers
        hips, knees = self.wanted(obs)
        torques = np.zeros(4)
        for leg, first in enumerate(LEGS):
            hip, hip_speed, knee, knee_speed = obs[first : first + 4]
            if hips[leg] is not None:
                torques[2 * leg] = numbers["hip_stiffness"] * (hips[leg] - hip) - numbers["hip_damping"] * hip_speed
            if knees[leg] is not None:
                torques[2 * leg + 1] = (
                    numbers["knee_stiffness"] * (knees[leg] - knee) - numbers["knee_damping"] * knee_speed
                )
            torques[2 * leg] += numbers["against_tilt"] * obs[TILT] + numbers["against_tilting"] * obs[TILT_SPEED]
            torques[2 * leg + 1] -= numbers["against_bobbing"] * obs[UPWARD]
        return np.asarray(np.clip(numbers["strength"] * torques, -1, 1))

    def wanted(self, obs: Vector) -> tuple[list[Any], list[Any]]:
        """Return the angles wanted of both hips and both knees, None where none is, and go on to the next stage."""
        numbers, moving, support = self.numbers, self.moving, 1 - self.moving
        moving_leg, support_leg = LEGS[moving], LEGS[support]
        hips: list[float | None] = [None, None]
        knees: list[float | None] = [None, None]
        if self.stage is Stage.SWING:
            hips[moving], knees[moving] = numbers["swing_hip"], numbers["swing_knee"]
            steps = 2 if obs[FORWARD] > numbers["speed"] else 1
            self.support_knee = min(numbers["bent_knee"], self.support_knee + steps * numbers["stretching"])
            knees[support] = self.support_knee
            if obs[support_leg] < numbers["support_behind"]:
                self.stage = Stage.PUT_DOWN
        if self.stage is Stage.PUT_DOWN:
            hips[moving], knees[moving] = numbers["down_hip"], numbers["bent_knee"]
            knees[support] = self.support_knee
            if obs[moving_leg + 4]:
                self.stage = Stage.PUSH_OFF
                self.support_knee = min(obs[moving_leg + 2], numbers["bent_knee"])
        if self.stage is Stage.PUSH_OFF:
            knees[moving], knees[support] = self.support_knee, numbers["push_knee"]
            if obs[support_leg + 2] > numbers["pushed_knee"] or obs[FORWARD] > numbers["fast"]:
                self.stage, self.moving = Stage.SWING, support
        return hips, knees
