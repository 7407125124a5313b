"""Finds the key in the rooms on the left, unlocks the one locked door on the right, and picks up the ball behind it.

The plan of the world holds the nine rooms; which walls have doors is found out. Only what helps is worth seeing: rooms
on the left while the key is missing, walls of the corridor while doors are. The key is put down where that costs
least on the way to the ball. How the map is kept and what can be seen from where is told in ``gridworld.py``.
"""

from gridworld import BALL, DOOR, KEY, LOCKED, PICK_UP, RIGHT, USE, Cell, Walker, best_view, poses_of

PLAN = (
    "##########",
    "#kk+..=rr#",
    "#kk+..=rr#",
    "#++#ss#++#",
    "#kk+ss=rr#",
    "#kk+ss=rr#",
    "#++#ss#++#",
    "#kk+..=rr#",
    "#kk+..=rr#",
    "##########",
)
WORTH_WITHOUT_KEY = {"k": 1.0, "+": 0.3, "=": 0.1}
WORTH_WITH_KEY = {"=": 1.0}
SPREAD = 9


class Policy(Walker):
    """Goes for key, door and ball, and looks for the first two while they are unseen."""

    plan = PLAN

    def decide(self) -> int:
        """Return the action for the first thing of the task that can be done."""
        world = self.world
        routes = world.routes(world.effort)
        next_thing = (world.find(DOOR, state=LOCKED), USE) if world.carried else (world.find(KEY), PICK_UP)
        wanted = ((world.find(BALL), PICK_UP), next_thing)
        for cells, action in wanted:
            pose = routes.nearest(poses_of(cells))
            if pose and action == PICK_UP and world.carried:
                return world.put_down(routes, poses_of(cells))
            if pose:
                return action if pose == world.pose else world.toward(routes, pose)
        key_found = bool(world.carried or world.find(KEY))
        pose = best_view(world, routes, world.unseen(lambda cell: self.worth(cell, key_found), SPREAD), 0.05)
        return world.toward(routes, pose) if pose else RIGHT

    def worth(self, cell: Cell, key_found: bool) -> float:  # noqa: FBT001 - one of two tables
        """Return what it is worth to see a cell."""
        worths = WORTH_WITH_KEY if key_found else WORTH_WITHOUT_KEY
        return sum(worths.get(mark, 0.0) * likelihood for mark, likelihood in self.world.mark(cell).items())
