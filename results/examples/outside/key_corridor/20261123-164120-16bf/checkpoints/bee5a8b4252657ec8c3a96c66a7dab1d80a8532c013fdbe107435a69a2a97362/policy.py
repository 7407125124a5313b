"""Map what is seen; explore to the key; unlock; drop the key; take the ball."""

import json
from pathlib import Path

import numpy as np

from belief import BIG, MID, Belief
from grid import (BALL, CLOSED, DOOR, DROP, EMPTY, FLOOR, FORWARD, KEY, LEFT, LOCKED, NOTHING, PICKUP, STEP, TOGGLE,
                  Map)

PARAMETERS = json.loads((Path(__file__).parent / "parameters.json").read_text())


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.map = Map()
        self.last = None
        self.t = 0
        self.belief = None

    def reset(self, episode_index):
        self.belief = Belief(int(PARAMETERS["samples"]), np.random.default_rng(0))

    def act(self, obs):
        m = self.map
        if self.last == FORWARD and m.walkable(m.front()):
            m.pos = m.front()
        if self.last == PICKUP and self.t:
            m.cells.pop(m.front(), None)
        m.see(obs["image"], obs["direction"])
        self.last = self.choose()
        self.t += 1
        return self.last

    # what to do
    def choose(self):
        m = self.map
        dist, first = m.distances()
        ball = self.find(BALL)
        if ball is not None and self.approach(ball, dist) is not None:
            if m.carrying:
                return self.get_rid(dist, first)
            return self.go_and(ball, PICKUP, dist, first)
        key = self.find(KEY)
        if m.carrying:
            locked = self.find_locked()
            if locked is not None and self.approach(locked, dist) is not None:
                return self.go_and(locked, TOGGLE, dist, first)
        elif key is not None and self.approach(key, dist) is not None and not self.unlocked():
            return self.go_and(key, PICKUP, dist, first)
        return self.explore(dist, first)

    def find(self, kind):
        return next((at for at, c in self.map.cells.items() if c[0] == kind), None)

    def find_locked(self):
        return next((at for at, c in self.map.cells.items() if c[0] == DOOR and c[2] == LOCKED), None)

    def unlocked(self):
        return getattr(self, "was_unlocked", False)

    def approach(self, at, dist):
        """The nearest pose that faces a cell."""
        poses = [(at[0] - STEP[d][0], at[1] - STEP[d][1], d) for d in range(4)]
        poses = [p for p in poses if p in dist]
        return min(poses, key=dist.get) if poses else None

    def go_and(self, at, action, dist, first):
        pose = self.approach(at, dist)
        if dist[pose] == 0:
            if action == TOGGLE and self.map.cells[at][2] == LOCKED:
                self.was_unlocked = True
            return action
        return first[pose]

    def get_rid(self, dist, first):
        """Drop the key where it is in no way: nearest empty cell ahead that does not cut off the ball."""
        m = self.map
        ball = self.find(BALL)
        best = None
        for pose, d in dist.items():
            x, y, o = pose
            ahead = (x + STEP[o][0], y + STEP[o][1])
            if m.cells.get(ahead, (0,))[0] != EMPTY or ahead == m.pos:
                continue
            total = d + 1 + self.after_drop(pose, ahead, ball)
            if best is None or total < best[0]:
                best = (total, pose)
        if best is None:
            return NOTHING
        return DROP if dist[best[1]] == 0 else first[best[1]]

    def after_drop(self, pose, blocked, ball):
        """Steps from a pose to face the ball, with the key lying in a cell."""
        m = self.map
        saved = m.pos, m.dir, m.cells[blocked]
        m.pos, m.dir = pose[:2], pose[2]
        m.cells[blocked] = (KEY, 0, 0)
        dist, _ = m.distances()
        target = self.approach(ball, dist)
        m.pos, m.dir, m.cells[blocked] = saved
        return 1e6 if target is None else dist[target]

    def explore(self, dist, first):
        m = self.map
        if not self.unlocked() and self.belief.update(m):
            best = self.belief.plan(m, PARAMETERS["horizon"])
            if best is not None and best[0] < BIG / 2:
                _, pose, toggle = best
                return TOGGLE if dist[pose] == 0 and toggle else first[pose]
        print(self.t, "no plan", len(self.belief.particles))
        best = None
        for pose, d in dist.items():
            x, y, o = pose
            ahead = (x + STEP[o][0], y + STEP[o][1])
            cell = m.cells.get(ahead)
            if cell is None:
                cost = d
            elif cell[0] == DOOR and cell[2] == CLOSED:
                cost = d + 1 + PARAMETERS["door_bias"] - (PARAMETERS["left_bias"] if o == 2 else 0)
            else:
                continue
            if best is None or cost < best[0]:
                best = (cost, pose, cell)
        if best is None:
            return LEFT
        _, pose, cell = best
        if dist[pose] == 0:
            return TOGGLE if cell is not None else FORWARD
        return first[pose]
