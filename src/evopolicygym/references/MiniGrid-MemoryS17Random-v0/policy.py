"""Goes back to see the object of the first room, keeps it in mind, and goes to the same one at the corridor's end.

By the description and MiniGrid's source the agent starts on the middle row and looks to the right. The object to be
remembered lies one row above that row, at the left end of the first room; the two at the end of the corridor lie two
rows above and below it. So the row of a key or ball says which of the three it is, and where one of the last two is
known, the other follows. How the map is kept is told in ``gridworld.py``.

It lacks nothing but steps: where the agent starts near the fork, it goes all the way back to the first room.
"""

from gridworld import BALL, FORWARD, KEY, LEFT, RIGHT, Cell, Walker, poses_on

SIZE = 35
PLAN = ("~" * SIZE,) * (SIZE // 2) + ("~" * (SIZE // 2) + "s" + "~" * (SIZE // 2),) + ("~" * SIZE,) * (SIZE // 2)
"""Nothing is taken for known; the start is in the middle of what may ever be reached."""
REMEMBERED_ROW, END_ROW = -1, 2
RIGHTWARD, LEFTWARD = 0, 2


class Policy(Walker):
    """Looks at the first object, then at the last two, then goes to the one that is the same."""

    plan = PLAN

    def decide(self) -> int:
        """Return the next move."""
        remembered = [kind for (_, row), kind in self.objects().items() if row == REMEMBERED_ROW]
        if not remembered:
            return FORWARD if self.world.pose[2] == LEFTWARD else LEFT
        for (column, row), kind in self.objects().items():
            if abs(row) == END_ROW:
                side = row // END_ROW if kind == remembered[0] else -row // END_ROW
                routes = self.world.routes(self.effort)
                pose = routes.nearest(poses_on((column, side)))
                if pose:
                    return self.world.toward(routes, pose)
        return FORWARD if self.world.pose[2] == RIGHTWARD else RIGHT

    def effort(self, cell: Cell) -> float | None:
        """Return the steps into a cell; what was not seen is not entered."""
        return self.world.effort(cell) if cell in self.world.cells else None

    def objects(self) -> dict[Cell, int]:
        """Return the keys and balls that were seen."""
        return {cell: thing[0] for cell, thing in self.world.cells.items() if thing[0] in (KEY, BALL)}
