"""Does what a sentence of BabyAI's language asks for, one instruction after another, and explores for what it lacks.

The nine rooms of six by six cells always lie in the same way; which walls have doors is found out. A thing that was
moved keeps the cell where it lay at first, as "on your left" means where it was at the start, in the room of the start.
What is in the way is picked up and put aside, never opened, since a box that is opened is gone. Where nothing known is
left to be done, it looks where most unseen cells come into view for the steps, and where all in reach was seen, it
fetches the key of a locked door. How the map is kept and what can be seen from where is told in ``gridworld.py``, how a
sentence is read in ``sentence.py``.

It lacks a plan beyond the next instruction, and knowledge of where things likely are. If the episode goes on though all
seems done, it does all of it again; where it walks in circles, it makes a few moves at random.
"""

from collections import Counter
from typing import Any

import numpy as np
from gridworld import (
    BALL,
    BOX,
    DOOR,
    DROP,
    EMPTY,
    FORWARD,
    KEY,
    LEFT,
    LOCKED,
    OPEN,
    PICK_UP,
    RIGHT,
    STEPS,
    USE,
    Cell,
    Pose,
    Routes,
    Thing,
    Walker,
    ahead,
    best_view,
    poses_of,
)
from sentence import PUT, Instruction, NamedThing, read

ROOM, ROOMS = 7, 3
SIZE = ROOM * ROOMS + 1
PLAN = [
    "".join("#" if x % ROOM == y % ROOM == 0 else "." if x % ROOM and y % ROOM else "+" for x in range(1, SIZE - 1))
    for y in range(SIZE)
]
PLAN = ["#" * SIZE, *[f"#{row}#" for row in PLAN[1:-1]], "#" * SIZE]
WORTH = {".": 1.0, "+": 0.2}
SPREAD = SIZE - 1
CIRCLES, AT_RANDOM = 8, 6
"""Times that nothing new is seen at a pose before moves are made at random, and how many are."""


