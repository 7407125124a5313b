"""Opens boxes for a key, puts the ball before the locked door aside, and fetches the blue ball from behind that door.

The plan of the world holds its rooms. MiniGrid's source tells more that never changes: the side room is that on the
right, and the blue ball is in the corner room above it, so that only one of the two locked doors matters. Boxes, the
ball in the way and the key are dealt with nearest first; whatever is in hand is put down where that costs least on the
way to the next thing. How the map is kept and what can be seen from where is told in ``gridworld.py``.
"""

from gridworld import (
    BALL,
    BOX,
    COLOURS,
    DOOR,
    KEY,
    LOCKED,
    PICK_UP,
    RIGHT,
    USE,
    Cell,
    Routes,
    Walker,
    best_view,
    poses_of,
)

PLAN = (
    "################",
    "#oooo#oooo#tttt#",
    "#oooo#oooo#tttt#",
    "#oooo#oooo#tttt#",
    "#oooo#oooo#tttt#",
    "###########----#",
    "#oooo#ssss=rrrr#",
    "#oooo#ssss=rrrr#",
    "#oooo#ssss=rrrr#",
    "#oooo#ssss=rrrr#",
    "###########++++#",
    "#oooo#oooo#oooo#",
    "#oooo#oooo#oooo#",
    "#oooo#oooo#oooo#",
    "#oooo#oooo#oooo#",
    "################",
)
WORTH = {"=": 0.5, "r": 0.4, "-": 1.0, "t": 1.0}
SPREAD = 15
BLUE = COLOURS.index("blue")


class Policy(Walker):
    """Does what can be done of the task, the last part first; looks around while nothing can be."""

    plan = PLAN

    def decide(self) -> int:
        """Return the action for what is to be done next."""
        world = self.world
        routes = world.routes(world.effort)
        things, action = self.next_things(routes)
        poses = poses_of(things)
        if world.carried and (action == PICK_UP or world.carried[0] == BALL):
            return world.put_down(routes, poses, self.kept_free())
        pose = routes.nearest(poses)
        if pose is None and things:  # something is in the way
            routes = world.routes(world.rough_effort)
            pose = routes.nearest(poses)
        if pose is None:
            pose = best_view(world, routes, world.unseen(self.worth, SPREAD), 0.05)
            return world.toward(routes, pose) if pose else RIGHT
        return action if pose == world.pose else world.toward(routes, pose)

    def next_things(self, routes: Routes) -> tuple[list[Cell], int]:
        """Return what is to be gone for, with what is to be done to it."""
        world = self.world
        door = self.door()
        prizes = world.find(BALL, BLUE)
        if prizes and (door is None or routes.nearest(poses_of(prizes))):
            return prizes, PICK_UP
        if door is None:
            return [], USE
        colour = world.cells[door][1]
        keys, boxes = world.find(KEY, colour), world.find(BOX)
        blockers = [cell for cell in world.find(BALL) if cell in self.kept_free()]
        nearer = routes.cost(poses_of(blockers)) < routes.cost(poses_of(boxes))
        if blockers and (keys or world.carried or not boxes or nearer):
            return blockers, PICK_UP
        if world.carried == (KEY, colour):
            return [door], USE
        return (keys, PICK_UP) if keys else (boxes, USE)

    def kept_free(self) -> list[Cell]:
        """Return the cells where nothing may lie: those before the door that matters."""
        door = self.door()
        return [] if door is None else [(door[0], door[1] + 1), (door[0], door[1] - 1)]

    def door(self) -> Cell | None:
        """Return the locked door that matters; None where it is not known or no longer locked."""
        doors = [cell for cell in self.world.find(DOOR, state=LOCKED) if self.world.mark(cell).get("-", 0.0) > 0.5]
        return doors[0] if doors else None

    def worth(self, cell: Cell) -> float:
        """Return what it is worth to see a cell."""
        return sum(WORTH.get(mark, 0.0) * likelihood for mark, likelihood in self.world.mark(cell).items())
