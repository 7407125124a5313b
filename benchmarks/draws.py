"""Draws of mean 0 and variance 1 that synthetic returns are made of."""

from collections.abc import Callable

import numpy as np

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def normal(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return normal draws."""
    return random.normal(size=shape)


def skewed(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return draws with a long tail below."""
    return 1 - random.exponential(size=shape)


def bimodal(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return draws of two values, as of runs that solve a task or don't, with equal chances and a little noise."""
    sides = np.where(random.random(shape) < 0.5, -1.0, 1.0)  # noqa: PLR2004 - equal chances
    return np.asarray((sides + 0.05 * random.normal(size=shape)) / np.sqrt(1 + 0.05**2))
