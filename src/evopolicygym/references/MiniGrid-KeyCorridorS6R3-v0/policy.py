"""Finds the key in the rooms on the left, unlocks the one locked door on the right, and picks up the ball behind it.

By MiniGrid's source the nine rooms of four by four cells always lie in the same way: the three in the middle are one
corridor, the key is in a room on the left, and the ball behind the locked door of a room on the right; which walls have
doors is found out. As in the smaller ``key_corridor``, only what helps is worth seeing: rooms on the left and their
doors while the key is missing, doors on the right afterwards. How the map is kept and what can be seen from where is
told in ``gridworld.py``.

It lacks a second look ahead: the room whose unseen cells are nearest is taken, not the way that visits several best.
"""

from gridworld import BALL, DOOR, KEY, LOCKED, PICK_UP, RIGHT, USE, Cell, Walker, best_view, poses_of

ROOM = 4
OUTER = "#" * (3 * ROOM + 4)
PLAN = (
    OUTER,
    *["#kkkk+....=rrrr#"] * ROOM,
    "#++++#ssss#++++#",
    *["#kkkk+ssss=rrrr#"] * ROOM,
    "#++++#ssss#++++#",
    *["#kkkk+....=rrrr#"] * ROOM,
    OUTER,
)
"""Rooms on the left are k, on the right r; the agent starts in the middle of the corridor."""
WORTH_WITHOUT_KEY = {"k": 1.0, "+": 0.3, "=": 0.1}
WORTH_WITH_KEY = {"=": 1.0, "+": 0.3}
SPREAD = 15


class Policy(Walker):
    """Does the last part of the task that can be done, and looks for what is missing while none can be."""

    plan = PLAN

    def decide(self) -> int:
        """Return the next action."""
        world = self.world
        routes = world.routes(world.effort)
        balls = poses_of(world.find(BALL))
        if pose := routes.nearest(balls):
            if world.carried:
                return world.put_down(routes, balls)
            return PICK_UP if pose == world.pose else world.toward(routes, pose)
        things, action = (world.find(DOOR, state=LOCKED), USE) if world.carried else (world.find(KEY), PICK_UP)
        if pose := routes.nearest(poses_of(things)):
            return action if pose == world.pose else world.toward(routes, pose)
        worths = WORTH_WITH_KEY if world.carried or world.find(KEY) else WORTH_WITHOUT_KEY

        def worth(cell: Cell) -> float:
            return sum(worths.get(mark, 0.0) * likelihood for mark, likelihood in world.mark(cell).items())

        pose = best_view(world, routes, world.unseen(worth, SPREAD), 0.05)
        return world.toward(routes, pose) if pose else RIGHT
