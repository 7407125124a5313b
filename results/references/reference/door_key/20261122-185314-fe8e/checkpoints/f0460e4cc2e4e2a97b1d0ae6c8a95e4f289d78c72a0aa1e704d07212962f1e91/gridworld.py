"""A remembered map of a MiniGrid world: seeing, routes between poses, and where to look next.

A world's *plan* is what is known of it beforehand, drawn in text: ``#`` is always wall, ``+``, ``=`` and ``-`` have few
gaps or doors, ``~`` is seldom wall, and any other mark is neither wall nor door. ``s`` marks where the agent may start;
where there is none, it may wherever there is no wall. Positions are relative to the start, x to the right and y down;
which place of the plan that is, ``World`` works out from what it sees. What is to be done in a world is not told here
but in each environment's ``policy.py``.
"""

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

Cell = tuple[int, int]
Pose = tuple[int, int, int]
"""x, y and the direction faced."""
Thing = tuple[int, int, int]
"""Object, colour and state, as in an observation's image."""

LEFT, RIGHT, FORWARD, PICK_UP, DROP, USE = range(6)
EMPTY, WALL, FLOOR, DOOR, KEY, BALL, BOX, GOAL = range(1, 9)
OPEN, CLOSED, LOCKED = range(3)
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
STEPS: tuple[Cell, ...] = ((1, 0), (0, 1), (-1, 0), (0, -1))
VIEW, SIDE = 7, 3
"""Cells that the view is wide and deep, and those to each side of the agent."""
STRIDE, ORIGIN = 64, 32
"""A set of cells is one whole number: bit (y + ORIGIN) * STRIDE + x + ORIGIN stands for the cell x, y."""
OPENNESS = {"#": 0.0, "+": 0.15, "=": 0.15, "-": 0.15, "~": 0.9}
"""How likely a mark of the plan is no wall; every other mark never is one."""
PUT_DOWN_WITHIN, FAR = 9.0, 500.0
"""Steps within which a place to put a thing down is looked for, and those that stand for no way at all."""
OBSTACLE_EFFORT = 8.0
"""About the steps that it takes to put a thing out of the way."""
_MIRRORED = tuple(int(f"{row:07b}"[::-1], 2) for row in range(1 << VIEW))
_UPRIGHT = tuple(sum((row >> i & 1) << (STRIDE * i) for i in range(VIEW)) for row in range(1 << VIEW))


def bit(cell: Cell) -> int:
    """Return the set that holds one cell."""
    return 1 << ((cell[1] + ORIGIN) * STRIDE + cell[0] + ORIGIN)


def ahead(pose: Pose) -> Cell:
    """Return the cell that a pose faces."""
    step = STEPS[pose[2]]
    return pose[0] + step[0], pose[1] + step[1]


def around(cell: Cell) -> Iterator[Pose]:
    """Yield the four poses that face a cell."""
    for direction, step in enumerate(STEPS):
        yield cell[0] - step[0], cell[1] - step[1], direction


@dataclass(frozen=True, slots=True)
class Routes:
    """The shortest ways from one pose to all that can be reached; poses come nearest first."""

    start: Pose
    costs: Mapping[Pose, float]
    parents: Mapping[Pose, tuple[Pose, int]]

    def nearest(self, poses: Iterable[Pose]) -> Pose | None:
        """Return the pose that is reached with least effort; None where none can be."""
        return min((pose for pose in poses if pose in self.costs), key=self.costs.__getitem__, default=None)

    def cost(self, poses: Iterable[Pose]) -> float:
        """Return the effort to the nearest of some poses; infinite where none can be reached."""
        nearest = self.nearest(poses)
        return float("inf") if nearest is None else self.costs[nearest]

    def way(self, pose: Pose) -> list[tuple[Pose, int]]:
        """Return the poses up to one, the start left out, each with the move that leads to it."""
        found = []
        while pose != self.start:
            parent, move = self.parents[pose]
            found.append((pose, move))
            pose = parent
        return found[::-1]


