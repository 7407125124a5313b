"""Walks the shortest way to the far corner that may be free of lava, and plans again after every step.

The room of nine by nine cells, the start in one corner and the goal in the opposite one are the same in every episode,
by the description and MiniGrid's source. What was not seen yet is taken for free, so that the way leads to where a gap
in the lava may still be; a cell is entered only after it was seen ahead. How the map is kept is told in
``gridworld.py``.

It lacks what is known of the streams: each has one gap, and each crosses the whole room, so that a piece of one tells
where the rest of it lies.
"""

from gridworld import RIGHT, Walker, poses_on

SIZE = 9
PLAN = ("#" * SIZE, "#s" + "~" * (SIZE - 3) + "#", *["#" + "~" * (SIZE - 2) + "#"] * (SIZE - 3), "#" * SIZE)
GOAL_PLACE = (SIZE - 2, SIZE - 2)


class Policy(Walker):
    """Goes for the corner as if there were no lava but what was seen."""

    plan = PLAN

    def decide(self) -> int:
        """Return the next move."""
        routes = self.world.routes(self.world.effort)
        pose = routes.nearest(poses_on(self.world.cell_of(*GOAL_PLACE)))
        return self.world.toward(routes, pose) if pose else RIGHT
