"""Looks for the stairs down on every level, takes them, and fights what stands in the way.

The map is read as glyphs, whose numbers are those of NetHack 3.6. What was never seen, beside a cell that can be walked
on, is what to go and see; the nearest such cell is gone to, doors are kicked where they are locked, and where all was
seen, dead ends and walls are searched for what is hidden. Each new level is worth 50 points by the game's source, and
what is defeated there more than above, so that going down pays best for as long as the hero lives. Monsters are hit by
walking into them, but for those whose touch harms; questions about peaceful ones are declined, and oranges, whose
letter is also that of a step, are eaten when the game says that the hero is hungry.

It lacks care for its life: it neither flees nor rests nor prays, wears and throws nothing, and is killed
or starves sooner or later.
"""

from collections import deque
from typing import Any

import numpy as np

MORE, DOWN, KICK, EAT, SEARCH = 0, 18, 20, 21, 22
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1), (-1, 1), (1, 1), (1, -1), (-1, -1))
"""Rows and columns of the actions 1 to 8."""
ROWS, COLUMNS = 21, 79
PETS, OBJECTS, CMAP, CMAP_END, BOULDER = 381, 1906, 2359, 2446, 1906 + 447
STONE = CMAP
DOORWAYS, CLOSED, CORRIDORS = (CMAP + 13, CMAP + 14), (CMAP + 15, CMAP + 16), (CMAP + 21, CMAP + 22)
STAIRS_DOWN = (CMAP + 24, CMAP + 26)
FLOORS = frozenset([CMAP + 12, *DOORWAYS, *range(CMAP + 19, CMAP + 32), CMAP + 33, CMAP + 35, CMAP + 36])
WALLS = frozenset(range(CMAP + 1, CMAP + 12))
GOOD_TRAPS = frozenset((CMAP + 54, CMAP + 55))
"""Holes and trap doors lead down."""
UNTOUCHABLE = frozenset((6, 9, 10, 28, 27, 55, 56, 156, 157, 158, 159))
"""Acid blob, cockatrices, floating eye, gas spore, jellies and moulds: touching them harms, and they hardly move."""
ORANGE_LETTER, ORANGE_ACTION = ord("h"), 4
HUNGRY, PEACEFUL_FOR, SEARCHES = 2, 30, 8
Cell = tuple[int, int]
Marks = np.ndarray[Any, Any]


def around(marked: Marks) -> Marks:
    """Return for each cell how many of the nine cells around it are marked."""
    padded = np.pad(marked.astype(int), 1)
    parts = [padded[row : row + ROWS, column : column + COLUMNS] for row in range(3) for column in range(3)]
    return np.sum(parts, axis=0)


