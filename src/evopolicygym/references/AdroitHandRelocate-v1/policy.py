"""Lowers the palm onto the ball, closes fingers and thumb around it, and carries it to the target.

How it plays: where palm and ball are follows from the arm's joints and what is observed relative to them. The
arm's three translations and its pitch bring the palm above the ball, down on it, and then to where the ball is at the
target; each is drawn there by a PD control that counts on gravity. The hand knows two postures, open and closed. If
the ball is lost, it is taken anew.
From what: the description says what is observed; lengths, weights and the gains of the actuators, which are no plain
positions, are those of the simulator's model. The closed posture was found by CMA-ES on train cases.
What it lacks: it doesn't feel the ball but waits until the fingers must be closed, and rotates neither forearm nor
wrist.
"""

from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[np.float64]]
ACROSS, UP, FORWARD, PITCH = 0, 1, 2, 3
ARM = slice(0, 6)
PALM_TO_BALL, PALM_TO_TARGET = slice(30, 33), slice(33, 36)
"""Each is the palm's place less that of the other."""
STEP = 0.01
"""Seconds."""
SHOULDER = np.array([0.0, -0.7, 0.2])
REACH, DROP = 0.5, -0.05
"""Where the middle of the grasp is from the shoulder, ahead and above."""
FORCE, SPRING = 500.0, 200.0
"""An actuator of the arm gives FORCE times its command less SPRING times the position."""
STIFFNESS = np.array([1500.0, 1500.0, 1500.0, 400.0, 300.0, 300.0])
DAMPING = np.array([150.0, 150.0, 150.0, 20.0, 10.0, 10.0])
WEIGHT = np.array([0.0, 48.0, 0.0, -15.5, 0.0, 0.0])
"""Force and torque that hold the arm against gravity."""
HIGHEST = 0.2
"""How far the arm can be lifted without pitch, m."""
LOW = np.array([-0.25, 0, -0.3, -0.75, -0.75, -0.75, -0.52, -0.79, *[-0.44, 0, 0, 0] * 3, 0, -0.44, 0, 0, 0])
HIGH = np.array([0.25, 0.2, 0.5, 0.75, 0.75, 0.75, 0.18, 0.61, *[0.44, 1.6, 1.6, 1.6] * 3, 0.7, 0.44, 1.6, 1.6, 1.6])
LOWEST = np.append(LOW, [-1.0, 0.0, -0.26, -0.52, -1.57])
MOST = np.append(HIGH, [1.0, 1.3, 0.26, 0.52, 0.0])
FINGER = [0.0, 1.5, 1.0, 1.0]
OPEN = np.zeros(24)
CLOSED = np.array([0.0, 0.0, *FINGER * 3, 0.0, *FINGER, 0.7, 1.3, 0.26, 0.05, -0.13])
"""Wrist, four fingers, thumb."""
ABOVE, ON = 0.075, 0.0
"""Where the palm waits above the ball until it is aligned, and where it takes the ball, m."""
AIM = np.array([0.012, -0.033, 0.0])
"""Where the palm is to be from the ball, across and ahead, m."""
ALIGNED, TOUCHING = 0.02, 0.02
GRASPING = 16
"""Steps in which the hand closes."""
LOST = 0.09
"""How far from the palm the ball isn't in the hand any more, m."""


class Policy:
    """An arm with a PD control, and a hand with two postures."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Take what the contract gives; nothing of it is needed."""

    def reset(self, episode_index: int) -> None:
        """Begin with an open hand that has not moved."""
        self.closing = 0
        self.before: Vector | None = None

    def act(self, obs: Vector) -> Vector:
        """Return the wanted positions of all joints, between -1 and 1."""
        arm = obs[ARM]
        speed = np.zeros(6) if self.before is None else (arm - self.before) / STEP
        self.before = arm.copy()
        to_ball, to_target = AIM - obs[PALM_TO_BALL], AIM - obs[PALM_TO_TARGET]
        far = float(np.linalg.norm(to_ball))
        if self.closing and far > LOST:
            self.closing = 0
        aside = float(np.hypot(*to_ball[:2]))
        if self.closing or (aside < ALIGNED and abs(to_ball[2]) < ON + TOUCHING):
            self.closing += 1
        if self.closing > GRASPING:
            move = to_target - to_ball
        else:
            move = to_ball + np.array([0.0, 0.0, ON if aside < ALIGNED * 2 else ABOVE])
        wanted = self.joints(palm(arm) + move)
        push = STIFFNESS * (wanted - arm) - DAMPING * speed + WEIGHT
        command = np.concatenate([(push + SPRING * arm) / FORCE, CLOSED if self.closing else OPEN])
        return np.asarray(np.clip(2 * (command - LOWEST) / (MOST - LOWEST) - 1, -1, 1))

    def joints(self, place: Vector) -> Vector:
        """Return the arm's joints that bring the palm to a place."""
        from_shoulder = place - SHOULDER
        lift = float(np.clip(from_shoulder[2] - DROP, 0.0, HIGHEST))
        left = np.clip((from_shoulder[2] - lift) / np.hypot(REACH, DROP), -1, 1)
        pitch = float(np.clip(np.arctan2(DROP, REACH) - np.arcsin(left), -0.75, 0.75))
        forward = from_shoulder[1] - ahead(pitch)
        return np.array([-from_shoulder[0], lift, forward, pitch, 0.0, 0.0])


def palm(arm: Vector) -> Vector:
    """Return where the palm is, from the arm's joints."""
    height = REACH * -np.sin(arm[PITCH]) + DROP * np.cos(arm[PITCH])
    return SHOULDER + np.array([-arm[ACROSS], arm[FORWARD] + ahead(arm[PITCH]), arm[UP] + height])


def ahead(pitch: float) -> float:
    """Return how far before the shoulder the palm is."""
    return float(REACH * np.cos(pitch) + DROP * np.sin(pitch))
