"""What the hand does in each of the ten tasks.

A script looks at a scene and says where the hand is to be now and whether the gripper closes. It has no memory but how
long the gripper has been closing, so whatever goes wrong is begun again from where things are. x is to the right of
the robot, y away from it, z up; metres.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[np.float64]]
Wanted = tuple[Vector, bool]
"""Where the hand is to be, and whether the gripper closes."""

BEFORE_OPEN = 0.07
"""How far before the goal the hand stops that pushes the door open: the handle is ahead of it."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What a script sees."""

    hand: Vector
    opening: float
    thing: Vector
    goal: Vector
    first: Vector
    """Where the thing was at the beginning."""
    closing: int
    """For how many steps the gripper has been closing."""


def off(place: Vector, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Vector:
    """Return a place moved by so much."""
    return np.asarray(place + np.array([x, y, z]))


def aside(hand: Vector, place: Vector) -> float:
    """Return how far the hand is from being above or below a place."""
    return float(np.hypot(*(hand - place)[:2]))


def taken(scene: Scene, grip: Vector, steps: int = 15) -> Wanted | None:
    """Return what brings the thing into the fingers, or None when it is held."""
    low = abs(scene.hand[2] - grip[2])
    if scene.closing and aside(scene.hand, grip) < 0.05 and low < 0.06:
        return None if scene.closing > steps else (grip, True)
    if aside(scene.hand, grip) > 0.02:
        return off(grip, z=0.12), False
    return grip, low < 0.032


def reach(scene: Scene) -> Wanted:
    """Go to the goal."""
    return scene.goal, True


def push(scene: Scene) -> Wanted:
    """Take the puck and draw it over the table."""
    return taken(scene, off(scene.thing, x=-0.005)) or (scene.goal, True)


def pick_place(scene: Scene) -> Wanted:
    """Take the puck and carry it."""
    return taken(scene, off(scene.thing, x=-0.005)) or (scene.goal, True)


def door_open(scene: Scene) -> Wanted:
    """Go down behind the handle and draw it open."""
    if scene.thing[0] < scene.first[0] - 0.2:
        return off(scene.goal, x=BEFORE_OPEN, z=-0.02), True
    hook = off(scene.thing, x=-0.03)
    if aside(scene.hand, hook) > 0.08:
        return off(hook, z=0.2), True
    if scene.hand[2] > hook[2] + 0.03:
        return hook, True
    return off(scene.goal, x=-0.1), True


def drawer_open(scene: Scene) -> Wanted:
    """Hook the handle from above and draw."""
    hook = off(scene.thing, z=-0.02)
    if aside(scene.hand, hook) > 0.06:
        return off(hook, z=0.2), False
    if scene.hand[2] > hook[2] + 0.04:
        return hook, False
    return off(hook, y=-0.08), False


def drawer_close(scene: Scene) -> Wanted:
    """Go before the handle and push."""
    before = off(scene.thing, y=-0.04, z=-0.03)
    if scene.hand[2] > before[2] + 0.03 and scene.hand[1] > scene.thing[1] - 0.03:
        return off(scene.hand, y=-0.2), True
    if scene.hand[2] > before[2] + 0.03:
        return before, True
    return off(scene.thing, y=0.1, z=-0.03), True


def button_press(scene: Scene) -> Wanted:
    """Go above the button and down on it."""
    if aside(scene.hand, scene.thing) > 0.04:
        return off(scene.thing, z=0.12), True
    return off(scene.thing, z=-0.1), True


def peg_insert(scene: Scene) -> Wanted:
    """Take the peg, lift it before the hole, and push it in."""
    wanted = taken(scene, scene.thing)
    if wanted:
        return wanted
    if np.hypot(*(scene.thing - scene.goal)[1:]) > 0.03:
        return off(scene.goal, x=0.45), True
    return scene.goal, True


def window_open(scene: Scene) -> Wanted:
    """Go to the left of the handle and push it to the right."""
    beside = off(scene.thing, x=-0.04)
    if aside(scene.hand, beside) > 0.05:
        return off(beside, z=0.15), True
    if scene.hand[2] > beside[2] + 0.04:
        return beside, True
    return off(scene.thing, x=0.1), True


def window_close(scene: Scene) -> Wanted:
    """Go to the right of the handle and push it to the left."""
    beside = off(scene.thing, x=0.04)
    if aside(scene.hand, beside) > 0.05:
        return off(beside, z=0.15), True
    if scene.hand[2] > beside[2] + 0.04:
        return beside, True
    return off(scene.thing, x=-0.1), True


TASKS: tuple[Callable[[Scene], Wanted], ...] = (
    reach,
    push,
    pick_place,
    door_open,
    drawer_open,
    drawer_close,
    button_press,
    peg_insert,
    window_open,
    window_close,
)
"""In the order in which an observation names them."""
