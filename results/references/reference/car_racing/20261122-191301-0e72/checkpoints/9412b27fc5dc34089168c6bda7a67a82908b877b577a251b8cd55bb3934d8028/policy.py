"""Sees the road by its colour, follows its middle by pure pursuit, and slows down for what bends ahead.

The camera turns with the car, which stands at a fixed place of the picture. From there the road's middle is followed
upwards, row by row, each time in the run of road pixels nearest to the one before; so a stretch that comes back
elsewhere in the picture is not taken for the way. The car steers for a point ahead, farther the faster it is (pure
pursuit: Coulter, CMU-RI-TR-92-01, 1992). Its wanted speed falls with the bend as far as the picture shows, and with a
view that ends early, for then the road turns out of it. The speed bar in the picture is too coarse to be read, so
speed is reckoned from the car's own gas, brake and drag.
"""

import math
from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[np.float64]]
Picture = np.ndarray[Any, np.dtype[np.uint8]]

HORIZON, PANEL = 2, 84
"""The rows between which the road is looked for; below lies the panel of instruments."""
CAR_ROW, CAR_COLUMN, FIRST_ROW, STRIDE = 70, 47.5, 64, 2
NARROWEST, WIDEST, LARGEST_JUMP, LARGEST_DRIFT = 5, 26, 12, 10
"""Of a row's run of road, in pixels; a wider one shows the road from its side, and is entered only so far."""
USUAL_VIEW, FAR_POINT = 14, 16
"""Points of a middle that is seen far enough, and the one by which a bend is judged."""
LOOK_AHEAD = 0.18
"""Points ahead for each unit of speed."""
STEERING = 2.2
FASTEST, SLOWEST, SLOWER_BY_BEND, SLOWER_BY_ANGLE = 50.0, 22.0, 35.0, 6.0
SHORT_VIEW, SHORT_VIEW_POINT = 0.25, 0.05
"""The bend that a view is taken for which ends early, and how much more for each point that is missing."""
SHARP = 0.3
GAS_STRAIGHT, GAS_IN_BEND, GAS_GAIN = 0.8, 0.35, 0.15
BRAKE_GAP, MOST_BRAKE, BRAKE_GAIN = 4.0, 0.3, 0.02


class Policy:
    """Looks, steers, and keeps account of its speed."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Nothing to prepare."""

    def reset(self, episode_index: int) -> None:
        """Stand still."""
        self.speed, self.gas, self.steering = 0.0, 0.0, 0.0

    def act(self, obs: Picture) -> Vector:
        """Return steering, gas and brake."""
        middle = middle_of_road(obs)
        gas, brake = 0.05, 0.0
        if len(middle):
            angles = np.arctan2(middle[:, 0] - CAR_COLUMN, CAR_ROW - middle[:, 1])
            ahead = min(len(middle) - 1, max(2, round(self.speed * LOOK_AHEAD)))
            angle = float(angles[max(0, ahead - 2) : ahead + 1].mean())
            self.steering = min(1.0, max(-1.0, STEERING * angle))
            gas, brake = self.pedals(FASTEST - SLOWER_BY_BEND * bend(middle) - SLOWER_BY_ANGLE * abs(angle))
        self.reckon(gas, brake)
        return np.array([self.steering, gas, brake])

    def pedals(self, wanted: float) -> tuple[float, float]:
        """Return gas and brake for a wanted speed."""
        missing = max(SLOWEST, wanted) - self.speed
        if missing > 0:
            most = GAS_STRAIGHT if abs(self.steering) < SHARP else GAS_IN_BEND
            return min(most, GAS_GAIN * missing), 0.0
        return 0.0, min(MOST_BRAKE, -BRAKE_GAIN * missing) if missing < -BRAKE_GAP else 0.0

    def reckon(self, gas: float, brake: float) -> None:
        """Keep account of the speed: the engine gives power, up to the tires' grip, and gas rises a tenth a step."""
        self.gas = min(gas, self.gas + 0.1)
        self.speed += min(0.88, 48.0 * self.gas / max(self.speed, 1.0))
        self.speed -= min(7.0 * brake, 1.2) * (self.speed > 1)
        self.speed -= 0.0006 * self.speed * (1 + 6 * abs(self.steering))
        self.speed = max(0.0, self.speed)


def middle_of_road(picture: Picture) -> Vector:
    """Return the points (column, row) of the road's middle, from the car on."""
    road = is_road(picture[:PANEL])
    column, points = CAR_COLUMN, []
    for row in range(FIRST_ROW, HORIZON, -STRIDE):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], road[row], [False]])))
        first, last = edges[::2], edges[1::2] - 1
        wide = last - first >= NARROWEST
        first, last = first[wide], last[wide]
        if not len(first):
            break
        away = np.maximum(np.maximum(first - column, column - last), 0)
        nearest = int(np.argmin(away))
        if away[nearest] > LARGEST_JUMP:
            break
        center = (first[nearest] + last[nearest]) / 2
        if last[nearest] - first[nearest] > WIDEST:
            center = column + min(LARGEST_DRIFT, max(-LARGEST_DRIFT, center - column))
        column = float(center)
        points.append((column, float(row)))
    return np.array(points)


def is_road(picture: Picture) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which pixels are road: grey, or a kerb's red and white."""
    red, green, blue = np.moveaxis(picture.astype(np.int16), 2, 0)
    grey = (abs(red - green) < 14) & (abs(green - blue) < 14) & (red > 60) & (red < 190)
    kerb = (red > 150) & (abs(green - blue) < 14) & ((green < 90) | (green > 230))
    return np.asarray(grey | kerb)


def bend(middle: Vector) -> float:
    """Return by how much the road turns as far as it is seen, in radians; more where it is not seen far."""
    near, far = middle[0], middle[min(len(middle) - 1, FAR_POINT)]
    turn = abs(math.atan2(far[0] - near[0], near[1] - far[1] + 1e-3)) if len(middle) > 2 else 0.8
    missing = USUAL_VIEW - len(middle)
    return max(turn, SHORT_VIEW + SHORT_VIEW_POINT * missing) if missing > 0 else turn
