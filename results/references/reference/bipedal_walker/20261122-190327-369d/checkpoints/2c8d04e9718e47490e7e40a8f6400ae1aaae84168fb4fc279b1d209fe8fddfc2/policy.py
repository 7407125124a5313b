"""Walks by three stages for each step: stand on one leg and swing the other, put it down, push off.

The stages are those of the heuristic in Gymnasium's ``bipedal_walker.py`` (after Oleg Klimov). One leg moves, the
other supports: while the moving leg swings, the supporting knee stretches; when the supporting thigh has come far
enough back, the moving leg goes down; when it touches the ground, the other pushes off until its knee is stretched or
the hull is fast, and the legs change places. The faster the hull, the farther ahead the foot is put (as in SIMBICON:
Yin, Loken and van de Panne 2007). A PD control draws hips and knees to the stage's angles, leans against the hull's
tilt and its vertical speed. The numbers were found by CMA-ES on train cases, starting from those of the heuristic.
"""

import json
from enum import Enum, auto
from pathlib import Path
from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[np.float64]]

TILT, TILT_SPEED, FORWARD, UPWARD = range(4)
Angles = dict[int, float]
"""By leg; a leg without one is left to itself."""
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
        numbers, support = self.numbers, 1 - self.moving
        hips, knees, push = self.wanted(obs)
        upright = numbers["against_tilt"] * (obs[TILT] + numbers["lean"]) + numbers["against_tilting"] * obs[TILT_SPEED]
        torques = np.zeros(4)
        for leg, first in enumerate(LEGS):
            hip, hip_speed, knee, knee_speed = obs[first : first + 4]
            torques[2 * leg] = upright + (push if leg == support else 0.0)
            torques[2 * leg + 1] = -numbers["against_bobbing"] * obs[UPWARD]
            if leg in hips:
                torques[2 * leg] += numbers["hip_stiffness"] * (hips[leg] - hip) - numbers["hip_damping"] * hip_speed
            if leg in knees:
                torques[2 * leg + 1] += (
                    numbers["knee_stiffness"] * (knees[leg] - knee) - numbers["knee_damping"] * knee_speed
                )
        return np.asarray(np.clip(numbers["strength"] * torques, -1, 1))

    def wanted(self, obs: Vector) -> tuple[Angles, Angles, float]:
        """Return the angles wanted of hips and of knees, and a push of the supporting hip; go on to the next stage."""
        numbers, moving, support = self.numbers, self.moving, 1 - self.moving
        moving_leg, support_leg = LEGS[moving], LEGS[support]
        if self.stage is Stage.SWING:
            steps = 2 if obs[FORWARD] > numbers["speed"] else 1
            self.support_knee = min(numbers["bent_knee"], self.support_knee + steps * numbers["stretching"])
            if obs[support_leg] >= numbers["support_behind"]:
                hip = numbers["swing_hip"] + numbers["swing_hip_by_speed"] * obs[FORWARD]
                knees = {moving: numbers["swing_knee"], support: self.support_knee}
                return {moving: hip}, knees, numbers["standing_hip"]
            self.stage = Stage.PUT_DOWN
        if self.stage is Stage.PUT_DOWN:
            if not obs[moving_leg + 4]:
                hip = numbers["down_hip"] + numbers["down_hip_by_speed"] * obs[FORWARD]
                knees = {moving: numbers["down_knee"], support: self.support_knee}
                return {moving: hip}, knees, numbers["standing_hip"]
            self.stage = Stage.PUSH_OFF
            self.support_knee = min(obs[moving_leg + 2], numbers["landed_knee"])
        knees = {moving: self.support_knee, support: numbers["push_knee"]}
        if obs[support_leg + 2] > numbers["pushed_knee"] or obs[FORWARD] > numbers["fast"]:
            self.stage, self.moving = Stage.SWING, support
        return {}, knees, numbers["pushing_hip"]
