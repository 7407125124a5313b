"""Looks for the fewest steps to the bar through the known dynamics, then swings as planned.

The environment is deterministic and its equations are known (Sutton and Barto, Reinforcement Learning, 1998, section
11.3; Gymnasium's Acrobot integrates them by one Runge-Kutta step of 0.2 s), so a whole episode can be searched before
its first step. A beam search plays all three torques from each state that it keeps. Of states in the same cell of a
grid it keeps one, and of all of them those with the most mechanical energy, for energy is what the tip needs to rise;
the grid keeps them from being all alike. The first state above the bar ends the search. Observations are rounded to
single precision: where what comes strays from the plan, the rest is planned anew.
"""

from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[np.float64]]

TORQUES = np.array([-1.0, 0.0, 1.0])
INTERVAL, GRAVITY = 0.2, 9.8
MASS, LENGTH, CENTER, INERTIA = 1.0, 1.0, 0.5, 1.0
"""Of each link; the center of mass along it."""
FASTEST = np.array([4 * np.pi, 9 * np.pi])
BAR = 1.0
KEPT, LONGEST_PLAN = 2000, 120
CELL = np.array([0.08, 0.08, 0.2, 0.3])
"""Of the grid: two angles, two velocities."""
STRAYED = 0.02


class Policy:
    """Plans once, follows, and plans again where it strays."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Nothing to prepare."""

    def reset(self, episode_index: int) -> None:
        """Forget the plan."""
        self.plan: list[int] = []
        self.expected = np.zeros(4)

    def act(self, obs: Vector) -> int:
        """Return the index of a torque."""
        state = np.array([np.arctan2(obs[1], obs[0]), np.arctan2(obs[3], obs[2]), obs[4], obs[5]])
        if not self.plan or np.abs(apart(state, self.expected)).max() > STRAYED:
            self.plan = planned(state)
        action = self.plan.pop(0)
        self.expected = moved(state[None], TORQUES[[action]])[0]
        return action


def apart(state: Vector, other: Vector) -> Vector:
    """Return how far two states are apart, angles counted round."""
    difference = state - other
    difference[:2] = (difference[:2] + np.pi) % (2 * np.pi) - np.pi
    return difference


def planned(state: Vector) -> list[int]:
    """Return the actions of the shortest way found to the bar, or to the most energy."""
    states = state[None]
    origins, actions = [], []
    for _ in range(LONGEST_PLAN):
        before = np.repeat(np.arange(len(states)), len(TORQUES))
        action = np.tile(np.arange(len(TORQUES)), len(states))
        states = moved(states[before], TORQUES[action])
        best = np.argsort(-energy(states), kind="stable")
        above = height(states) > BAR
        if above.any():
            kept = np.flatnonzero(above)[:1]
        else:
            cells = np.floor(states[best] / CELL).astype(np.int64) @ np.array([1, 1000, 1000000, 1000000000])
            kept = best[np.sort(np.unique(cells, return_index=True)[1])[:KEPT]]
        states = states[kept]
        origins.append(before[kept])
        actions.append(action[kept])
        if above.any():
            break
    plan, place = [], 0
    for origin, action in zip(reversed(origins), reversed(actions), strict=True):
        plan.append(int(action[place]))
        place = origin[place]
    return plan[::-1]


def height(states: Vector) -> Vector:
    """Return the height of the tip above the joint that hangs fixed."""
    return np.asarray(-np.cos(states[:, 0]) - np.cos(states[:, 0] + states[:, 1]))


def energy(states: Vector) -> Vector:
    """Return the mechanical energy."""
    first, second, speed, turn = states.T
    moments = masses(second)
    kinetic = moments[0] * speed * speed / 2 + moments[1] * speed * turn + moments[2] * turn * turn / 2
    return np.asarray(kinetic - MASS * GRAVITY * ((CENTER + LENGTH) * np.cos(first) + CENTER * np.cos(first + second)))


def masses(second: Vector) -> tuple[Vector, Vector, float]:
    """Return the entries of the mass matrix: of the first joint, mixed, of the second."""
    own = MASS * CENTER * CENTER + INERTIA
    mixed = own + MASS * LENGTH * CENTER * np.cos(second)
    return MASS * LENGTH * LENGTH - own + 2 * mixed + MASS * CENTER * CENTER + INERTIA, mixed, own


def accelerated(states: Vector, torques: Vector) -> Vector:
    """Return the derivative of states in time."""
    first, second, speed, turn = states.T
    moment, mixed, own = masses(second)
    hang = MASS * CENTER * GRAVITY * np.sin(first + second)
    drag = MASS * LENGTH * CENTER * np.sin(second)
    bias = -drag * turn * (turn + 2 * speed) + MASS * (CENTER + LENGTH) * GRAVITY * np.sin(first) + hang
    turning = (torques + mixed / moment * bias - drag * speed * speed - hang) / (own - mixed * mixed / moment)
    return np.stack([speed, turn, -(mixed * turning + bias) / moment, turning], axis=1)


def moved(states: Vector, torques: Vector) -> Vector:
    """Return states one step later, by the classical Runge-Kutta step; velocities are cut off as there."""
    slope = accelerated(states, torques)
    total = slope
    for weight, share in ((2, 0.5), (2, 0.5), (1, 1.0)):
        slope = accelerated(states + share * INTERVAL * slope, torques)
        total = total + weight * slope
    later = states + INTERVAL / 6 * total
    later[:, :2] = (later[:, :2] + np.pi) % (2 * np.pi) - np.pi
    later[:, 2:] = np.clip(later[:, 2:], -FASTEST, FASTEST)
    return np.asarray(later)
