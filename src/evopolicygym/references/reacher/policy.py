"""Plans all remaining torques by gradient descent through the arm's dynamics, which are nearly linear.

Each joint of Gymnasium's ``reacher.xml`` has an armature of 1 and a damping of 1, against which the links' own inertia
is negligible: so a joint is a mass with friction, driven by 200 times its action, and its angles are linear in the
actions. The cost, the fingertip's distance and the squared actions, is then a smooth function of the actions with a
known gradient. L-BFGS (Liu and Nocedal 1989; scipy's) minimises it within the actions' bounds, from starts with the
elbow bent either way and several speeds. After each step the rest of the plan is improved: model predictive control.
"""

from typing import Any

import numpy as np
from scipy.optimize import minimize

Vector = np.ndarray[Any, np.dtype[np.float64]]

UPPER, LOWER = 0.1, 0.11
"""Lengths of the links."""
GEAR, FRICTION, INTERVAL = 200.0, 1.0, 0.02
EFFORT = 1.0
STEPS = 50
SMOOTH = 1e-8
"""Added to the squared distance, so that its root has a gradient at the target."""
BENDS = (1.0, -1.0)
ROUNDS, LATER_ROUNDS = 200, 30
REACHING_STEPS = (8, 16, 24, 32)
"""Steps of the first guesses, half to speed up and half to slow down; some end in a worse local minimum."""


class Policy:
    """Plans before the first step, and again before each later one."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Compute the effect of actions on a joint: angles after each step are ``shift @ actions``."""
        decay = np.exp(-FRICTION * INTERVAL)
        speed = GEAR * (1 - decay) / FRICTION
        angle = GEAR * (INTERVAL - (1 - decay) / FRICTION) / FRICTION
        coasts = (1 - decay ** np.arange(STEPS + 1)) / FRICTION
        after = np.arange(STEPS)[:, None] - np.arange(STEPS)[None, :]
        self.shift = np.where(after >= 0, angle + speed * coasts[np.maximum(after, 0)], 0.0)
        self.coast = coasts[1:]

    def reset(self, episode_index: int) -> None:
        """Forget the plan."""
        self.plan: Vector | None = None

    def act(self, obs: Vector) -> Vector:
        """Return the next torques of the plan."""
        angles, target, speeds = np.arctan2(obs[2:4], obs[:2]), obs[4:6], obs[6:8]
        if self.plan is None:
            guesses = [self.guess(angles, target, bend, steps) for bend in BENDS for steps in REACHING_STEPS]
            plans = [self.improved(guess, angles, target, speeds, ROUNDS) for guess in guesses]
            self.plan = min(plans, key=lambda plan: self.cost(plan.ravel(), angles, target, speeds)[0])
        else:
            self.plan = self.improved(self.plan, angles, target, speeds, LATER_ROUNDS)
        action, self.plan = self.plan[:, 0], self.plan[:, 1:]
        if not self.plan.size:
            self.plan = None
        return np.asarray(action)

    def improved(self, plan: Vector, angles: Vector, target: Vector, speeds: Vector, rounds: int) -> Vector:
        """Return a plan improved by rounds of L-BFGS."""
        result = minimize(
            self.cost,
            plan.ravel(),
            (angles, target, speeds),
            "L-BFGS-B",
            jac=True,
            bounds=[(-1.0, 1.0)] * plan.size,
            options={"maxiter": rounds},
        )
        return np.asarray(result.x).reshape(plan.shape)

    def cost(self, actions: Vector, angles: Vector, target: Vector, speeds: Vector) -> tuple[float, Vector]:
        """Return the cost of actions (of the first joint, then of the second), and its gradient."""
        steps = len(actions) // 2
        shift, plan = self.shift[:steps, :steps], actions.reshape(2, steps)
        first, second = angles[:, None] + np.outer(speeds, self.coast[:steps]) + plan @ shift.T
        both = first + second
        upper = UPPER * np.stack([np.cos(first), np.sin(first)])
        lower = LOWER * np.stack([np.cos(both), np.sin(both)])
        off = upper + lower - target[:, None]
        distance = np.sqrt((off * off).sum(axis=0) + SMOOTH)
        toward = off / distance
        by_both = toward[1] * lower[0] - toward[0] * lower[1]
        by_first = by_both + toward[1] * upper[0] - toward[0] * upper[1]
        gradient = np.stack([by_first, by_both]) @ shift + 2 * EFFORT * plan
        return float(distance.sum() + EFFORT * (actions @ actions)), gradient.ravel()

    def guess(self, angles: Vector, target: Vector, bend: float, steps: int) -> Vector:
        """Return actions that move the arm to the target with a given bend: speeding up, then slowing down."""
        reach = target @ target
        cosine = np.clip((reach - UPPER * UPPER - LOWER * LOWER) / (2 * UPPER * LOWER), -1, 1)
        elbow = bend * np.arccos(cosine)
        shoulder = np.arctan2(target[1], target[0]) - np.arctan2(LOWER * np.sin(elbow), UPPER + LOWER * cosine)
        way = (np.array([shoulder, elbow]) - angles + np.pi) % (2 * np.pi) - np.pi
        plan = np.zeros((2, STEPS))
        half = steps // 2
        force = way / (GEAR * (half * INTERVAL) ** 2)
        plan[:, :half], plan[:, half : 2 * half] = force[:, None], -force[:, None]
        return np.clip(plan, -1, 1)