class Policy(Walker):
    """Keeps what is left to be done, and does the nearest of what may be done now."""

    plan = PLAN

    def reset(self, episode_index: int) -> None:
        """Forget the world and the sentence."""
        super().reset(episode_index)
        self.parts: list[list[Instruction]] = []
        self.origins: dict[Cell, Cell] = {}
        self.held_from: Cell = (0, 0)
        self.in_the_way: Cell | None = None
        self.last, self.turned, self.at_random = -1, -1, 0
        self.visits: Counter[tuple[Pose, int]] = Counter()
        self.generator = np.random.default_rng(0)

    def act(self, obs: dict[str, Any]) -> int:
        """Take what came of the last action, then return the next one."""
        world, held = self.world, self.world.carried
        self.turned = int(obs["direction"]) if self.turned < 0 else self.turned
        world.see(obs)
        self.take_note(held)
        if not self.parts:
            self.parts = read(obs["mission"])
        self.last = self.decide()
        world.moved(self.last)
        return self.last

    def take_note(self, held: tuple[int, int] | None) -> None:
        """Keep where things were at first, and strike out what is done."""
        world, front = self.world, ahead(self.world.pose)
        picked = self.last == PICK_UP and held is None and world.carried is not None
        dropped = self.last == DROP and held is not None and world.carried is None
        opened = self.last == USE and world.cells.get(front, (0, 0, 0))[::2] == (DOOR, OPEN)
        if picked:
            self.held_from = self.origins.pop(front, front)
        elif dropped:
            self.origins[front] = self.held_from
        done = {
            "go to": lambda item: self.fits(front, item.what),
            "pick up": lambda item: picked and self.holds(item.what),
            "open": lambda item: opened and self.fits(front, item.what),
            PUT: lambda item: dropped and self.fits(front, item.what) and self.is_beside(front, item.beside),
        }
        while self.parts:
            self.parts[0] = [part for part in self.parts[0] if not done[part.verb](part)]
            if self.parts[0]:
                return
            self.parts.pop(0)

    def decide(self) -> int:
        """Return the next action; a few at random where the last ones led in a circle."""
        world = self.world
        self.visits[world.pose, hash((frozenset(world.cells.items()), world.carried))] += 1
        if max(self.visits.values()) > CIRCLES:
            self.visits.clear()
            self.at_random = AT_RANDOM
        if self.at_random:
            self.at_random -= 1
            return int(self.generator.choice((LEFT, RIGHT, FORWARD, FORWARD, DROP)))
        if self.in_the_way and world.cells[self.in_the_way][0] in (KEY, BALL, BOX):
            return self.go(world.routes(world.rough_effort), poses_of([self.in_the_way]), PICK_UP)
        self.in_the_way = None
        options = [self.next_things(part) for part in self.parts[0]]
        for effort in (world.effort, world.rough_effort):
            routes = world.routes(effort)
            cost, poses, action = min((routes.cost(poses), poses, action) for poses, action in options)
            if cost < float("inf"):
                return self.go(routes, poses, action)
        return self.explore(world.routes(world.effort), routes)

    def explore(self, clear: Routes, rough: Routes) -> int:
        """Return the next action to see more: where the way is clear, then behind a locked door, then past things."""
        world = self.world
        unseen = world.unseen(self.worth, SPREAD)
        if pose := best_view(world, clear, unseen, 0.05):
            return self.go(clear, [pose], RIGHT)
        poses, action = self.unlocking(world.find(DOOR, state=LOCKED))
        for routes in (clear, rough):
            if routes.nearest(poses):
                return self.go(routes, poses, action)
        pose = best_view(world, rough, unseen, 0.05)
        return self.go(rough, [pose], RIGHT) if pose else RIGHT

    def go(self, routes: Routes, poses: list[Pose], action: int) -> int:
        """Return the next action on the way to the nearest pose, or what is to be done there."""
        world, pose = self.world, min(set(poses) & routes.costs.keys(), key=routes.costs.__getitem__)
        way = [step[:2] for step, _ in routes.way(pose)]
        lying = [cell for cell in way if world.cells.get(cell, (0,))[0] in (KEY, BALL, BOX)]
        if world.carried and (lying or action == PICK_UP):
            self.in_the_way = lying[0] if lying else self.in_the_way
            return world.put_down(world.routes(world.effort), poses)
        if pose == world.pose:
            return action
        move = world.toward(routes, pose)
        return PICK_UP if move == USE and world.cells[ahead(world.pose)][0] == BOX else move

    def next_things(self, instruction: Instruction) -> tuple[list[Pose], int]:
        """Return the poses at which the next action of an instruction is done, with the action."""
        world = self.world
        found = [cell for cell in world.cells if self.fits(cell, instruction.what)]
        if instruction.verb == "open":
            shut = [door for door in found if world.cells[door][2] == LOCKED]
            return self.unlocking(shut) if len(shut) == len(found) else (poses_of(set(found) - set(shut)), USE)
        if self.holds(instruction.what) and (instruction.verb == PUT or not found):
            empty = world.find(EMPTY)
            if instruction.verb == PUT:
                empty = [cell for cell in empty if self.is_beside(cell, instruction.beside)]
            return poses_of(empty), DROP
        if instruction.verb == PUT and not any(self.fits(cell, instruction.beside) for cell in world.cells):
            return [], DROP
        return poses_of(found), RIGHT if instruction.verb == "go to" else PICK_UP

    def unlocking(self, doors: list[Cell]) -> tuple[list[Pose], int]:
        """Return where and how a locked door is opened, or its key is got."""
        world = self.world
        ready = [door for door in doors if world.carried == (KEY, world.cells[door][1])]
        if ready:
            return poses_of(ready), USE
        return poses_of([key for door in doors for key in world.find(KEY, world.cells[door][1])]), PICK_UP

    def fits(self, cell: Cell, what: NamedThing | None) -> bool:
        """Return whether a cell is known to hold what a description says."""
        thing = self.world.cells.get(cell)
        return bool(thing and what) and self.is_meant(thing, self.origins.get(cell, cell), what)

    def holds(self, what: NamedThing) -> bool:
        """Return whether what is in hand fits a description."""
        held = self.world.carried
        return held is not None and self.is_meant((*held, 0), self.held_from, what)

    def is_beside(self, cell: Cell, what: NamedThing | None) -> bool:
        """Return whether a cell lies beside one that fits a description."""
        return any(self.fits((cell[0] + x, cell[1] + y), what) for x, y in STEPS)

    def is_meant(self, thing: Thing, origin: Cell, what: NamedThing) -> bool:
        """Return whether a thing is what a description says, by its kind, its colour and where it was at first."""
        if thing[0] != what.kind or what.colour not in (None, thing[1]):
            return False
        if what.side is None:
            return True
        zero = self.world.cell_of(0, 0)
        for place, start in zip((origin[0] - zero[0], origin[1] - zero[1]), (-zero[0], -zero[1]), strict=True):
            if not 0 <= place - start // ROOM * ROOM <= ROOM:
                return False
        (fx, fy), (x, y) = STEPS[self.turned], origin
        front, right = x * fx + y * fy, y * fx - x * fy
        return {"front": front, "behind": -front, "right": right, "left": -right}[what.side] > 0

    def worth(self, cell: Cell) -> float:
        """Return what it is worth to see a cell."""
        return sum(WORTH.get(mark, 0.0) * likelihood for mark, likelihood in self.world.mark(cell).items())
