"""Reaches the goal of four rooms by looking where most cells that may hold it come into view for the fewest steps.

The world's walls are known but for their gaps, so the policy works out where it is from the walls that it sees. The
goal is as likely on one unseen cell of a room as on any other. Each pose that can be reached is rated by the unseen
cells that come into view on the way to it, divided by the steps; the best is gone for, and all is rated again after
every step. How the map is kept and what can be seen from where is told in ``gridworld.py``.
"""

from gridworld import EMPTY, GOAL, USE, Cell, Walker, best_view, poses_on

PLAN = (
    "###################",
    *["#........+........#"] * 8,
    "#++++++++#++++++++#",
    *["#........+........#"] * 8,
    "###################",
)
WALL_WORTH = 0.2
"""What seeing a place of a wall is worth, where a gap may be, beside a cell where the goal may be."""
SPREAD = 18


class Policy(Walker):
    """Explores until the goal is seen, then goes there."""

    plan = PLAN

    def decide(self) -> int:
        """Return the action towards the goal, or towards what shows most."""
        world = self.world
        routes = world.routes(self.cost)
        goals = world.find(GOAL)
        target = routes.nearest(poses_on(goals[0])) if goals else None
        target = target or best_view(world, routes, world.unseen(self.worth, SPREAD), 0.05)
        return routes.way(target)[0][1] if target else USE

    def cost(self, cell: Cell) -> float | None:
        """Return the steps into a cell."""
        return 1.0 if self.world.cells.get(cell, (0,))[0] in (EMPTY, GOAL) else None

    def worth(self, cell: Cell) -> float:
        """Return what it is worth to see a cell."""
        marks = self.world.mark(cell)
        return marks.get(".", 0.0) + WALL_WORTH * marks.get("+", 0.0)
