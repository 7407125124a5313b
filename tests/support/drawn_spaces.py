"""Spaces that Hypothesis draws, and values as policies send them."""

import math
from typing import Any

import numpy as np
from hypothesis import strategies as some

from evopolicygym.core.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Text, Tuple

names = some.text("abcdefgh", min_size=1, max_size=4)
shapes = some.lists(some.integers(1, 4), min_size=1, max_size=3).map(tuple)
edges = some.floats(-1e6, 1e6, width=32) | some.sampled_from([-math.inf, math.inf])


@some.composite
def boxes(draw: some.DrawFn) -> Box:
    shape = draw(shapes)
    size = math.prod(shape)
    if draw(some.booleans()):
        return Box(shape, draw(some.sampled_from(["uint8", "int64"])), 0.0, float(draw(some.integers(0, 255))))
    pairs = draw(some.lists(some.tuples(edges, edges), min_size=size, max_size=size))
    low = [min(pair) if min(pair) < math.inf else 0.0 for pair in pairs]
    high = [max(pair) if max(pair) > -math.inf else 0.0 for pair in pairs]
    dtype = draw(some.sampled_from(["float32", "float64"]))
    fields = draw(some.just(()) | some.just(tuple(f"field {place}" for place in range(size))))
    return Box(shape, dtype, _shared(low), _shared(high), fields)


def _shared(bounds: list[float]) -> float | tuple[float, ...]:
    return bounds[0] if len(set(bounds)) == 1 else tuple(bounds)


@some.composite
def multi_discretes(draw: some.DrawFn) -> MultiDiscrete:
    nvec = tuple(draw(some.lists(some.integers(1, 9), min_size=1, max_size=5)))
    return MultiDiscrete(nvec, tuple(draw(some.lists(some.integers(-5, 5), min_size=len(nvec), max_size=len(nvec)))))


plain = (
    boxes()
    | multi_discretes()
    | some.builds(Discrete, some.integers(1, 50), some.integers(-9, 9))
    | some.builds(lambda n: Discrete(n, 0, tuple(f"value {v}" for v in range(n))), some.integers(1, 5))
    | some.builds(MultiBinary, shapes)
    | some.builds(Text, some.integers(0, 20))
)
spaces = some.recursive(
    plain,
    lambda inner: (
        some.lists(inner, min_size=1, max_size=3).map(lambda parts: Tuple(tuple(parts)))
        | some.dictionaries(names, inner, min_size=1, max_size=3).map(lambda parts: Dict(tuple(parts.items())))
    ),
    max_leaves=6,
)


def transported(space: Space, value: Any) -> Any:
    """Return a value as it arrives from a policy's process."""
    match space:
        case Box():
            return np.asarray(value, dtype=np.float64)
        case MultiDiscrete() | MultiBinary():
            return np.asarray(value, dtype=np.int64)
        case Tuple():
            return tuple(transported(part, one) for part, one in zip(space.spaces, value, strict=True))
        case Dict():
            return {name: transported(part, value[name]) for name, part in space.spaces}
        case _:
            return value
