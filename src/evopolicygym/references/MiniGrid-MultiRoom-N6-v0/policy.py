"""Opens the door of each room in turn until the goal is seen, and looks for the door where most comes into view.

By the description six rooms lie in a row that doors join; a room has one door but that by which it was entered. So a
closed door that was seen is always the way on. Where none is known, the way is taken on which most unseen cells come
into view for the steps. Nothing else of the world is taken for known: rooms lie anywhere, and have four to ten cells a
side with their walls. How the map is kept and what can be seen from where is told in ``gridworld.py``.

It lacks what the source tells of rooms: that they do not overlap, and that a door lies in no wall of a room before.
"""

from gridworld import CLOSED, DOOR, GOAL, RIGHT, Cell, Walker, best_view, poses_of, poses_on

SIZE = 51
ROW = "~" * (SIZE // 2)
PLAN = (*["~" * SIZE] * (SIZE // 2), ROW + "s" + ROW, *["~" * SIZE] * (SIZE // 2))
"""Nothing is taken for known; the start is in the middle of what may ever be reached."""
SPREAD = 6


class Policy(Walker):
    """Goes for the goal, else for a closed door, else to where most is seen."""

    plan = PLAN

    def decide(self) -> int:
        """Return the next move."""
        world = self.world
        routes = world.routes(self.cost)
        goals = [pose for goal in world.find(GOAL) for pose in poses_on(goal)]
        pose = routes.nearest(goals) or routes.nearest(poses_of(world.find(DOOR, state=CLOSED)))
        if pose and pose == world.pose:
            return world.toward(world.routes(world.effort), (*world.find(DOOR, state=CLOSED)[0], 0))
        pose = pose or best_view(world, routes, world.unseen(world.openness, SPREAD), 0.05)
        return world.toward(routes, pose) if pose else RIGHT

    def cost(self, cell: Cell) -> float | None:
        """Return the steps into a cell; what was not seen is not entered."""
        return self.world.effort(cell) if cell in self.world.cells else None
