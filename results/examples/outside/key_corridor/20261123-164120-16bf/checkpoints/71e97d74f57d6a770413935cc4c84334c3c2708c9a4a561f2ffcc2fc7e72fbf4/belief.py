"""What the whole place may look like, given what was seen: a 3x3 of 2x2 rooms, the middle column an open corridor,
the left column holding the key, the right column the locked room. Samples of it, and plans by their mean cost."""

from itertools import permutations

import numpy as np

from grid import CLOSED, DOOR, KEY, LOCKED, OPEN, STEP, TOGGLE, WALL

SIZE, MID = 13, 6  # relative coordinates -6..6
BIG = 1e4
# edges: 0-2 left room to corridor, 3-4 between left rooms, 5-7 corridor to right room, 8-9 between right rooms
EDGES = [("L", 0), ("L", 1), ("L", 2), ("VL", 0), ("VL", 1), ("R", 0), ("R", 1), ("R", 2), ("VR", 0), ("VR", 1)]


def edge_cells(kind, row):
    """The two cells in which the door of an edge may be."""
    rows, wall = (3 * row + 1, 3 * row + 2), 3 * row + 3
    return {"L": [(3, y) for y in rows], "R": [(6, y) for y in rows],
            "VL": [(x, wall) for x in (1, 2)], "VR": [(x, wall) for x in (7, 8)]}[kind]


CELLS = [edge_cells(*e) for e in EDGES]
ROOM = [[(x, y) for y in (3 * r + 1, 3 * r + 2) for x in (1, 2)] for r in range(3)]


def joins(edge, locked):
    """The rooms that an edge joins (0-2 left, 3 corridor, 4-6 right), None where it can't have a common door."""
    kind, row = EDGES[edge]
    if kind == "L":
        return row, 3
    if kind == "VL":
        return row, row + 1
    if kind == "R":
        return None if row == locked else (3, 4 + row)
    return None if locked in (row, row + 1) else (4 + row, 5 + row)


def connected(edges, locked):
    seen, todo = {3}, [3]
    links = [joins(e, locked) for e in edges]
    while todo:
        a = todo.pop()
        for x, y in links:
            for p, q in ((x, y), (y, x)):
                if p == a and q not in seen:
                    seen.add(q)
                    todo.append(q)
    return len(seen) == 6


def edge_prior():
    """(locked row, set of edges, probability): doors are added at random until all is connected."""
    out = []
    for locked in range(3):
        able = [e for e in range(10) if joins(e, locked) is not None]
        level = {frozenset(): 1 / 3}
        while level:
            nexts = {}
            for s, p in level.items():
                if connected(s, locked):
                    out.append((locked, s, p))
                    continue
                rest = [e for e in able if e not in s]
                for e in rest:
                    nexts[s | {e}] = nexts.get(s | {e}, 0) + p / len(rest)
            level = nexts
    return out


def template():
    """Cells that are certain, in absolute coordinates: True for wall, False for not wall; doors' cells are left out."""
    t = {(x, y): x % 3 == 0 or y % 3 == 0 and not 4 <= x <= 5 or y in (0, 9) for x in range(10) for y in range(10)}
    for cells in CELLS:
        for c in cells:
            del t[c]
    return t


TEMPLATE, PRIOR = template(), edge_prior()
HASH = np.random.default_rng(7).integers(1, 2**40, size=49)


