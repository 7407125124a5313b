"""Swings up with the least effort that the time allows, then climbs in one run.

What is paid is 0.1 a² a step, and 100 at the flag, so time is free up to the last step and force is not. Along a
path, the least effort that gains a given energy is a force proportional to the velocity (minimise the integral of a²
under a given integral of a v). From swing to swing, the effort falls as force is spread over more of them; with a
price on time the Hamilton-Jacobi equation, averaged over an orbit, gives a = pace · v / (root mean square of v on the
orbit of this energy). That root follows from the pendulum's elliptic integrals. ``pace`` is found before the first
step, by playing the known dynamics through until the flag is reached just in time. The left wall swallows speed, so
the last run begins at the turning point near it, with force = gain · v and the least gain that reaches the flag. The
dynamics are those of Gymnasium's MountainCarContinuous.
"""

import math
from typing import Any

import numpy as np
from scipy.special import ellipe, ellipk

Vector = np.ndarray[Any, np.dtype[np.float64]]

POWER, GRAVITY = 0.0015, 0.0025
LEFT_WALL, FLAG, FASTEST = -1.2, 0.45, 0.07
AIM = FLAG + 1e-4
"""Single precision moves a swing a little."""
IN_TIME = 990
"""Steps; the environment ends after 999."""
STEEPEST_GAIN = 5.0
"""A run up is begun as soon as a gain below this reaches the flag."""
SMALLEST_PACE, LARGEST_PACE = 0.02, 0.4
HALVINGS = 14


class Policy:
    """The law for swings, and the last run."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Nothing to prepare."""

    def reset(self, episode_index: int) -> None:
        """Forget the pace."""
        self.driver: Driver | None = None
        self.left, self.turned = IN_TIME, True

    def act(self, obs: Vector) -> Vector:
        """Return the force."""
        position, velocity = float(obs[0]), float(obs[1])
        if self.driver is None:
            self.driver = Driver(best_pace(position, velocity, self.left))
        elif velocity > 0 and self.turned and not self.driver.gain and self.is_late(position, velocity):
            self.driver.pace = best_pace(position, velocity, self.left)
        self.left, self.turned = self.left - 1, velocity <= 0
        return np.array([self.driver.force(position, velocity)])

    def is_late(self, position: float, velocity: float) -> bool:
        """Return whether the plan misses the flag: single precision can decide otherwise at a turning point."""
        return self.driver is not None and not is_in_time(position, velocity, self.driver.pace, self.left)


class Driver:
    """Drives at a pace; remembers whether the last run has begun."""

    def __init__(self, pace: float) -> None:
        self.pace = pace
        self.came_from_right = True
        self.gain = 0.0

    def force(self, position: float, velocity: float) -> float:
        """Return the force."""
        if velocity > 0 and (self.came_from_right or self.gain):
            gain = least_gain(position, velocity)
            self.gain = gain if gain <= STEEPEST_GAIN or self.gain else 0.0
        self.came_from_right = velocity <= 0
        return min(1.0, (self.gain or self.pace / usual_speed(position, velocity)) * velocity + 1e-3 * (velocity == 0))


def usual_speed(position: float, velocity: float) -> float:
    """Return the root mean square of the velocity on the frictionless orbit through a state."""
    energy = velocity * velocity / 2 + GRAVITY / 3 * (math.sin(3 * position) + 1)
    modulus = min(0.999, max(1e-4, energy / (2 * GRAVITY / 3)))
    return math.sqrt(4 * GRAVITY / 3 * (ellipe(modulus) / ellipk(modulus) - (1 - modulus)))


def moved(position: float, velocity: float, force: float) -> tuple[float, float]:
    """Return the state after one step."""
    velocity += force * POWER - GRAVITY * math.cos(3 * position)
    velocity = min(FASTEST, max(-FASTEST, velocity))
    position += velocity
    return (position, velocity) if position > LEFT_WALL else (LEFT_WALL, max(0.0, velocity))


def least_gain(position: float, velocity: float) -> float:
    """Return the least gain with which the run that is under way reaches the flag."""
    low, high = 0.0, 20.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if reaches(position, velocity, middle) else (middle, high)
    return high


def reaches(position: float, velocity: float, gain: float) -> bool:
    """Return whether a run up with this gain reaches the flag before it turns."""
    while velocity > 0 and position < AIM:
        position, velocity = moved(position, velocity, min(1.0, gain * velocity))
    return position >= AIM


def best_pace(position: float, velocity: float, steps: int) -> float:
    """Return the least pace that is in time, as far as halving finds it."""
    low, high = SMALLEST_PACE, LARGEST_PACE
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_in_time(position, velocity, middle, steps) else (middle, high)
    return high


def is_in_time(position: float, velocity: float, pace: float, steps: int) -> bool:
    """Return whether driving at a pace reaches the flag within so many steps."""
    driver = Driver(pace)
    for _ in range(max(0, steps)):
        position, velocity = moved(position, velocity, driver.force(position, velocity))
        if position >= FLAG:
            return True
    return False
