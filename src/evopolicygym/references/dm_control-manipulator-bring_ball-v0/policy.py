"""Comes down on the ball with an open gripper, closes it, and holds the ball at the target.

How it plays: the arm's four joints are asked where they have to be for the gripper to be at a place with a direction:
by the triangle that upper and middle arm make with the wrist's place, the bend of the elbow chosen that is nearer. A PD
control draws them there. The gripper goes above the ball, down over it, closes, and carries it until the ball, not
the hand, is at the target. A lost ball is taken anew.
From what: the description says what is observed; lengths, masses and torques are in the simulator's model. Gains and
distances were tried on train cases.
What it lacks: it knows no obstacles, so the arm may sweep the ball away; a ball in a corner it waits for; and it
follows a rolling ball instead of meeting it.
"""

import math
from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[np.float64]]
SHOULDER = np.array([0.0, 0.4])
UPPER, MIDDLE, LOWER = 0.18, 0.15, 0.12
GRASP = 0.065
"""How far the middle of the grasp is from the wrist, m."""
TORQUES = np.array([12.0, 8.0, 4.0, 2.0])
STIFFNESS = np.array([120.0, 80.0, 40.0, 16.0])
DAMPING = np.array([2.0, 1.2, 0.6, 0.2])
LIMITS = np.array([10.0, 2.7, 2.7, 2.4])
"""How far each joint may be turned from straight, rad."""
FARTHEST = 0.44
"""How far from the shoulder the wrist is to be at most, m."""
MOST_TILT = 0.55
"""Beyond this the floor is in the way of a finger, rad."""
LEAD = 0.06
"""Seconds by which the arm lags behind a rolling ball."""
ABOVE = 0.09
ALIGNED, TAKEN, HELD = 0.03, 0.018, 0.05
CLOSING = 25
DOWN = math.pi


class Policy:
    """Inverse kinematics, a PD control and three stages."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Take what the contract gives; nothing of it is needed."""

    def reset(self, episode_index: int) -> None:
        """Begin with the gripper open."""
        self.closing, self.place = 0, SHOULDER

    def act(self, obs: dict[str, Any]) -> Vector:
        """Return the torques of the arm and of the gripper."""
        joints = np.arctan2(obs["arm_pos"][:4, 0], obs["arm_pos"][:4, 1])
        ball, target, hand = (
            obs["object_pos"][:2] + LEAD * obs["object_vel"][:2] * (not self.closing),
            obs["target_pos"][:2],
            obs["hand_pos"],
        )
        facing = 2 * math.atan2(hand[3], hand[2])
        grasp = hand[:2] + GRASP * np.array([math.sin(facing), math.cos(facing)])
        far = float(np.hypot(*(ball - grasp)))
        if self.closing and far > HELD:
            self.closing = 0
        if self.closing or far < TAKEN:
            self.place = self.place if self.closing else ball
            self.closing += 1
        direction = self.direction(ball)
        along = np.array([math.sin(direction), math.cos(direction)])
        if self.closing > CLOSING:
            place, direction = grasp + target - ball, self.direction(target)
        elif self.closing:
            place = self.place
        else:
            aside = abs(float((grasp - ball) @ np.array([along[1], -along[0]])))
            behind = float((ball - grasp) @ along)
            place = ball + TAKEN * 0.3 * along if aside < ALIGNED and behind > -HELD else ball - ABOVE * along
        wanted = self.joints(place, direction, joints)
        error = (wanted - joints + math.pi) % (2 * math.pi) - math.pi
        error[1:] = wanted[1:] - joints[1:]
        pull = STIFFNESS * error - DAMPING * obs["arm_vel"][:4]
        return np.append(np.clip(pull / TORQUES, -1, 1), 1.0 if self.closing else -1.0)

    def direction(self, place: Vector) -> float:
        """Return the direction in which a place is grasped: down, or as much away from the shoulder as it is far."""
        outward = math.atan2(place[0], place[1] - SHOULDER[1]) % (2 * math.pi)
        tilt = min(MOST_TILT, max(-MOST_TILT, outward - DOWN))
        for part in np.linspace(0.0, 1.0, 9):
            direction = DOWN + part * tilt
            wrist = place - GRASP * np.array([math.sin(direction), math.cos(direction)])
            if math.dist(wrist, SHOULDER) < FARTHEST:
                break
        return float(direction)

    def joints(self, place: Vector, direction: float, now: Vector) -> Vector:
        """Return the joints that bring the grasp to a place in a direction, by the bend that is nearer to now."""
        wrist = place - GRASP * np.array([math.sin(direction), math.cos(direction)])
        best, least = now, math.inf
        for lean in (*np.linspace(-2.2, 2.2, 23), -now[3]):
            elbow = wrist - LOWER * np.array([math.sin(direction + lean), math.cos(direction + lean)])
            way = elbow - SHOULDER
            reach = float(np.hypot(*way))
            if not abs(UPPER - MIDDLE) + 0.01 < reach < UPPER + MIDDLE - 0.003:
                continue
            bend = math.acos((reach**2 - UPPER**2 - MIDDLE**2) / (2 * UPPER * MIDDLE))
            for side in (bend, -bend):
                root = math.atan2(way[0], way[1]) - math.atan2(MIDDLE * math.sin(side), UPPER + MIDDLE * math.cos(side))
                found = -np.array([root, side, direction + lean - root - side, -lean])
                found[1:] = (found[1:] + math.pi) % (2 * math.pi) - math.pi
                found[0] = now[0] + (found[0] - now[0] + math.pi) % (2 * math.pi) - math.pi
                cost = float(np.abs(found - now) @ [1.5, 1.0, 0.7, 0.4]) + 100.0 * bool((np.abs(found) > LIMITS).any())
                if cost < least:
                    best, least = found, cost
        return best