@dataclass(slots=True)
class World:
    """What is known of a world in one episode."""

    plan: Sequence[str]
    cells: dict[Cell, Thing] = field(default_factory=dict)
    pose: Pose = (0, 0, 0)
    carried: tuple[int, int] | None = None
    """Object and colour."""
    places: dict[Cell, float] = field(default_factory=dict)
    """Where in the plan the start may be, with a likelihood each."""
    _marks: dict[Cell, dict[str, float]] = field(default_factory=dict)
    _views: dict[Pose, int] = field(default_factory=dict)
    _lines: tuple[list[int], list[int]] | None = None

    def __post_init__(self) -> None:
        """Allow every start that the plan allows."""
        spots = {(x, y): mark for y, row in enumerate(self.plan) for x, mark in enumerate(row) if mark != "#"}
        starts = [spot for spot, mark in spots.items() if mark == "s"]
        self.places = {spot: OPENNESS.get(spots[spot], 1.0) for spot in starts or spots}

    def see(self, obs: Mapping[str, Any]) -> None:
        """Take an observation into the map."""
        x, y, direction = *self.pose[:2], int(obs["direction"])
        self.pose = (x, y, direction)
        image = obs["image"].tolist()
        (fx, fy), (rx, ry) = STEPS[direction], STEPS[(direction + 1) % 4]
        news: dict[Cell, Thing] = {}
        for i in range(VIEW):
            for j in range(VIEW):
                depth, side = VIEW - 1 - j, i - SIDE
                cell = (x + depth * fx + side * rx, y + depth * fy + side * ry)
                thing = tuple(image[i][j])
                if thing[0] and (depth or side) and self.cells.get(cell) != thing:
                    news[cell] = thing
        hands = image[SIDE][VIEW - 1]
        self.carried = (hands[0], hands[1]) if hands[0] in (KEY, BALL, BOX) else None
        if self.cells.get((x, y), (0,))[0] not in (DOOR, EMPTY):
            news[x, y] = (EMPTY, 0, 0)
        if news:
            self._locate({cell: thing for cell, thing in news.items() if cell not in self.cells})
            self.add(news)

    def add(self, news: Mapping[Cell, Thing]) -> None:
        """Take cells into the map that were seen, or can't be otherwise."""
        self.cells |= news
        self._views, self._lines = {}, None

    def moved(self, action: int) -> None:
        """Take note of an action that will be done now."""
        cell = ahead(self.pose)
        if action == FORWARD and self.enterable(cell):
            self.pose = (*cell, self.pose[2])

    def enterable(self, cell: Cell) -> bool:
        """Return whether a step into a known cell succeeds now."""
        thing = self.cells.get(cell, (WALL, 0, 0))
        return thing[0] in (EMPTY, FLOOR, GOAL) or (thing[0] == DOOR and thing[2] == OPEN)

    def find(self, kind: int, colour: int | None = None, state: int | None = None) -> list[Cell]:
        """Return the known cells with a kind of thing."""
        return [
            cell
            for cell, thing in self.cells.items()
            if thing[0] == kind and colour in (None, thing[1]) and state in (None, thing[2])
        ]

    def mark(self, cell: Cell) -> dict[str, float]:
        """Return how likely each mark of the plan is at a cell; beyond the plan is wall."""
        if cell not in self._marks:
            found: dict[str, float] = {}
            for start, likelihood in self.places.items():
                mark = self.drawn(cell, start)
                found[mark] = found.get(mark, 0.0) + likelihood
            whole = sum(found.values()) or 1.0
            self._marks[cell] = {mark: likelihood / whole for mark, likelihood in found.items()}
        return self._marks[cell]

    def drawn(self, cell: Cell, start: Cell) -> str:
        """Return the plan's mark at a cell where the start is at a place of the plan."""
        x, y = cell[0] + start[0], cell[1] + start[1]
        return self.plan[y][x] if 0 <= y < len(self.plan) and 0 <= x < len(self.plan[y]) else "#"

    def openness(self, cell: Cell) -> float:
        """Return how likely an unseen cell is no wall."""
        return sum(OPENNESS.get(mark, 1.0) * likelihood for mark, likelihood in self.mark(cell).items())

    def cell_of(self, column: int, row: int) -> Cell:
        """Return the cell that a place of the plan most likely is."""
        start = max(self.places, key=self.places.__getitem__)
        return column - start[0], row - start[1]

    def effort(self, cell: Cell) -> float | None:
        """Return the steps into a cell, doors opened with what is carried; None where something is in the way."""
        thing = self.cells.get(cell)
        if thing is None:
            return 1.0 if self.openness(cell) > 0.5 else None
        if thing[0] == DOOR and thing[2] != OPEN:
            return 2.0 if thing[2] == CLOSED or self.carried == (KEY, thing[1]) else None
        return 1.0 if thing[0] in (EMPTY, FLOOR, GOAL, DOOR) else None

    def rough_effort(self, cell: Cell) -> float | None:
        """Return the steps into a cell where things may be put out of the way."""
        thing = self.cells.get(cell)
        return OBSTACLE_EFFORT if thing and thing[0] in (KEY, BALL, BOX) else self.effort(cell)

    def toward(self, routes: Routes, pose: Pose) -> int:
        """Return the next action on the way to a pose, which opens doors and picks up what is in the way."""
        move = routes.way(pose)[0][1]
        thing = self.cells.get(ahead(self.pose), (EMPTY, 0, 0))
        if move != FORWARD or self.enterable(ahead(self.pose)):
            return move
        return USE if thing[0] in (DOOR, BOX) else PICK_UP

    def put_down(self, routes: Routes, target: Collection[Pose], avoided: Collection[Cell] = ()) -> int:
        """Return the next action that puts down what is carried, where that costs least on the way to a target."""
        best, chosen = float("inf"), None
        for pose, effort in routes.costs.items():
            cell = ahead(pose)
            if effort >= min(best, PUT_DOWN_WITHIN) or cell in avoided or cell == self.pose[:2]:
                continue
            if self.cells.get(cell, (0,))[0] != EMPTY or any(
                self.cells.get(ahead((*cell, direction)), (0,))[0] == DOOR for direction in range(4)
            ):
                continue
            whole = effort + min(self.routes(self._around(cell), pose).cost(target), FAR)
            if whole < best:
                best, chosen = whole, pose
        if chosen is None or chosen == self.pose:
            return DROP
        return self.toward(routes, chosen)

    def _around(self, taken: Cell) -> Callable[[Cell], float | None]:
        """Return the steps into cells, where one of them is taken."""
        return lambda cell: None if cell == taken else self.rough_effort(cell)

    def routes(self, cost: Callable[[Cell], float | None], start: Pose | None = None) -> Routes:
        """Return the shortest ways; ``cost`` says what entering a cell takes, None for what can't be entered."""
        origin = start or self.pose
        costs, parents, done = {origin: 0.0}, {}, {}
        queue: list[tuple[float, Pose]] = [(0.0, origin)]
        while queue:
            effort, pose = heapq.heappop(queue)
            if pose in done:
                continue
            done[pose] = effort
            x, y, direction = pose
            moves = [((x, y, (direction - 1) % 4), LEFT, 1.0), ((x, y, (direction + 1) % 4), RIGHT, 1.0)]
            if (entering := cost(ahead(pose))) is not None:
                moves.append(((*ahead(pose), direction), FORWARD, entering))
            for other, move, more in moves:
                if effort + more < costs.get(other, float("inf")):
                    costs[other], parents[other] = effort + more, (pose, move)
                    heapq.heappush(queue, (effort + more, other))
        return Routes(origin, done, parents)

    def unseen(self, worth: Callable[[Cell], float], spread: int) -> dict[int, float]:
        """Return the sets of unseen cells of equal worth, as far as ``spread`` around what is known."""
        xs, ys = [x for x, _ in self.cells], [y for _, y in self.cells]
        found: dict[float, int] = {}
        for x in range(min(xs) - spread, max(xs) + spread + 1):
            for y in range(min(ys) - spread, max(ys) + spread + 1):
                if (x, y) not in self.cells and (value := round(worth((x, y)), 2)) > 0:
                    found[value] = found.get(value, 0) | bit((x, y))
        return {cells: value for value, cells in found.items()}

    def view(self, pose: Pose) -> int:
        """Return the set of cells that would be seen from a pose, as far as can be told."""
        if pose not in self._views:
            self._views[pose] = self._look(pose)
        return self._views[pose]

    def _look(self, pose: Pose) -> int:
        x, y, direction = pose
        if self._lines is None:
            self._lines = self._clear_lines()
        upright, backward = direction in (0, 2), direction in (1, 2)
        along, across, sign = (x, y, 1 - direction) if upright else (y, x, 2 - direction)
        lines, left = self._lines[upright], across + ORIGIN - SIDE
        reached, seen = 1 << SIDE, 0
        for depth in range(VIEW):
            line = along + sign * depth + ORIGIN
            clear = lines[line] >> left & 127
            if backward:
                clear = _MIRRORED[clear]
            row, reached = _spread(reached, clear if depth else clear | 1 << SIDE)
            if backward:
                row = _MIRRORED[row]
            seen |= _UPRIGHT[row] << (left * STRIDE + line) if upright else row << (line * STRIDE + left)
        return seen

    def _clear_lines(self) -> tuple[list[int], list[int]]:
        """Return rows and columns as bits, set where a cell is taken to be seen through."""
        rows, columns = [0] * STRIDE, [0] * STRIDE
        xs, ys = [x for x, _ in self.cells], [y for _, y in self.cells]
        for x in range(min(xs) - VIEW, max(xs) + VIEW + 1):
            for y in range(min(ys) - VIEW, max(ys) + VIEW + 1):
                if self._clear((x, y)):
                    rows[y + ORIGIN] |= 1 << (x + ORIGIN)
                    columns[x + ORIGIN] |= 1 << (y + ORIGIN)
        return rows, columns

    def _clear(self, cell: Cell) -> bool:
        thing = self.cells.get(cell)
        if thing is None:
            return self.openness(cell) > 0.5
        return thing[0] != WALL and (thing[0] != DOOR or thing[2] == OPEN)

    def _locate(self, news: Mapping[Cell, Thing]) -> None:
        """Weigh where the start may be by what was seen for the first time."""
        rows, height = self.plan, len(self.plan)
        kept = {}
        for (ox, oy), prior in self.places.items():
            likelihood = prior
            for (x, y), thing in news.items():
                row, column = y + oy, x + ox
                mark = rows[row][column] if 0 <= row < height and 0 <= column < len(rows[row]) else "#"
                openness = OPENNESS.get(mark, 1.0)
                likelihood *= 1.0 - openness if thing[0] == WALL else openness
                if thing[0] == DOOR and openness == 1.0:
                    likelihood = 0.0
                if not likelihood:
                    break
            if likelihood:
                kept[ox, oy] = likelihood
        whole = max(kept.values(), default=0.0)
        places = {place: likelihood / whole for place, likelihood in kept.items()}
        if places and places != self.places:
            self.places, self._marks = places, {}


