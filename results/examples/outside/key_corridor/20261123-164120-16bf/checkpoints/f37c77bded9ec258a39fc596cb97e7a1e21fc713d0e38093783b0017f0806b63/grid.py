"""What the agent has seen, in coordinates relative to its start, and shortest ways through it."""

import heapq

UNSEEN, EMPTY, WALL, FLOOR, DOOR, KEY, BALL, BOX = range(8)
OPEN, CLOSED, LOCKED = range(3)
STEP = ((1, 0), (0, 1), (-1, 0), (0, -1))  # right, down, left, up
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, NOTHING = range(7)


class Map:
    def __init__(self):
        self.cells = {}
        self.pos, self.dir, self.carrying = (0, 0), 0, None

    def front(self, pos=None, direction=None):
        x, y = self.pos if pos is None else pos
        dx, dy = STEP[self.dir if direction is None else direction]
        return x + dx, y + dy

    def see(self, image, direction):
        """Enter a picture; answers whether anything new was learnt."""
        self.dir = int(direction)
        fx, fy = STEP[self.dir]
        rx, ry = STEP[(self.dir + 1) % 4]
        news = False
        for i in range(7):
            for j in range(7):
                cell = tuple(int(v) for v in image[i, j])
                if cell[0] == UNSEEN:
                    continue
                ahead, side = 6 - j, i - 3
                if ahead == 0 and side == 0:
                    self.carrying = cell if cell[0] in (KEY, BALL, BOX) else None
                    if self.pos not in self.cells:
                        self.cells[self.pos] = (EMPTY, 0, 0)
                    continue
                at = (self.pos[0] + fx * ahead + rx * side, self.pos[1] + fy * ahead + ry * side)
                if self.cells.get(at) != cell:
                    news = news or at not in self.cells
                    self.cells[at] = cell
        return news

    def walkable(self, at):
        cell = self.cells.get(at)
        return cell is not None and (cell[0] in (EMPTY, FLOOR) or cell[0] == DOOR and cell[2] == OPEN)

    def enter_cost(self, at, door_cost):
        """Steps to enter a cell that is straight ahead; None where it can't be entered."""
        if self.walkable(at):
            return 1
        cell = self.cells.get(at)
        if cell is not None and cell[0] == DOOR and cell[2] == CLOSED:
            return 1 + door_cost
        return None

    def distances(self, door_cost=1):
        """Dijkstra over poses (x, y, d): distances and the first action to each."""
        start = (*self.pos, self.dir)
        dist, first = {start: 0}, {start: None}
        heap = [(0, start)]
        while heap:
            d, s = heapq.heappop(heap)
            if d > dist[s]:
                continue
            x, y, o = s
            nexts = [(d + 1, (x, y, (o + 3) % 4), LEFT), (d + 1, (x, y, (o + 1) % 4), RIGHT)]
            ahead = (x + STEP[o][0], y + STEP[o][1])
            cost = self.enter_cost(ahead, door_cost)
            if cost is not None:
                nexts.append((d + cost, (*ahead, o), FORWARD if cost == 1 else TOGGLE))
            for nd, n, action in nexts:
                if nd < dist.get(n, 1e9):
                    dist[n], first[n] = nd, first[s] if first[s] is not None else action
                    heapq.heappush(heap, (nd, n))
        return dist, first
