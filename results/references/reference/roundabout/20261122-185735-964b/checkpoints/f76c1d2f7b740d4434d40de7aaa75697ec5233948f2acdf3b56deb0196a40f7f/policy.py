"""Drives through a predicted world: many ways the others may go, and every plan of speeds, held against each other.

The car follows its route by itself, so that only speeds are planned. Where another car drives tells which routes it may
be on; where it leaves the roundabout is not known, so a number of worlds are drawn with an exit and an uncertain speed
for each. A plan's value is its mean reward over all worlds until the episode's end, a crash being the end too. A second
of full speed is worth but little more than one of standing still, and a crash costs all that is left: so the plans that
win wait for gaps.
"""

from itertools import product
from typing import Any

import numpy as np

Points = np.ndarray[Any, np.dtype[np.float64]]
"""x, y: a row a point."""
Flags = np.ndarray[Any, np.dtype[np.bool_]]
SPACING = 0.5
"""Metres between the points of a route."""
INNER, OUTER = 20.0, 24.0
ARM, BEND, AMPLITUDE = 42.5, 17.0, 5.0
"""Where the arms bend towards the roundabout, along how much, and how far."""
ENTRY_ANGLE, EXIT_ANGLE = 66.0, 114.0
"""Degrees on the ring, of the lower arm."""
IDLE, FASTER, SLOWER = 1, 3, 4
SPEED_STEP, RESPONSE_S = 8.0, 0.6
PLANNED_S, HORIZON_S, DT = 5, 8, 0.25
"""The last action of a plan is repeated until the horizon."""
WORLDS = 20
SPEED_NOISE = 0.06
"""Standard deviation of another car's mean speed, as a share of the speed seen."""
BRAKING_SHARE, BRAKING, SLOWED = 0.35, 5.0, 0.2
"""In this share of worlds a car brakes, by so many m/s², down to this share of its speed: for whoever is before it."""
BRAKING_BEGINS_S = 3.0
WRECK_SPEED, WRECK_SHARE = 13.0, 0.8
"""Cars that crashed into each other roll on, losing speed by the factor e in a second; slower ones likely did."""
MARGINS, SHARES = ((0.8, 0.3), (0.0, 0.0)), np.array([0.7, 0.3])
"""Metres before and beside a car that count as the car, and what each counts: a plan keeps clear, or doesn't touch."""
YIELDING = 6.0
"""Metres behind the car from which another one in the same lane brakes in time."""
LENGTH, WIDTH = 5.0, 2.0


def ring(radius: float, first: float, last: float) -> Points:
    """Return an arc, driven from the first angle down to the last, in degrees."""
    angles = np.radians(np.linspace(first, last, max(2, int(abs(first - last)))))
    arc: Points = radius * np.column_stack([np.cos(angles), np.sin(angles)])
    return arc


def entry() -> Points:
    """Return the lower arm into the roundabout."""
    along = np.linspace(0.0, BEND, 20)
    bend = np.column_stack([7.0 - AMPLITUDE * np.cos(2.0 * np.pi / 85.0 * along), ARM - along])
    return np.vstack([[[2.0, 130.0]], bend])


def leaving() -> Points:
    """Return the lower arm out of the roundabout: the mirror image of the arm into it."""
    mirrored: Points = entry()[::-1] * np.array([-1.0, 1.0])
    return mirrored


def turned(points: Points, quarters: int) -> Points:
    """Return points turned by so many quarters in the direction of driving."""
    for _ in range(quarters):
        points = points[:, ::-1] * np.array([1.0, -1.0])
    return points


def route(*parts: Points) -> Points:
    """Return parts as one route of evenly spaced points."""
    points = np.vstack(parts)
    lengths = np.append(0.0, np.cumsum(np.hypot(*np.diff(points, axis=0).T)))
    even = np.arange(0.0, lengths[-1], SPACING)
    found: Points = np.column_stack([np.interp(even, lengths, points[:, axis]) for axis in (0, 1)])
    return found


def ahead_of(points: Points, position: Points) -> Points:
    """Return what is left of a route from the point that is nearest to a position."""
    return points[int(np.argmin(np.hypot(*(points - position).T))) :]


OWN_ROUTE = route(entry(), ring(OUTER, ENTRY_ANGLE, EXIT_ANGLE - 180.0), turned(leaving(), 2))
ROUTES = [
    route(ring(radius, 200.0, EXIT_ANGLE - 90.0 * quarters), turned(leaving(), quarters))
    for radius, quarters in product((INNER, OUTER), range(3))
] + [
    route(turned(entry(), 1), ring(OUTER, ENTRY_ANGLE - 90.0, EXIT_ANGLE - 90.0 * exit_), turned(leaving(), exit_))
    for exit_ in (2, 4, 5)
]
PLANS = np.array(list(product((FASTER, IDLE, SLOWER), repeat=PLANNED_S)))
TIMES = int(HORIZON_S / DT)


def on_route(points: Points, travelled: Points) -> tuple[Points, Points]:
    """Return positions and headings after distances along a route; it goes on straight where it ends."""
    places = travelled / SPACING
    last = len(points) - 2
    index = np.clip(places.astype(int), 0, last)
    steps = points[index + 1] - points[index]
    return points[index] + steps * (places - index)[..., None], np.arctan2(steps[..., 1], steps[..., 0])


