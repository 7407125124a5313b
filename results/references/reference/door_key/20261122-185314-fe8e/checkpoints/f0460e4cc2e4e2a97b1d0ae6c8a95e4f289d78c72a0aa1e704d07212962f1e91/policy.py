"""Finds key and door left of the splitting wall, unlocks it, and walks straight to the bottom right corner.

The plan of the world holds all that is the same in every case: its outer wall, and that the goal is in the corner. The
splitting wall may stand in most columns; once a piece of it is seen, the door is looked for in its column and the key
left of it. What is unseen counts by how likely it holds what is missing, and the way that shows most for its steps is
taken. How the map is kept and what can be seen from where is told in ``gridworld.py``.
"""

from collections import Counter

from gridworld import DOOR, KEY, LOCKED, PICK_UP, RIGHT, WALL, Walker, around, best_view, poses_on

SIZE = 16
PLAN = ("#" * SIZE, *["#." + "~" * 12 + ".#"] * (SIZE - 2), "#" * SIZE)
GOAL_PLACE = (14, 14)
SPREAD = 15
SURE = 0.6
"""How likely a piece of wall must be none of the outer wall."""
DOOR_SHARE = 1.0
"""What finding the door is worth beside finding the key."""


class Policy(Walker):
    """Goes for the key, the door and the goal, and looks for the first two while they are unseen."""

    plan = PLAN

    def decide(self) -> int:
        """Return the action for the first thing of the task that can be done."""
        world = self.world
        routes = world.routes(world.effort)
        doors, keys = world.find(DOOR), world.find(KEY)
        if doors and (world.carried or not world.find(DOOR, state=LOCKED)):
            pose = routes.nearest(poses_on(world.cell_of(*GOAL_PLACE)))
            if pose:
                return world.toward(routes, pose)
        if keys and not world.carried:
            pose = routes.nearest(around(keys[0]))
            if pose:
                return PICK_UP if pose == world.pose else world.toward(routes, pose)
        pose = best_view(world, routes, self.unseen(bool(keys or world.carried), bool(doors)))
        return world.toward(routes, pose) if pose else RIGHT

    def unseen(self, key_found: bool, door_found: bool) -> dict[int, float]:  # noqa: FBT001 - two of a kind
        """Return the unseen cells by how likely they hold what is missing."""
        world = self.world
        wall = self.splitting_wall()
        rooms = world.unseen(lambda cell: float(wall is None or cell[0] < wall) * world.openness(cell), SPREAD)
        pieces = world.unseen(lambda cell: float(cell[0] == wall) * world.openness(cell), SPREAD)
        shares = ((rooms, 0.0 if key_found else 1.0), (pieces, 0.0 if door_found else DOOR_SHARE))
        found: dict[int, float] = {}
        for cells, share in shares:
            whole = sum(value * group.bit_count() for group, value in cells.items())
            found |= {group: 100.0 * share * value / whole for group, value in cells.items() if share}
        return found or rooms

    def splitting_wall(self) -> int | None:
        """Return the x of the splitting wall; None where no piece of it is known for one."""
        world = self.world
        doors = world.find(DOOR)
        if doors:
            return doors[0][0]
        columns = Counter(x for x, y in world.find(WALL) if world.mark((x, y)).get("~", 0.0) > SURE)
        return columns.most_common(1)[0][0] if columns else None
