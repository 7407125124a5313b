"""Opens boxes for keys, puts balls before locked doors aside, and looks into one corner room after another.

By MiniGrid's source the nine rooms are always joined in the same way: from the middle room an open door leads into each
of the four side rooms, from each of these a locked door into both corner rooms beside it, with a ball before it and the
key of its colour in one of the side room's two boxes. The blue ball lies in one of the corners, so that of the two
doors into a corner one is enough. What is nearest is done first: a key in hand to its door, a key on the floor once
its door is free, a box; nothing of it where the corners behind are open already. How the map is kept and what can be
seen from where is told in ``gridworld.py``.

It lacks a plan beyond the next thing: it opens both boxes where the first one had the key that it could use, and does
not weigh a corner that is near against two that lie side by side.
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
    Pose,
    Routes,
    Walker,
    best_view,
    poses_of,
)

PLAN = (
    "################",
    *["#tttt-rrrr-tttt#"] * 4,
    "#----#====#----#",
    *["#rrrr=ssss=rrrr#"] * 4,
    "#----#====#----#",
    *["#tttt-rrrr-tttt#"] * 4,
    "################",
)
"""Corners are t, side rooms r; = has the doors of the middle room, - the locked ones."""
FIRST_WALL, SECOND_WALL = 5, 10
WORTH = {"=": 0.3, "r": 0.4, "-": 0.5, "t": 1.0}
SPREAD = 15
BLUE = COLOURS.index("blue")


class Policy(Walker):
    """Does what can be done of the task, the last part first; looks around while nothing can be."""

    plan = PLAN

    def decide(self) -> int:
        """Return the action for what is to be done next."""
        world = self.world
        routes = world.routes(world.effort)
        rough = world.routes(world.rough_effort)
        things, action = self.next_things(rough)
        poses = poses_of(things)
        if things and world.carried and (action == PICK_UP or world.carried[0] == BALL):
            return self.put_down(poses)
        pose = routes.nearest(poses)
        if pose is None and things:  # something is in the way
            routes, pose = rough, rough.nearest(poses)
        if pose is None:
            unseen = world.unseen(self.worth, SPREAD)
            pose = best_view(world, routes, unseen, 0.05) or best_view(world, rough, unseen, 0.05)
            routes = routes if pose in routes.costs else rough
        if pose is None:
            return RIGHT
        return action if pose == world.pose and things else self.toward(routes, pose)

    def toward(self, routes: Routes, pose: Pose) -> int:
        """Return the next action on the way; what is in hand is put down before a way on which something lies."""
        world = self.world
        lying = any(world.cells.get(step[:2], (0,))[0] in (KEY, BALL) for step, _ in routes.way(pose))
        return self.put_down([pose]) if lying and world.carried else world.toward(routes, pose)

    def put_down(self, target: list[Pose]) -> int:
        """Return the next action that puts down what is in hand, before no door that is still to be opened."""
        world = self.world
        return world.put_down(world.routes(world.effort), target, [self.before(door) for door in self.doors()])

    def next_things(self, routes: Routes) -> tuple[list[Cell], int]:
        """Return what is to be gone for, with what is to be done to it."""
        world = self.world
        prizes = world.find(BALL, BLUE)
        if prizes:
            return prizes, PICK_UP
        doors = {door: world.cells[door][1] for door in self.doors()}
        free = [door for door in doors if world.cells.get(self.before(door), (0,))[0] != BALL]
        ready = [door for door in free if world.carried == (KEY, doors[door])]
        if ready:
            return ready, USE
        keys = [key for door in free for key in world.find(KEY, doors[door])]
        blocked = [self.before(door) for door in doors if door not in free and self.has_key(doors[door])]
        if keys or blocked:
            nearer = routes.cost(poses_of(keys)) <= routes.cost(poses_of(blocked))
            return (keys if nearer else blocked), PICK_UP
        return [box for box in world.find(BOX) if self.corners_beside(box) - self.opened()], USE

    def has_key(self, colour: int) -> bool:
        """Return whether a key of a colour is in sight or in hand."""
        return bool(self.world.find(KEY, colour)) or self.world.carried == (KEY, colour)

    def doors(self) -> list[Cell]:
        """Return the locked doors of corners that are not open yet."""
        opened = self.opened()
        return [door for door in self.world.find(DOOR, state=LOCKED) if self.corner(door) not in opened]

    def opened(self) -> set[Cell]:
        """Return the corners of which a door was unlocked."""
        world = self.world
        unlocked = [door for door in world.find(DOOR) if world.cells[door][2] != LOCKED]
        return {self.corner(door) for door in unlocked if world.mark(door).get("-", 0.0) > 0.5}

    def place(self, cell: Cell) -> Cell:
        """Return the place of the plan that a cell most likely is."""
        x, y = self.world.cell_of(0, 0)
        return cell[0] - x, cell[1] - y

    def corner(self, cell: Cell) -> Cell:
        """Return the corner that a cell lies in or towards, as -1 or 1 from left to right and from top to bottom."""
        x, y = self.place(cell)
        return (1 if x > len(PLAN) // 2 else -1), (1 if y > len(PLAN) // 2 else -1)

    def before(self, door: Cell) -> Cell:
        """Return the cell of the side room before a corner's door."""
        x, y = self.place(door)
        inward = {FIRST_WALL: 1, SECOND_WALL: -1}
        return (door[0] + inward[x], door[1]) if x in inward else (door[0], door[1] + inward.get(y, 0))

    def corners_beside(self, cell: Cell) -> set[Cell]:
        """Return the two corners that the side room of a cell has doors to."""
        x, y = self.place(cell)
        across, down = self.corner(cell)
        if FIRST_WALL < x < SECOND_WALL:
            return {(-1, down), (1, down)}
        return {(across, -1), (across, 1)} if FIRST_WALL < y < SECOND_WALL else {(across, down)}

    def worth(self, cell: Cell) -> float:
        """Return what it is worth to see a cell; of rooms from which no corner is left to be opened, nothing."""
        marks = self.world.mark(cell)
        if marks.get("t", 0.0) < 0.5 and not self.corners_beside(cell) - self.opened():
            return 0.0
        return sum(WORTH.get(mark, 0.0) * likelihood for mark, likelihood in marks.items())
