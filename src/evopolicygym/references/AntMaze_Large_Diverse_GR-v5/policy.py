"""Runs along corridors to the goal by the gait of the ant of Core16, sideways and backwards as well as forwards.

How it plays: the shortest way over the cells of the maze is found once, and the ant runs to the middle of one cell of
it after the other. It hardly turns: its four legs are alike, so the gait that runs along one axis of the trunk runs
along any of the four, if each leg plays the part of another. Near the goal it takes smaller steps, and stands there.
From what: the map, the size of its cells and the radius around the goal are in the simulator's source; the rhythm
and its steering are those of the reference for ant, which were found on train cases of that task.
What it lacks: it notices neither a wall that it leans on nor that it has fallen on its back, and the gait is not
tuned for curves.
"""

import math
from collections import deque
from typing import Any

import numpy as np
from gait import Gait, Vector

WALLS = (
    "############",
    "#    #     #",
    "# ## # # # #",
    "#      #   #",
    "# #### ### #",
    "#  # #     #",
    "## # # # ###",
    "#  #   #   #",
    "############",
)
CELL = 4.0
"""The side of a cell, m; the maze's middle is the origin."""
ARRIVED, NEAR = 1.3, 0.4
"""How near the middle of a cell the next one is headed for, and how near the goal the ant stands."""
BRAKING = 1.5
"""From this distance to the goal steps become smaller, m."""
DIRECTIONS = ((0, 1), (0, -1), (1, 0), (-1, 0))
LEGS, QUARTER = 4, math.pi / 2
ANKLE_SIGNS = np.array([1.0, -1.0, -1.0, 1.0])
"""Legs one and four bend their ankles by positive angles, the others by negative ones."""
FIRST = 2
"""The actions and the gait begin with leg four, the observation with leg one, after two of its joints."""
JOINTS, SPEEDS = slice(5, 13), slice(19, 27)
VELOCITY, TURNING = slice(13, 15), 18
HIPS = np.array([1.0, 0.0] * LEGS)
Cell = tuple[int, int]


class Policy(Gait):
    """A way through the maze, and a gait in any direction."""

    def reset(self, episode_index: int) -> None:
        """Start the clock; the way is not known yet."""
        super().reset(episode_index)
        self.way: deque[Vector] | None = None

    def act(self, obs: dict[str, Any]) -> Vector:
        """Return the torques."""
        here, goal, body = obs["achieved_goal"], obs["desired_goal"], obs["observation"]
        if self.way is None:
            self.way = deque([*map(middle, way(cell_of(here), cell_of(goal))[1:-1]), goal])
        while len(self.way) > 1 and math.dist(here, self.way[0]) < ARRIVED:
            self.way.popleft()
        ahead = self.way[0] - here
        left = float(np.hypot(*ahead))
        size = 1.0 if len(self.way) > 1 else min(1.0, left / BRAKING)
        if len(self.way) == 1 and left < NEAR:
            size = 0.0
        return self.torques(body, math.atan2(ahead[1], ahead[0]), size)

    def torques(self, body: Vector, course: float, size: float) -> Vector:
        """Return the torques that run on a course, with steps of a part of the usual size."""
        numbers = self.arrays
        facing = heading(body)
        quarters = round((course - facing) / QUARTER)
        error = wrapped(facing + quarters * QUARTER - course)
        across = np.array([-math.sin(course), math.cos(course)])
        steering = numbers["by_heading"] * error + numbers["by_turning"] * body[TURNING]
        steering += numbers["by_drift"] * float(body[VELOCITY] @ across)
        wanted = numbers["middle"] + size * (self.swung() - numbers["middle"])
        wanted += size * steering * HIPS
        played = np.roll(parts(np.roll(wanted, -FIRST)), 2 * quarters, axis=0)
        found = numbers["stiffness"] * (parts(played) - body[JOINTS]) - numbers["damping"] * body[SPEEDS]
        return np.asarray(np.clip(np.roll(found, FIRST), -1, 1))


def parts(joints: Vector) -> Vector:
    """Return the joints of legs one to four with the ankles' signs of the legs taken off, or put on again."""
    return joints * np.stack([np.ones(LEGS), ANKLE_SIGNS], axis=1).ravel()


def heading(body: Vector) -> float:
    """Return the angle about z by which the trunk is turned, from its quaternion."""
    w, x, y, z = body[1:5]
    return math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def wrapped(angle: float) -> float:
    """Return an angle between -pi and pi."""
    return (angle + math.pi) % (2 * math.pi) - math.pi


def cell_of(place: Vector) -> Cell:
    """Return row and column of a place."""
    rows, columns = len(WALLS), len(WALLS[0])
    return math.floor(rows / 2 - place[1] / CELL), math.floor(place[0] / CELL + columns / 2)


def middle(cell: Cell) -> Vector:
    """Return the middle of a cell."""
    rows, columns = len(WALLS), len(WALLS[0])
    return CELL * np.array([cell[1] + 0.5 - columns / 2, rows / 2 - cell[0] - 0.5])


def way(start: Cell, goal: Cell) -> list[Cell]:
    """Return the cells of a shortest way, both ends included."""
    before: dict[Cell, Cell] = {goal: goal}
    waiting = deque([goal])
    while waiting and start not in before:
        cell = waiting.popleft()
        for step in DIRECTIONS:
            beside = cell[0] + step[0], cell[1] + step[1]
            if WALLS[beside[0]][beside[1]] == " " and beside not in before:
                before[beside] = cell
                waiting.append(beside)
    found = [start]
    while found[-1] != goal and found[-1] in before:
        found.append(before[found[-1]])
    return found if found[-1] == goal else [start, goal]