def own_course(speed: float, target: int) -> tuple[Points, Points]:
    """Return the distances that each plan drives until each time, and its reward in each second."""
    speeds, targets = np.full(len(PLANS), speed), np.full(len(PLANS), float(target))
    far, distances, rewards = np.zeros(len(PLANS)), [], []
    for second in range(HORIZON_S):
        actions = PLANS[:, min(second, PLANNED_S - 1)]
        nearest = np.clip(np.rint(speeds / SPEED_STEP), 0, 2)
        changed = nearest + (actions == FASTER).astype(float) - (actions == SLOWER)
        targets = np.clip(np.where(actions == IDLE, targets, changed), 0, 2)
        rewards.append((1.0 + 0.1 * targets) / 1.2)
        for _ in range(round(1.0 / DT)):
            before = speeds
            speeds = SPEED_STEP * targets + (speeds - SPEED_STEP * targets) * np.exp(-DT / RESPONSE_S)
            far = far + (before + speeds) / 2.0 * DT
            distances.append(far)
    return np.array(distances).T, np.array(rewards).T


def crashes(own: tuple[Points, Points], other: tuple[Points, Points]) -> Flags:
    """Return, for each margin, plan and time, whether the car overlaps with another that doesn't yield to it."""
    (place, heading), (other_place, other_heading) = own, other
    apart, turn = other_place - place, np.abs(other_heading - heading)
    long = apart[..., 0] * np.cos(heading) + apart[..., 1] * np.sin(heading)
    wide = np.abs(apart[..., 1] * np.cos(heading) - apart[..., 0] * np.sin(heading))
    cosine, sine = np.abs(np.cos(turn)), np.abs(np.sin(turn))
    reach = (LENGTH + LENGTH * cosine + WIDTH * sine) / 2.0
    breadth = (WIDTH + LENGTH * sine + WIDTH * cosine) / 2.0
    in_lane = (wide < WIDTH) & (turn < 0.4)
    yields = np.maximum.accumulate(in_lane & (long < -YIELDING) & (long > -25.0), axis=1)
    near = [(np.abs(long) < reach + more_long) & (wide < breadth + more_wide) for more_long, more_wide in MARGINS]
    found: Flags = np.array(near) & ~(yields & (long < 0.0))
    return found


class Policy:
    """Chooses the first action of the best plan, every second anew."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Take how long an episode is: what would happen after its end needs no care."""
        self.steps = int(env_meta["max_episode_steps"])

    def reset(self, episode_index: int) -> None:
        """Begin at 8 m/s."""
        self.target, self.left = 1, self.steps
        self.generator = np.random.default_rng(0)

    def act(self, obs: Points) -> int:
        """Return the next action."""
        cars = obs.astype(float) * np.array([1.0, 100.0, 100.0, 15.0, 15.0])
        speed = float(np.hypot(*cars[0, 3:]))
        distances, rewards = own_course(speed, self.target)
        rewards[:, self.left :] = 0.0
        self.left -= 1
        own = on_route(ahead_of(OWN_ROUTE, cars[0, 1:3]), distances)
        others = [self.courses(car[1:3], car[3:]) for car in cars[1:] if car[0]]
        values = np.zeros(len(PLANS))
        for world in range(WORLDS):
            crashed = np.zeros((len(MARGINS), len(PLANS), TIMES), dtype=bool)
            for courses in others:
                crashed |= crashes(own, courses[world])
            ended = np.maximum.accumulate(crashed, axis=2)[..., round(1.0 / DT) - 1 :: round(1.0 / DT)]
            values += SHARES @ (rewards * ~ended).sum(axis=2)
        best = int(np.argmax(values))
        action = int(PLANS[best, 0])
        nearest = int(np.clip(np.rint(speed / SPEED_STEP), 0, 2))
        self.target = {FASTER: min(2, nearest + 1), SLOWER: max(0, nearest - 1)}.get(action, self.target)
        return action

    def courses(self, position: Points, velocity: Points) -> list[tuple[Points, Points]]:
        """Return where another car may be at each time, once for each world."""
        speed = float(np.hypot(*velocity))
        fitting = []
        for points in ROUTES:
            left = ahead_of(points, position)
            if len(left) > 2 and np.hypot(*(left[0] - position)) < WIDTH:
                course = (left[1] - left[0]) / SPACING
                fitting += [left] if course @ velocity > 0.7 * speed else []
        straight = position + np.outer(np.arange(4), velocity / max(speed, 0.1)) * SPACING
        fitting = fitting or [straight]
        times = DT * np.arange(1, TIMES + 1)
        found = []
        for _ in range(WORLDS):
            chosen = fitting[int(self.generator.integers(len(fitting)))]
            pace = speed * (1.0 + SPEED_NOISE * self.generator.standard_normal())
            speeds = np.full(TIMES, pace)
            if self.generator.random() < BRAKING_SHARE:
                begun = times - BRAKING_BEGINS_S * self.generator.random()
                speeds = np.clip(pace - BRAKING * np.maximum(begun, 0.0), SLOWED * pace, None)
            if speed < WRECK_SPEED and self.generator.random() < WRECK_SHARE:
                speeds = speed * np.exp(-times)
            found.append(on_route(chosen, np.cumsum(speeds) * DT))
        return found
