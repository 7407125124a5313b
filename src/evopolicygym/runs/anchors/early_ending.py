"""The action that, repeated, ends episodes early and gains by it, such as full throttle into a wall.

It can only gain where every step costs, so that who measures looks for it where random play and the idle action both
have returns below zero. What is tried is each value of a Discrete, and of a Box each element at each of its bounds, and
all of them at once.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from evopolicygym.core.cases import Split
from evopolicygym.core.rollout import Episode
from evopolicygym.core.score import estimate
from evopolicygym.core.spaces import Box, Discrete, Space
from evopolicygym.runs.anchors.player import AnchorPlayer, repeating, starter

MOST_ACTIONS = 64
TRIED, COMPARED = 1, 16
"""Cases on which each action is tried, and those on which the ones that end episodes are compared. They are of
validation, so that what is measured on held-out cases was not chosen by them."""


def early_ending(player: AnchorPlayer, observe: Callable[[str], object]) -> Any | None:  # noqa: ANN401 - an action as JSON has it
    """Return the action whose repetition ends episodes early and gains by it; None where there is none.

    It has to return more than random play and the idle action do on the same cases; ``observe`` is called with what is
    tried.
    """
    idle, found = player.spec.idle_action, []
    for action in islice(candidates(player.action_space, idle), MOST_ACTIONS):
        observe(f"repeating {action}")
        if _ends_early(_played(player, repeating(action), TRIED)):
            found.append(action)
    if not found:
        return None
    known = max(_mean(_played(player, policy, COMPARED)) for policy in (starter(), repeating(idle)))
    played = [(action, _played(player, repeating(action), COMPARED)) for action in found]
    means = [(_mean(episodes), action) for action, episodes in played if _ends_early(episodes)]
    best, action = max(means, key=lambda one: one[0], default=(known, None))
    return action if best > known else None


def candidates(space: Space, idle: Any) -> Iterator[Any]:  # noqa: ANN401 - an action as JSON has it
    """Yield the actions that are tried, as JSON has them, the idle one aside; none of other spaces than these two."""
    match space:
        case Discrete():
            yield from (value for value in range(space.start, space.start + space.n) if value != idle)
        case Box() if np.dtype(space.dtype).kind == "f":
            low, high = space.limits()
            for bound in (low, high):
                if np.isfinite(bound).all():
                    yield bound.tolist()
            at_rest = np.asarray(idle, float)
            for place in np.ndindex(*space.shape):
                for bound in (low, high):
                    if np.isfinite(bound[place]) and bound[place] != at_rest[place]:
                        action = at_rest.copy()
                        action[place] = bound[place]
                        yield action.tolist()


def _played(player: AnchorPlayer, policy: Mapping[str, bytes], cases: int) -> tuple[Episode, ...]:
    return player.play(policy, Split.VALIDATION, cases, lambda _: None).episodes


def _mean(episodes: tuple[Episode, ...]) -> float:
    return estimate([one.episode_return for one in episodes]).mean


def _ends_early(episodes: tuple[Episode, ...]) -> bool:
    """Return whether most episodes terminated, and did so by no success."""
    ended = sum(one.terminated and not one.success for one in episodes)
    return 2 * ended > len(episodes)
