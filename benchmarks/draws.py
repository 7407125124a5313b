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
