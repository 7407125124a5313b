"""Walks right to the wall, then down it to the goal in the corner, and never steps where a ball lies.

By MiniGrid's source a step ends the episode only where a ball or a wall was ahead before the balls moved, that is, in
what the agent sees now; a ball that rolls into the way afterwards stops the step and costs nothing. So nothing is
predicted: what lies ahead is looked at, and where it is a ball, the agent turns to its other direction and takes that,
or waits so. No position is kept in mind, as steps may fail unseen; the walls to the right and below are seen when they
are reached.

It lacks planning around balls, which would save a few of some 30 steps.
"""

from typing import Any

LEFT, RIGHT, FORWARD = range(3)
WALL, BALL = 2, 6
RIGHTWARD, DOWNWARD = 0, 1
AHEAD, BESIDE_LEFT = (3, 5), (2, 6)
"""Places in the image: the agent stands at 3, 6 and looks to where the second number falls."""


class Policy:
    """Decides by the cell ahead and, facing down, by the one to the left, which is the one to the right in the room."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Take what the contract gives; nothing of it is needed."""

    def reset(self, episode_index: int) -> None:
        """Begin; nothing is kept in mind."""

    def act(self, obs: dict[str, Any]) -> int:
        """Return the next move."""
        kinds = obs["image"][..., 0]
        direction = int(obs["direction"])
        ahead = int(kinds[AHEAD])
        if direction == RIGHTWARD:
            return RIGHT if ahead in (WALL, BALL) else FORWARD
        if direction == DOWNWARD:
            at_wall = int(kinds[BESIDE_LEFT]) == WALL
            return FORWARD if at_wall and ahead != BALL else self.sideways(ahead, at_wall=at_wall)
        return RIGHT if direction > DOWNWARD + 1 else LEFT

    @staticmethod
    def sideways(ahead: int, *, at_wall: bool) -> int:
        """Return what to do facing down where down is not the way to go: past a ball, or back to the right."""
        return FORWARD if not at_wall and ahead not in (WALL, BALL) else LEFT
