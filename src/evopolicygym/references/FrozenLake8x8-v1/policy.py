"""Plays the lake's published dynamics to their best: of every square and step left, the surest move is worked out.

The map of eight by eight squares and the slipping are those of gymnasium's source: a step goes where it is meant to
with one third, and to either side of it with one third each; a step off the map stays. Values are worked out backward
from the last step, so that the policy also knows when it has time to be safe and when it has to hurry.

It lacks nothing under these dynamics: no other policy reaches the goal more often within the limit.
"""

from typing import Any

LAKE = (
    "SFFFFFFF",
    "FFFFFFFF",
    "FFFHFFFF",
    "FFFFFHFF",
    "FFFHFFFF",
    "FHHFFFHF",
    "FHFFHFHF",
    "FFFHFFFG",
)
SIZE = len(LAKE)
MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))
"""Rows and columns of left, down, right and up; neighbours in this order are a quarter turn apart."""


def moved(square: int, move: int) -> int:
    """Return the square after a step that does not slip."""
    row, column = square // SIZE + MOVES[move][0], square % SIZE + MOVES[move][1]
    return row * SIZE + column if 0 <= row < SIZE and 0 <= column < SIZE else square


def value_of(values: list[float], square: int, action: int) -> float:
    """Return the share of episodes in which the goal is reached by an action, where the next step has given values."""
    return sum(values[moved(square, (action + slip) % len(MOVES))] for slip in (-1, 0, 1)) / 3.0


class Policy:
    """Knows the best action of every square for every number of steps left."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Work out the actions from the last step to the first."""
        marks = "".join(LAKE)
        squares, actions = range(len(marks)), range(len(MOVES))
        values = [float(mark == "G") for mark in marks]
        self.actions: list[list[int]] = []
        for _ in range(int(env_meta["max_episode_steps"])):
            worth = [[value_of(values, square, action) for action in actions] for square in squares]
            self.actions.append([max(actions, key=row.__getitem__) for row in worth])
            values = [values[square] if marks[square] in "HG" else max(worth[square]) for square in squares]
        self.left = len(self.actions)

    def reset(self, episode_index: int) -> None:
        """Begin with all steps left."""
        self.left = len(self.actions)

    def act(self, obs: int) -> int:
        """Return the best action for the steps that are left."""
        self.left -= 1
        return self.actions[self.left][int(obs)]
