"""Reaches the goal of four rooms by looking where most cells that may hold it come into view for the fewest steps.

The world's walls are known but for their gaps, so the policy works out where it is from the walls that it sees. Each
wall between two rooms has exactly one gap, and the goal is as likely on one unseen cell of a room as on any other. Each
pose that can be reached is rated by the unseen cells that come into view on the way to it, divided by the steps; the
best is gone for, and all is rated again after every step. How the map is kept and what can be seen from where is told
in ``gridworld.py``.
"""

from gridworld import EMPTY, GOAL, USE, WALL, Cell, Walker, best_view, poses_on

PLAN = (
    "###################",
    *["#........+........#"] * 8,
    "#++++++++#++++++++#",
    *["#........+........#"] * 8,
    "###################",
)
MIDDLE, PLACES = 9, 8
SEGMENTS = [
    [(place, MIDDLE) if level else (MIDDLE, place) for place in range(first, first + PLACES)]
    for level in (False, True)
    for first in (1, MIDDLE + 1)
]
"""The places of each wall between two rooms, one of which is a gap."""
WALL_WORTH = 8.0
"""What seeing a wall's gap is worth, beside a cell where the goal may be; shared by the places where it may be."""
SPREAD = 18


class Policy(Walker):
    """Explores until the goal is seen, then goes there."""

    plan = PLAN

    def decide(self) -> int:
        """Return the action towards the goal, or towards what shows most."""
        world = self.world
        self.infer()
        routes = world.routes(self.cost)
        goals = world.find(GOAL)
        target = routes.nearest(poses_on(goals[0])) if goals else None
        target = target or best_view(world, routes, world.unseen(self.worth, SPREAD), 0.05)
        return routes.way(target)[0][1] if target else USE

    def infer(self) -> None:
        """Once it is known where the agent is: a wall between two rooms has one gap, so that the rest is wall."""
        world = self.world
        if len(world.places) > 1:
            return
        self.gap_worth: dict[Cell, float] = {}
        for segment in SEGMENTS:
            cells = [world.cell_of(*place) for place in segment]
            unknown = [cell for cell in cells if cell not in world.cells]
            if unknown and any(world.cells.get(cell, (WALL,))[0] != WALL for cell in cells):
                world.add(dict.fromkeys(unknown, (WALL, 5, 0)))
            elif len(unknown) == 1:
                world.add({unknown[0]: (EMPTY, 0, 0)})
            self.gap_worth |= dict.fromkeys(unknown, WALL_WORTH / max(1, len(unknown)))

    def cost(self, cell: Cell) -> float | None:
        """Return the steps into a cell."""
        return 1.0 if self.world.cells.get(cell, (0,))[0] in (EMPTY, GOAL) else None

    def worth(self, cell: Cell) -> float:
        """Return what it is worth to see a cell."""
        if len(self.world.places) == 1 and cell in self.gap_worth:
            return self.gap_worth[cell]
        marks = self.world.mark(cell)
        value: float = marks.get(".", 0.0) + WALL_WORTH / PLACES * marks.get("+", 0.0)
        return value