class Level:
    """What is kept in mind of one level."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.ground = np.full((ROWS, COLUMNS), STONE)
        self.visited: set[Cell] = set()
        self.searched = np.zeros((ROWS, COLUMNS))
        self.failed: dict[tuple[Cell, Cell], int] = {}
        """Steps that led nowhere, with how often."""
        self.locked: set[Cell] = set()


class Policy:
    """Decides by the map of the level, and by what came of the last step."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Take what the contract gives; nothing of it is needed."""

    def reset(self, episode_index: int) -> None:
        """Begin a game."""
        self.levels: dict[tuple[int, int], Level] = {}
        self.tried: tuple[Cell, Cell, int] | None = None
        self.peaceful: dict[Cell, int] = {}
        self.asked_to_eat, self.searches, self.kicking = 0, 0, 0

    def act(self, obs: dict[str, Any]) -> int:
        """Return the next action."""
        stats = obs["blstats"]
        self.here, self.time = (int(stats[1]), int(stats[0])), int(stats[20])
        self.level = self.levels.setdefault((int(stats[23]), int(stats[24])), Level())
        message = bytes(obs["message"]).split(b"\0")[0].decode("latin-1")
        self.glyphs = obs["glyphs"].astype(int)
        if answer := self.answer(message, obs):
            return answer - 1
        self.learn(message)
        if int(stats[21]) >= HUNGRY and ORANGE_LETTER in obs["inv_letters"] and self.time > self.asked_to_eat:
            self.asked_to_eat = self.time
            return EAT
        return self.decide()

    def answer(self, message: str, obs: dict[str, Any]) -> int:
        """Return one more than the action that answers a question; 0 where none is asked."""
        if "Really attack" in message and self.tried:
            self.peaceful[self.tried[1]] = self.time + PEACEFUL_FOR
            return MORE + 1
        if "What do you want to eat" in message:
            oranges = [i for i, letter in enumerate(obs["inv_letters"]) if letter == ORANGE_LETTER]
            return (ORANGE_ACTION if oranges and obs["inv_oclasses"][oranges[0]] == 7 else MORE) + 1
        if "In what direction" in message:
            self.kicking, direction = 0, self.kicking
            return direction + 1
        return MORE + 1 if "eat it" in message or "--More--" in message else 0

    def learn(self, message: str) -> None:
        """Take the map into the level, and note a step that led nowhere."""
        level, glyphs = self.level, self.glyphs
        seen = (glyphs >= CMAP) & (glyphs < CMAP_END) & (glyphs != STONE)
        level.ground[seen] = glyphs[seen]
        covered = ~seen & (glyphs != STONE) & np.isin(level.ground, [STONE, *CLOSED])
        level.ground[covered] = CMAP + 19
        level.visited.add(self.here)
        if self.tried:
            start, end, time = self.tried
            if start == self.here:
                level.failed[start, end] = level.failed.get((start, end), 0) + (1 if self.time == time else 0)
                level.locked |= {end} if "locked" in message else set()
            self.tried = None

    def decide(self) -> int:
        """Return the next action: fight, go down, go on, search."""
        level = self.level
        self.unseen = around(level.ground == STONE)
        for action, (row, column) in enumerate(STEPS, 1):
            cell = self.here[0] + row, self.here[1] + column
            if self.is_foe(cell) and self.can_step(self.here, cell, fighting=True):
                return self.step(action, cell)
        if level.ground[self.here] in STAIRS_DOWN:
            return DOWN
        came_from = self.ways()
        for cell in came_from:
            if level.ground[cell] in STAIRS_DOWN:
                return self.toward(cell, came_from)
        for cell in came_from:
            if cell not in level.visited and self.is_edge(cell):
                return self.toward(cell, came_from)
        for cell in came_from:
            for action, (row, column) in enumerate(STEPS[:4], 1):
                door = cell[0] + row, cell[1] + column
                if level.ground[door] in CLOSED and level.failed.get((cell, door), 0) < 25:
                    return self.open(action, door) if cell == self.here else self.toward(cell, came_from)
        return self.search(came_from)

    def open(self, action: int, door: Cell) -> int:
        """Return the step into a closed door, or a kick where it is locked."""
        if door in self.level.locked:
            self.kicking = action
            self.level.failed[self.here, door] = self.level.failed.get((self.here, door), 0) + 1
            return KICK
        return self.step(action, door)

    def search(self, came_from: dict[Cell, Cell]) -> int:
        """Return the next action to find what is hidden: near dead ends and walls, where least was searched."""
        level, (row, column) = self.level, self.here
        if self.searches % SEARCHES == 0:
            blank = around(np.isin(level.ground, [STONE, *WALLS]))
            dead_end = np.isin(level.ground, CORRIDORS) & (around(np.isin(level.ground, list(FLOORS))) <= 2)
            cost = 3.0 * level.searched - blank - 15.0 * dead_end
            far = {cell: place / 20.0 for place, cell in enumerate(came_from)}
            chosen = min(came_from, key=lambda cell: cost[cell] + far[cell])
            if chosen != self.here:
                return self.toward(chosen, came_from)
        self.searches += 1
        level.searched[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2] += 1.0 / SEARCHES
        return SEARCH

    def is_foe(self, cell: Cell) -> bool:
        """Return whether a cell holds a monster to be hit."""
        if not (0 <= cell[0] < ROWS and 0 <= cell[1] < COLUMNS) or cell == self.here:
            return False
        glyph = int(self.glyphs[cell])
        return glyph < PETS and glyph not in UNTOUCHABLE and self.peaceful.get(cell, 0) < self.time

    def is_edge(self, cell: Cell) -> bool:
        """Return whether something beside a cell was never seen."""
        return bool(self.unseen[cell]) or OBJECTS <= self.glyphs[cell] < BOULDER

    def can_step(self, start: Cell, end: Cell, *, fighting: bool = False) -> bool:
        """Return whether a step may be tried."""
        level = self.level
        if not (0 <= end[0] < ROWS and 0 <= end[1] < COLUMNS):
            return False
        ground, glyph = level.ground[end], int(self.glyphs[end])
        if start[0] != end[0] and start[1] != end[1] and (ground in DOORWAYS or level.ground[start] in DOORWAYS):
            return False
        if fighting:
            return True
        if glyph < PETS and end != self.here and (glyph in UNTOUCHABLE or self.peaceful.get(end, 0) >= self.time):
            return False
        if level.failed.get((start, end), 0) >= (2 if glyph == BOULDER else 4):
            return False
        return ground in FLOORS or ground in GOOD_TRAPS

    def ways(self) -> dict[Cell, Cell]:
        """Return what can be reached, nearest first, with the cell before each."""
        came_from, queue = {self.here: self.here}, deque([self.here])
        while queue:
            cell = queue.popleft()
            for row, column in STEPS:
                end = cell[0] + row, cell[1] + column
                if end not in came_from and self.can_step(cell, end):
                    came_from[end] = cell
                    queue.append(end)
        return came_from

    def toward(self, cell: Cell, came_from: dict[Cell, Cell]) -> int:
        """Return the first step on the way to a cell."""
        while came_from[cell] != self.here:
            cell = came_from[cell]
        return self.step(STEPS.index((cell[0] - self.here[0], cell[1] - self.here[1])) + 1, cell)

    def step(self, action: int, cell: Cell) -> int:
        """Return a step, and keep in mind what it was to do."""
        self.tried = self.here, cell, self.time
        return action