class Belief:
    def __init__(self, count, rng):
        self.count, self.rng = count, rng
        self.particles = []

    # samples
    def update(self, m):
        self.particles = [p for p in self.particles if self.fits(p, m)]
        if len(self.particles) < self.count // 2:
            self.particles += self.sample(m, self.count - len(self.particles))
        return bool(self.particles)

    def fits(self, p, m):
        for at, cell in m.cells.items():
            kind = p["cells"].get(at)
            if kind is None:
                return False
            if cell[0] == DOOR:
                if kind not in ("door", "locked") or (cell[2] == LOCKED) != (kind == "locked"):
                    return False
            elif (cell[0] == WALL) != (kind == "wall"):
                return False
            elif kind in ("door", "locked"):
                return at == m.pos
            if not m.carrying and (cell[0] == KEY) != (at == p["key"]):
                return False
        return True

    def sample(self, m, n):
        options, weights = [], []
        for ox in (4, 5):
            for oy in (3, 4, 5, 6):
                seen = {(x + ox, y + oy): c for (x, y), c in m.cells.items()}
                self.weigh_offset((ox, oy), seen, m, options, weights)
        if not options:
            return []
        weights = np.array(weights)
        picks = self.rng.choice(len(options), size=n, p=weights / weights.sum())
        return [self.build(*options[k]) for k in picks]

    def weigh_offset(self, offset, seen, m, options, weights):
        for at, c in seen.items():
            if not (0 <= at[0] <= 9 and 0 <= at[1] <= 9):
                return
            if at in TEMPLATE and TEMPLATE[at] != (c[0] == WALL):
                return
        without, common, lock = [], [], []  # of each edge: is no door possible, which places of a door are
        for cells in CELLS:
            what = [seen.get(c) for c in cells]
            doors = [k for k in (0, 1) if what[k] is not None and what[k][0] != WALL]
            walls = [k for k in (0, 1) if what[k] is not None and what[k][0] == WALL]
            places = doors or [k for k in (0, 1) if k not in walls]
            is_locked = any(what[k][0] == DOOR and what[k][2] == LOCKED for k in doors)
            without.append(not doors)
            common.append([] if is_locked else places)
            lock.append(places if is_locked or not doors else [])
        keys = [at for at, c in seen.items() if c[0] == KEY]
        if m.carrying:
            keys = [None]
        elif not keys:
            keys = [c for room in ROOM for c in room if c not in seen]
        elif keys[0] not in [c for room in ROOM for c in room]:
            keys = []
        if not keys:
            return
        for locked, edges, p in PRIOR:
            w = p * len(lock[5 + locked])
            for e in range(10):
                if e == 5 + locked:
                    continue
                w *= len(common[e]) / 2 if e in edges else without[e]
            if w > 0:
                options.append((offset, locked, edges, common, lock, keys))
                weights.append(w * len(keys))

    def build(self, offset, locked, edges, common, lock, keys):
        cells = {at: "wall" if wall else "empty" for at, wall in TEMPLATE.items()}
        doors = {}
        for e in range(10):
            for c in CELLS[e]:
                cells[c] = "wall"
            if e in edges:
                doors[e] = CELLS[e][self.rng.choice(common[e])]
                cells[doors[e]] = "door"
        at = CELLS[5 + locked][self.rng.choice(lock[5 + locked])]
        cells[at] = "locked"
        key = keys[self.rng.integers(len(keys))]
        ox, oy = offset
        move = lambda c: None if c is None else (c[0] - ox, c[1] - oy)  # noqa: E731
        return {"cells": {move(c): k for c, k in cells.items()}, "key": move(key), "locked": move(at),
                "doors": {e: move(c) for e, c in doors.items() if e < 5},
                "key_room": None if key is None else (key[1] - 1) // 3}

    # values
    def arrays(self, m):
        """Cost of entering, and opacity, of each cell in each sample, with doors as they are known to stand."""
        n = len(self.particles)
        enter = np.full((n, SIZE, SIZE), BIG, np.float32)
        code = np.zeros((n, SIZE, SIZE), np.int64)
        for k, p in enumerate(self.particles):
            for (x, y), kind in p["cells"].items():
                known = m.cells.get((x, y))
                is_open = kind == "door" and known is not None and (known[0] != DOOR or known[2] == OPEN)
                enter[k, x + MID, y + MID] = {"wall": BIG, "locked": BIG, "empty": 1,
                                              "door": 1 if is_open else 2}[kind]
                code[k, x + MID, y + MID] = {"wall": 1, "locked": 2, "empty": 3, "door": 4 if is_open else 5}[kind]
        return enter, code

    @staticmethod
    def relax(value, enter):
        """Least cost of each pose, from the values at which one may stop; array (sample, direction, x, y)."""
        for _ in range(200):
            old = value.copy()
            for d in range(4):
                dx, dy = STEP[d]
                ahead = np.full(enter.shape, BIG, np.float32)
                xs, xt = slice(max(0, -dx), SIZE - max(0, dx)), slice(max(0, dx), SIZE - max(0, -dx))
                ys, yt = slice(max(0, -dy), SIZE - max(0, dy)), slice(max(0, dy), SIZE - max(0, -dy))
                ahead[:, xs, ys] = (enter + value[:, d])[:, xt, yt]
                value[:, d] = np.minimum(np.minimum(value[:, d], ahead),
                                         1 + np.minimum(value[:, (d + 1) % 4], value[:, (d + 3) % 4]))
            if np.array_equal(old, value):
                break
        return value

    def to_unlock(self, enter):
        value = np.full((len(enter), 4, SIZE, SIZE), BIG, np.float32)
        for k, p in enumerate(self.particles):
            x, y = p["locked"]
            value[k, 0, x - 1 + MID, y + MID] = 1
        return self.relax(value, enter)

    def to_key(self, enter, unlock):
        value = np.full_like(unlock, BIG)
        enter = enter.copy()
        for k, p in enumerate(self.particles):
            x, y = p["key"]
            enter[k, x + MID, y + MID] = BIG
            for d, (dx, dy) in enumerate(STEP):
                value[k, d, x - dx + MID, y - dy + MID] = 1 + unlock[k, d, x - dx + MID, y - dy + MID]
        return self.relax(value, enter)

    def to_inspect(self, rooms, after, enter):
        """First look into rooms[k] in sample k (None: not needed), then go on as `after` says.

        A key in the way does not count: who comes upon it has found it."""
        value = np.full_like(after, BIG)
        for k, (p, room) in enumerate(zip(self.particles, rooms, strict=True)):
            if room is None:
                value[k] = after[k]
                continue
            for e, (x, y) in p["doors"].items():
                kind, row = EDGES[e]
                sides = [2] if kind == "L" and row == room else []
                if kind == "VL":
                    sides = [1] if row + 1 == room else [3] if row == room else []
                for d in sides:
                    at = x - STEP[d][0] + MID, y - STEP[d][1] + MID
                    toggle = 1 if enter[k, x + MID, y + MID] == 2 else 0
                    value[k, d, at[0], at[1]] = toggle + after[k, d, at[0], at[1]]
        return self.relax(value, enter)

    def values(self, m, enter):
        """Cost to come in each sample under each order of looking into rooms: (order, sample, direction, x, y)."""
        unlock = self.to_unlock(enter)
        if m.carrying:
            return unlock[None]
        key = self.to_key(enter, unlock)
        rooms = sorted({p["key_room"] for p in self.particles})
        done = {(): key}
        out = []
        for order in permutations(rooms):
            total = np.empty_like(key)
            for k, p in enumerate(self.particles):
                before = order[:order.index(p["key_room"])]
                if before not in done:
                    done[before] = self.after_looking(before, done, enter)
                total[k] = done[before][k]
            out.append(total)
        return np.stack(out)

    def after_looking(self, before, done, enter):
        if before[1:] not in done:
            done[before[1:]] = self.after_looking(before[1:], done, enter)
        rooms = [None if p["key_room"] in before else before[0] for p in self.particles]
        return self.to_inspect(rooms, done[before[1:]], enter)

    def grip(self, m, key, dist):
        """The pose from which to take a key that is seen: the way there and the mean way on to the locked door."""
        enter, _ = self.arrays(m)
        unlock = self.to_unlock(enter).mean(axis=0)
        poses = [(key[0] - dx, key[1] - dy, d) for d, (dx, dy) in enumerate(STEP)]
        return min((p for p in poses if p in dist),
                   key=lambda p: dist[p] + float(unlock[p[2], p[0] + MID, p[1] + MID]))

    # sight
    def sight(self, code, pose, opened=None):
        """A number for each sample that tells what is seen from a pose: equal numbers, equal pictures."""
        x, y, d = pose
        (fx, fy), (rx, ry) = STEP[d], STEP[(d + 1) % 4]
        n = len(code)
        view = np.zeros((n, 7, 7), np.int64)
        for i in range(7):
            for j in range(7):
                cx, cy = x + fx * (6 - j) + rx * (i - 3) + MID, y + fy * (6 - j) + ry * (i - 3) + MID
                if 0 <= cx < SIZE and 0 <= cy < SIZE:
                    view[:, i, j] = code[:, cx, cy]
                    if opened == (cx - MID, cy - MID):
                        view[:, i, j] = 4
        clear = (view == 3) | (view == 4) | (view == 6)
        mask = np.zeros((n, 7, 7), bool)
        mask[:, 3, 6] = True
        for j in range(6, -1, -1):
            for i in range(6):
                lit = mask[:, i, j] & clear[:, i, j]
                mask[:, i + 1, j] |= lit
                if j:
                    mask[:, i + 1, j - 1] |= lit
                    mask[:, i, j - 1] |= lit
            for i in range(6, 0, -1):
                lit = mask[:, i, j] & clear[:, i, j]
                mask[:, i - 1, j] |= lit
                if j:
                    mask[:, i - 1, j - 1] |= lit
                    mask[:, i, j - 1] |= lit
        return ((view * mask).reshape(n, 49) * HASH).sum(axis=1)

    def plan(self, m, horizon):
        """The pose to go to (and open the door there, or not) of least steps and mean cost to come; the action to it.

        What can be told apart counts by all that is seen on the way."""
        enter, code = self.arrays(m)
        values = self.values(m, enter)
        if not m.carrying:
            for k, p in enumerate(self.particles):
                x, y = p["key"]
                code[k, x + MID, y + MID] = 6
        dist, first = m.distances(door_cost=BIG)
        before, seen = m.before, {}
        best = None
        for pose, steps in dist.items():
            if steps > horizon:
                continue
            x, y, d = pose
            seen[pose] = self.sight(code, pose) + (3 * seen[before[pose]] if steps else 0)
            ahead = (x + STEP[d][0], y + STEP[d][1])
            cell = m.cells.get(ahead)
            here = values[:, :, d, x + MID, y + MID]
            choices = [(False, steps, here, None)] if steps else []
            if cell is not None and cell[0] == DOOR and cell[2] == CLOSED:
                through = 1 + values[:, :, d, ahead[0] + MID, ahead[1] + MID]
                choices.append((True, steps + 1, np.minimum(here, through), ahead))
            for toggle, cost, value, opened in choices:
                picture = 3 * seen[pose] + self.sight(code, pose, opened) if toggle else seen[pose]
                _, group = np.unique(picture, return_inverse=True)
                sums = np.stack([np.bincount(group, weights=v) for v in value])
                total = cost + sums.min(axis=0).sum() / len(code)
                if best is None or total < best[0] - 1e-6:
                    best = (total, pose, TOGGLE if toggle and not steps else first[pose])
        return best