@cache
def _spread(reached: int, clear: int) -> tuple[int, int]:
    """Return what is seen of one row of the view, and what of the row behind it can be; as MiniGrid has it."""
    behind = 0
    for i in range(VIEW - 1):
        if reached & clear & 1 << i:
            reached |= 1 << (i + 1)
            behind |= 0b11 << i
    for i in range(VIEW - 1, 0, -1):
        if reached & clear & 1 << i:
            reached |= 1 << (i - 1)
            behind |= 0b11 << (i - 1)
    return reached, behind


def best_view(world: World, routes: Routes, unseen: Mapping[int, float], least: float = 0.5) -> Pose | None:
    """Return the pose on the way to which most unseen worth is seen for the effort; None where there is nothing."""
    return max(ranked_views(world, routes, unseen, least), default=(0.0, None))[1]


def ranked_views(
    world: World, routes: Routes, unseen: Mapping[int, float], least: float = 0.5
) -> list[tuple[float, Pose]]:
    """Return poses with the worth that is seen on the way to each for its effort."""
    everything = 0
    for cells in unseen:
        everything |= cells
    seen: dict[Pose, int] = {}
    found = []
    for pose, effort in routes.costs.items():
        before = seen[routes.parents[pose][0]] if pose != routes.start else 0
        now = seen[pose] = before | (world.view(pose) & everything)
        if now != before and effort:
            gain = sum(value * (now & cells).bit_count() for cells, value in unseen.items())
            if gain >= least:
                found.append((gain / (effort + 1.0), pose))
    return found


def poses_of(cells: Collection[Cell]) -> list[Pose]:
    """Return all poses that face one of some cells."""
    return [pose for cell in cells for pose in around(cell)]


def poses_on(cell: Cell) -> list[Pose]:
    """Return all poses on a cell."""
    return [(*cell, direction) for direction in range(4)]


class Walker:
    """What policies of these worlds share: a world that is kept in mind, and seen before each decision."""

    plan: Sequence[str]
    """Of the environment's worlds."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Take what the contract gives; nothing of it is needed."""

    def reset(self, episode_index: int) -> None:
        """Forget the world."""
        self.world = World(self.plan)

    def act(self, obs: dict[str, Any]) -> int:
        """Return the next move."""
        self.world.see(obs)
        action = self.decide()
        self.world.moved(action)
        return action

    def decide(self) -> int:
        """Return the action that is to be taken now."""
        raise NotImplementedError
