"""Knows the track, works out where on it the car is, and passes the other car in the lane that it is not in.

The track is the one of highway-env's ``racetrack_env.py``, always the same, and so are the car's equations and its
speed. Only the place at the start is unknown: one of two lanes, 20 to 50 m along the first straight. So the grid that
should be seen from each of many such places is drawn and held against the grid that is seen, for some seconds; from
then on the place is reckoned from the steering alone. Steering is what the bend ahead needs, less what offset and
heading are wrong by. A car in the grid is put into the lane it is nearer to, by its last few cells; the other lane is
steered for. Its speed, which is less than ours, and its own lane changes are not predicted, and no bend is cut to
save steering. The gains were tuned on the equations, and then played on train cases.
"""

from collections import deque
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
SPEED, LENGTH, FRAMES, FRAME_S = 10.0, 5.0, 3, 1 / 15
FULL_LOCK = np.pi / 4
"""Radians of steering at an action of 1."""
CELL, HALF, CELLS = 3.0, 18.0, 12
REACH = 100.0
"""Metres along a lane that are drawn in the grid, before and behind."""
LANES = (
    (
        (42, 0, 100, 0),
        (100, -20, 20, 90, -1),
        (120, -20, 120, -30),
        (105, -30, 15, 0, -181),
        (70, -30, 20, 0, 136),
        (55.7, -15.7, 35.7, -35.7),
        (18.1, -18.1, 25, 315, 170),
        (18.1, -18.1, 25, 170, 56),
        (43.2, 23.4, 23.5, 240, 270),
    ),
    (
        (42, 5, 100, 5),
        (100, -20, 25, 90, -1),
        (125, -20, 125, -30),
        (105, -30, 20, 0, -181),
        (70, -30, 15, 0, 137),
        (59.3934, -19.2, 39.3934, -39.2),
        (18.1, -18.1, 30, 315, 165),
        (18.1, -18.1, 30, 170, 58),
        (43.2, 23.4, 18.5, 238, 268),
    ),
)
"""Each lane's pieces in their order: a straight's two ends, or an arc's centre, radius and angles in degrees."""
PLACES = np.arange(20.0, 50.01, 0.1)
REFINED_AT = {12: 0.3, 30: 0.06}
"""Steps at which candidates are drawn anew, closer together, around the best, and how far to each side."""
LOCATED_AT = 60
OFFSET_GAIN, HEADING_GAIN, LOOKAHEAD, WIDEST = 0.18, 0.38, 1.0, 2.0
"""Curvature for each metre beside the lane and for each radian; metres ahead; metres that offset is counted to."""
REMEMBERED = 4
"""Steps for which a car's cell is counted towards its lane."""
BEHIND = -8.0
"""Metres: a car farther behind is passed."""


class Piece:
    """A straight or an arc of a lane."""

    def __init__(self, numbers: tuple[float, ...]) -> None:
        """Read its ends, or its centre, radius and angles."""
        self.is_arc = len(numbers) == 5
        self.origin = np.array(numbers[:2], dtype=float)
        self.curvature = 0.0
        if self.is_arc:
            first, last = np.radians(numbers[3:])
            self.radius, self.first, self.turn = float(numbers[2]), float(first), float(np.sign(last - first))
            self.curvature = self.turn / self.radius
            self.length = abs(last - first) * self.radius
        else:
            way = np.array(numbers[2:], dtype=float) - self.origin
            self.length = float(np.hypot(*way))
            self.along = way / self.length

    def local(self, points: Array) -> tuple[Array, Array]:
        """Return how far along and how far to the right of it points are."""
        apart = points - self.origin
        if not self.is_arc:
            return apart @ self.along, apart @ np.array([-self.along[1], self.along[0]])
        angle = np.arctan2(apart[..., 1], apart[..., 0]) - self.first
        angle = (angle + np.pi) % (2 * np.pi) - np.pi
        return self.turn * angle * self.radius, self.turn * (self.radius - np.hypot(apart[..., 0], apart[..., 1]))

    def position(self, far: Array) -> Array:
        """Return points of its middle."""
        if not self.is_arc:
            return np.asarray(self.origin + far[..., None] * self.along)
        angle = self.turn * far / self.radius + self.first
        return np.asarray(self.origin + self.radius * np.stack([np.cos(angle), np.sin(angle)], axis=-1))

    def heading(self, far: float) -> float:
        """Return the direction of driving at a point of it."""
        if not self.is_arc:
            return float(np.arctan2(self.along[1], self.along[0]))
        return self.turn * far / self.radius + self.first + self.turn * np.pi / 2


TRACK = [[Piece(numbers) for numbers in lane] for lane in LANES]


