"""Collects the dots along safe ways: plans over time against a forecast of where the enemies may be."""

import numpy as np
from vision import CELLS, CENTRES, HALVES, Scene

MOVES = ((0, -1), (-1, 0), (1, 0), (0, 1))  # rows, columns: left, up, down, right
ACTIONS = (1, 5, 3, 7)
HORIZON = 32
CHASE = 0.3  # how strongly an enemy turns towards the player
FUTURE = 4.0  # worth of staying alive, beside the next dot
DISCOUNT = 0.97
HATCH = 50
SCARED = 40


class Maze:
    """Nodes, ways between them, and the states (node, direction) of an enemy."""

    def __init__(self, walls: np.ndarray) -> None:
        self.index = -np.ones((HALVES, HALVES), int)
        self.nodes = []
        for y in range(HALVES):
            for x in range(HALVES):
                if y % 2 and x % 2:
                    continue
                ends = {(y // 2, x // 2), ((y + 1) // 2, (x + 1) // 2)}
                if not any(walls[e] for e in ends):
                    self.index[y, x] = len(self.nodes)
                    self.nodes.append((y, x))
        self.place = np.array(self.nodes)
        self.n = len(self.nodes)
        self.near = np.full((self.n, 4), self.n)  # a node without a way points to the spare node n
        for i, (y, x) in enumerate(self.nodes):
            for d, (dy, dx) in enumerate(MOVES):
                if 0 <= y + dy < HALVES and 0 <= x + dx < HALVES and self.index[y + dy, x + dx] >= 0:
                    self.near[i, d] = self.index[y + dy, x + dx]
        gap = np.abs(self.place[:, None] - self.place[None]).sum(2)
        self.touch = (gap <= 1).astype(float)
        # An enemy's state: node * 4 + the direction of its last move; what may come before each state.
        self.before = np.zeros((self.n * 4, 4), int)
        self.allowed = np.zeros((self.n * 4, 4))
        for i in range(self.n):
            for d in range(4):
                if self.near[i, 3 - d] == self.n:
                    continue
                j = self.near[i, 3 - d]  # it came from j by moving d
                for last in range(4):
                    self.before[i * 4 + d, last] = j * 4 + last
                    ways = [k for k in range(4) if self.near[j, k] < self.n and k != 3 - last]
                    if d in ways or not ways:
                        self.allowed[i * 4 + d, last] = 1.0
        self.distances = self.all_distances()

    def all_distances(self) -> np.ndarray:
        far = np.full((self.n + 1, self.n), 999)
        for s in range(self.n):
            far[s, s] = 0
            queue = [s]
            for i in queue:
                for j in self.near[i]:
                    if j < self.n and far[s, j] == 999:
                        far[s, j] = far[s, i] + 1
                        queue.append(j)
        return far

    def chances(self, player: int) -> np.ndarray:
        """How likely each step of an enemy is, when it favours ways towards the player."""
        goal = self.place[player]
        gain = np.zeros(self.n * 4)
        for d, move in enumerate(MOVES):
            gain[d::4] = -np.abs(self.place - goal).sum(1) + np.abs(self.place - np.array(move) - goal).sum(1)
        weight = self.allowed * np.exp(CHASE * gain)[:, None]
        total = np.zeros(self.n * 4)
        np.add.at(total, self.before.ravel(), weight.ravel())
        return weight / np.maximum(total[self.before], 1e-9)


class Policy:
    def __init__(self, obs_space: dict, action_space: dict, env_meta: dict) -> None:
        self.maze = None
        self.tracks = []

    def reset(self, episode_index: int) -> None:
        self.t = -1
        self.scared_until = -1

    def act(self, obs: np.ndarray) -> int:
        self.t += 1
        scene = Scene(obs)
        if self.maze is None:
            self.maze = Maze(scene.wall_cells)
            self.dots = scene.dots.copy()
            self.stars = scene.stars & ~scene.wall_cells
            self.player = None
            self.egg_since = {}
        self.locate(scene)
        self.follow(scene)
        return self.plan(scene)

    def locate(self, scene: Scene) -> None:
        """Find the player, and what it has eaten."""
        maze = self.maze
        ys, xs = np.nonzero(scene.player_mask)
        if len(ys):
            if self.player is not None:
                y0, x0 = CENTRES[maze.place[self.player]]
                close = (np.abs(ys - y0) < 6) & (np.abs(xs - x0) < 6)
                if close.any():
                    ys, xs = ys[close], xs[close]
            where = np.array([(ys.min() + ys.max()) / 2, (xs.min() + xs.max()) / 2])
            gap = np.abs(CENTRES[maze.place] - 0.5 - where).sum(1)
            if self.player is not None:
                gap = gap + 100 * (maze.distances[self.player] > 2)
            self.player = int(gap.argmin())
        elif self.player is None:
            self.player = 0
        self.dots |= scene.dots
        y, x = maze.nodes[self.player]
        if y % 2 == 0 and x % 2 == 0:
            self.dots[y // 2, x // 2] = False
            if self.stars[y // 2, x // 2]:
                self.scared_until = self.t + SCARED
                print(self.t, "star eaten")
                self.stars[y // 2, x // 2] = False

    def follow(self, scene: Scene) -> None:
        """Follow the enemies from picture to picture; a track is [node, last direction, pictures unseen]."""
        maze = self.maze
        seen = scene.enemies + scene.other
        score = np.append(seen[maze.place[:, 0], maze.place[:, 1]], 0)
        kept = []
        for node, last, lost in self.tracks:
            options = [(score[node] - 1.5, node, last)]
            for d in range(4):
                j = maze.near[node, d]
                if j < maze.n:
                    turn = 0.0 if d == last else 0.2 if d != 3 - last else 3.0
                    options.append((score[j] - turn, j, d))
            best = max(options)
            lost = 0 if score[best[1]] >= 2 else lost + 1
            if lost <= 4:
                kept.append([int(best[1]), best[2], lost])
        self.tracks = kept
        free = score[:-1].astype(float)
        for node, _, _ in kept:
            free[maze.distances[node] <= 3] = 0
        free[maze.distances[self.player] <= 2] = 0
        while free.max() >= 5:
            node = int(free.argmax())
            self.tracks.append([node, -1, 0])
            free[maze.distances[node] <= 3] = 0
        eggs = {(int(y), int(x)) for y, x in zip(*np.nonzero(scene.eggs & ~scene.wall_cells))}
        self.egg_since = {e: self.egg_since.get(e, self.t) for e in eggs}

    def forecast(self) -> np.ndarray:
        """The chance, for each future step and node, that an enemy catches the player there."""
        maze = self.maze
        state = np.zeros((len(self.tracks) + len(self.egg_since), maze.n * 4))
        for k, (node, last, _) in enumerate(self.tracks):
            if last < 0:
                state[k, node * 4 : node * 4 + 4] = 0.25
            else:
                state[k, node * 4 + last] = 1.0
        wait = {}
        for k, ((y, x), since) in enumerate(self.egg_since.items(), len(self.tracks)):
            node = maze.index[2 * y, 2 * x]
            state[k, node * 4 : node * 4 + 4] = 0.25
            wait[k] = since + HATCH - self.t
        chances = maze.chances(self.player)
        danger = np.zeros((HORIZON + 1, maze.n + 1))
        for t in range(HORIZON + 1):
            here = state.reshape(len(state), maze.n, 4).sum(2)
            active = np.array([wait.get(k, 0) - 4 <= t for k in range(len(state))], bool)
            if self.t + t < self.scared_until:
                active[: len(self.tracks)] = False
            caught = here[active] @ maze.touch
            danger[t, :-1] = 1 - np.prod(1 - np.minimum(caught, 1), axis=0)
            if len(state):
                new = (state[:, maze.before] * chances).sum(2)
                for k, left in wait.items():
                    if t < left:
                        new[k] = state[k]
                state = new
        return danger

    def plan(self, scene: Scene) -> int:
        maze = self.maze
        danger = self.forecast()
        safe = 1 - danger
        goal = np.zeros(maze.n + 1, bool)
        cells = (maze.place % 2 == 0).all(1)
        goal[:-1][cells] = self.dots[maze.place[cells, 0] // 2, maze.place[cells, 1] // 2]
        if not goal.any():
            ys, xs = np.nonzero(self.stars)
            goal[maze.index[2 * ys, 2 * xs]] = True
        far = maze.distances[:-1][:, goal[:-1]].min(1) if goal.any() else np.zeros(maze.n)
        live = np.ones(maze.n + 1)  # chance to live on until the horizon
        value = np.append(FUTURE + DISCOUNT ** (HORIZON + far), 0)
        live[-1] = 0
        for t in range(HORIZON, 0, -1):
            reached = live * (FUTURE + DISCOUNT**t)
            here = np.where(goal, np.maximum(reached, value), value) * safe[t]
            live = live * safe[t]
            live[-1] = here[-1] = -1.0
            if t == 1:
                break
            value = np.append(here[maze.near].max(1), 0)
            live = np.append(live[maze.near].max(1), 0)
        choice = here[maze.near[self.player]]
        best = int(choice.argmax())
        if self.t % 2 == 0 or self.scared_until > self.t:
            y, x = maze.nodes[self.player]
            print(self.t, (y, x), best, round(float(choice[best]), 2), [maze.nodes[k[0]] + (k[1],) for k in self.tracks],
                  list(self.egg_since.items()))
        return ACTIONS[best]