def drawn(positions: Array, heading: float) -> Array:
    """Return the road that the grid shows from each of some positions: 1 where a lane's middle passes."""
    grids = np.zeros((len(positions), CELLS, CELLS))
    cosine, sine = np.cos(heading), np.sin(heading)
    rows = np.arange(len(positions))[:, None]
    for piece in (piece for lane in TRACK for piece in lane):
        far, _ = piece.local(positions)
        points = (far - REACH)[:, None] + CELL * np.arange(int(np.ceil(2 * REACH / CELL)))
        apart = piece.position(np.clip(points, 0, piece.length)) - positions[:, None]
        ahead = apart[..., 0] * cosine + apart[..., 1] * sine
        right = apart[..., 1] * cosine - apart[..., 0] * sine
        i, j = (np.floor((value + HALF) / CELL).astype(int) for value in (ahead, right))
        inside = (i >= 0) & (i < CELLS) & (j >= 0) & (j < CELLS)
        grids[np.broadcast_to(rows, i.shape)[inside], i[inside], j[inside]] = 1
    return grids


def nearest(lane: int, position: Array, heading: float) -> tuple[int, float, float, float]:
    """Return a lane's piece that a car is on, how far along, how far to the right, and how far its heading is off."""
    found = []
    for index, piece in enumerate(TRACK[lane]):
        far, right = (float(value) for value in piece.local(position))
        off = (heading - piece.heading(far) + np.pi) % (2 * np.pi) - np.pi
        distance = abs(right) + max(far - piece.length, 0.0) + max(-far, 0.0) + abs(off)
        found.append((distance, index, far, right, off))
    return min(found)[1:]


class Policy:
    """Locates the car, then steers along one of the two lanes."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Need nothing: the track is known."""

    def reset(self, episode_index: int) -> None:
        """Begin with every place in either lane."""
        self.places = np.array([(42.0 + place, 5.0 * lane) for lane in range(2) for place in PLACES])
        self.wrong = np.zeros(len(self.places))
        self.travelled, self.heading = np.zeros(2), 0.0
        self.step, self.lane = 0, -1
        self.start = self.places[0]
        self.seen: deque[int] = deque(maxlen=REMEMBERED)

    def act(self, obs: Array) -> Array:
        """Return the steering."""
        if self.step <= LOCATED_AT:
            self.locate(obs[1])
        position = self.start + self.travelled
        self.choose_lane(obs[0], position)
        action = np.float32(np.clip(self.wanted(position) / FULL_LOCK, -1, 1))
        self.move(float(action) * FULL_LOCK)
        self.step += 1
        return np.array([action], dtype=np.float32)

    def locate(self, road: Array) -> None:
        """Hold the road that is seen against what each start would show by now."""
        if self.step in REFINED_AT:
            reach = REFINED_AT[self.step]
            self.places = self.start + np.outer(np.linspace(-reach, reach, 41), [1.0, 0.0])
            self.wrong = np.zeros(len(self.places))
        self.wrong += np.abs(drawn(self.places + self.travelled, self.heading) - (road > 0)).sum(axis=(1, 2))
        best = self.places[self.wrong == self.wrong.min()]
        self.start = np.array([best[:, 0].mean(), np.median(best[:, 1])])
        if self.lane < 0:
            self.lane = int(self.start[1] > 0)

    def choose_lane(self, cars: Array, position: Array) -> None:
        """Leave the lane of a car that is near and not yet passed."""
        found = cars.copy()
        found[CELLS // 2, CELLS // 2] = 0
        if not found.any():
            self.seen.clear()
            return
        cell = np.argwhere(found)[0]
        ahead, right = (cell + 0.5) * CELL - HALF
        cosine, sine = np.cos(self.heading), np.sin(self.heading)
        place = position + np.array([ahead * cosine - right * sine, ahead * sine + right * cosine])
        offsets = [abs(nearest(lane, place, self.heading)[2]) for lane in range(2)]
        self.seen.append(int(offsets[1] < offsets[0]))
        if ahead > BEHIND and len(self.seen) > 1:
            self.lane = 1 - round(sum(self.seen) / len(self.seen))

    def wanted(self, position: Array) -> float:
        """Return the angle of the wheels, in radians."""
        index, far, right, off = nearest(self.lane, position, self.heading)
        pieces = TRACK[self.lane]
        ahead = pieces[(index + 1) % len(pieces)] if far + LOOKAHEAD > pieces[index].length else pieces[index]
        slip = np.arcsin(LENGTH / 2 * ahead.curvature)
        bend = ahead.curvature - OFFSET_GAIN * np.clip(right, -WIDEST, WIDEST) - HEADING_GAIN * (off + slip)
        return float(np.arctan(2 * np.tan(np.arcsin(np.clip(LENGTH / 2 * bend, -0.44, 0.44)))))

    def move(self, steering: float) -> None:
        """Reckon where the car is after this step."""
        slip = np.arctan(np.tan(steering) / 2)
        for _ in range(FRAMES):
            course = self.heading + slip
            self.travelled = self.travelled + SPEED * FRAME_S * np.array([np.cos(course), np.sin(course)])
            self.heading += SPEED * np.sin(slip) / (LENGTH / 2) * FRAME_S
