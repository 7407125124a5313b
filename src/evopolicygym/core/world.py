"""A world: a small document that makes a task harder than its simulator does.

It leaves entries of the observation out, adds noise, delays, disturbs the start, or draws physical parameters. Its
application to a simulator is in ``environments/world.py``; actions and observations of a policy pass through it.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.errors import UsageError

STANDARD = "standard"
"""The name of the world that changes nothing."""
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}", re.ASCII)
ENTRIES = re.compile(r"(?:(?P<key>[^:]+):)?(?P<first>\d{1,6})(?:-(?P<last>\d{1,6}))?", re.ASCII)
MOST_DELAY, MOST_ACTIONS = 100, 1000
PARAMETERS: Mapping[str, str] = {
    "body_mass": "the mass of each body, with its inertia",
    "geom_friction": "the friction of all surfaces",
    "dof_damping": "the damping of each joint",
    "actuator_gear": "the strength of each actuator",
    "gravity": "gravity",
    "motor_strength": "the strength of the motors",
    "wind": "the strength of the wind",
    "acceleration": "the acceleration of the vehicle at full throttle",
    "steering": "the steering angle of the vehicle at full lock",
    "driver_acceleration": "the acceleration of other drivers",
    "time_wanted": "the time gap that other drivers keep",
    "distance_wanted": "the distance that other drivers keep",
}
"""Physical parameters that can be drawn, with their meaning. A draw multiplies the simulator's own value, apart from
``wind``, whose draw is the value itself."""
ABSOLUTE = frozenset({"wind"})
"""Parameters whose draw is the value itself, not a factor."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The standard deviation of Gaussian noise."""

    share: float = 0.0
    """As a share of each entry's range, from its lower to its upper bound. Of a Discrete action it is the probability
    that a uniformly random action takes its place."""
    absolute: float | tuple[float, ...] = 0.0
    """In the entry's own unit: one number for all entries, or one for each."""

    def __post_init__(self) -> None:
        """Raise ``UsageError`` for an invalid standard deviation."""
        deviations = self.absolute if isinstance(self.absolute, tuple) else (self.absolute,)
        if not 0 <= self.share <= 1:
            raise UsageError(f"Invalid noise share: expected a number from 0 to 1, got {self.share}.")
        if not all(0 <= deviation < math.inf for deviation in deviations):
            raise UsageError(f"Invalid absolute noise: expected finite numbers from 0, got {self.absolute}.")
        if (self.share > 0) == any(deviations):
            raise UsageError(
                f"Invalid noise: expected either share or absolute above 0, got share {self.share} and absolute "
                f"{self.absolute}."
            )

    def __str__(self) -> str:
        if self.share:
            return f"{100 * self.share:g} % of each entry's range"
        return f"{self.absolute:g}" if isinstance(self.absolute, float | int) else "a size of its own for each entry"


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise of observations and of actions."""

    observation: Spread | None = None
    action: Spread | None = None


@dataclass(frozen=True, slots=True)
class Delay:
    """Delays in steps."""

    observation: int = 0
    action: int = 0

    def __post_init__(self) -> None:
        """Raise ``UsageError`` for an invalid delay."""
        for name, steps in (("observation", self.observation), ("action", self.action)):
            if not 0 <= steps <= MOST_DELAY:
                raise UsageError(f"Invalid {name} delay: expected an integer from 0 to {MOST_DELAY}, got {steps}.")


@dataclass(frozen=True, slots=True)
class Jitter:
    """How the start of an episode is disturbed."""

    position: float = 0.0
    """MuJoCo only: each element of ``qpos`` moves by up to so much, uniformly, within the joint's limits."""
    velocity: float = 0.0
    """MuJoCo only: each element of ``qvel`` changes by up to so much, uniformly."""
    actions: int = 0
    """Up to so many uniformly random actions, unrewarded, come before the first observation."""

    def __post_init__(self) -> None:
        """Raise ``UsageError`` for an invalid size."""
        for name, size in (("position", self.position), ("velocity", self.velocity)):
            if not 0 <= size < math.inf:
                raise UsageError(f"Invalid {name} jitter: expected a finite number from 0, got {size}.")
        if not 0 <= self.actions <= MOST_ACTIONS:
            raise UsageError(f"Invalid jitter: expected 0 to {MOST_ACTIONS} actions, got {self.actions}.")


@dataclass(frozen=True, slots=True)
class World:
    """What a world changes; the fields are the tables of its document."""

    name: str = ""
    drop: tuple[str, ...] = ()
    """Entries of the observation that are left out: of a vector ``"3"`` or ``"3-7"``, counted from 0 and inclusive; of
    a Dict ``"KEY"``, ``"KEY:3"`` or ``"KEY:3-7"``."""
    noise: Noise = field(default_factory=Noise)
    delay: Delay = field(default_factory=Delay)
    jitter: Jitter = field(default_factory=Jitter)
    act_ms: float | None = None
    """The limit of an action's processor time, in ms; None for the task's own limit."""
    drawn: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The range of each parameter that is drawn, once for an experiment."""

    def __post_init__(self) -> None:
        """Raise ``UsageError`` for an unknown parameter or an invalid range."""
        if self.act_ms is not None and not 0 < self.act_ms < math.inf:
            raise UsageError(f"Invalid act_ms: expected a finite number above 0, got {self.act_ms}.")
        if unknown := sorted(self.drawn.keys() - PARAMETERS.keys()):
            raise UsageError(
                f"Invalid drawn parameter {unknown[0]!r}: expected one of {', '.join(PARAMETERS)}, got {unknown[0]!r}."
            )
        for name, (low, high) in self.drawn.items():
            if not 0 <= low <= high < math.inf:
                raise UsageError(f"Invalid range of {name}: expected 0 <= low <= high, got [{low}, {high}].")

    @property
    def changes(self) -> bool:
        """Whether it changes anything."""
        return self != World(self.name)

    @property
    def changes_simulator(self) -> bool:
        """Whether it changes the simulator itself, not only what goes in and what comes out."""
        return bool(self.drawn)


def name_world(world: World, name: str) -> World:
    """Return a world with a name; raise ``UsageError`` if the name is invalid or the world changes nothing."""
    if not NAME.fullmatch(name) or name == STANDARD:
        raise UsageError(
            f"Invalid name of a world: expected letters, digits, '_' and '-', and not {STANDARD!r}, got {name!r}."
        )
    if not world.changes:
        raise UsageError(f"Invalid world {name!r}: expected drop, noise, delay, jitter, act_ms or drawn, got nothing.")
    return replace(world, name=name)


def decode_world(document: Mapping[str, Any], name: str, source: str) -> World:
    """Decode a world's document and name it; raise ``UsageError`` with the ``source`` if it is invalid."""
    try:
        world = decoder(World, allow_inf_nan=False).json(json.dumps(document).encode(), strict=True)
    except Undecodable as error:
        raise UsageError(f"{source} is not a world: {'; '.join(map(str, error.problems))}.") from error
    except (TypeError, ValueError) as error:
        raise UsageError(f"{source} is not a world: {error}.") from error
    return name_world(world, name)


def parse_entries(entries: str) -> tuple[str, range | None]:
    """Return the key and the indices that an item of ``drop`` names; no indices for a whole key, no key for a vector.

    Raises ``UsageError`` for an empty range.
    """
    if not (match := ENTRIES.fullmatch(entries)):
        return entries, None
    first = int(match["first"])
    last = int(match["last"]) if match["last"] else first
    if last < first:
        raise UsageError(f"Invalid entries {entries!r} of drop: expected FIRST-LAST with FIRST <= LAST.")
    return match["key"] or "", range(first, last + 1)


def world_text(world: World | None, *, with_numbers: bool, with_names: bool = True) -> str:
    """Return what an agent reads about a world as markdown; empty for the standard one. It never says what was drawn.

    Without numbers it doesn't say how large noise, disturbances and ranges are; without names, neither which entries
    are left out nor which parameters are drawn, as both belong to the standard interface.
    """
    if world is None:
        return ""
    return "\n".join(f"- {line}" for line in _lines(world, with_numbers=with_numbers, with_names=with_names))


def _lines(world: World, *, with_numbers: bool, with_names: bool) -> Iterator[str]:
    if world.drop and not with_names:
        yield "Some entries of the observation are left out."
    elif world.drop:
        yield (
            f"Left out of the observation: {', '.join(world.drop)}, where entries are counted from 0 in the whole "
            f"observation, the last of a range included. The others keep their order."
        )
    for what, spread in (("observation", world.noise.observation), ("action that is executed", world.noise.action)):
        if spread:
            size = f" Its standard deviation is {spread}." if with_numbers else ""
            yield f"Every {what} has noise: a Gaussian one, or where it is a choice sometimes a random choice.{size}"
    if world.delay.observation:
        yield f"Observations come {_steps(world.delay.observation)} late; the first is repeated until then."
    if world.delay.action:
        yield f"Actions are executed {_steps(world.delay.action)} late; the idle action is executed until then."
    if world.jitter != Jitter():
        yield "The start of each episode is disturbed at random."
    if world.act_ms is not None:
        yield f"One action may take {world.act_ms:g} ms of processor time; a policy that takes longer has failed."
    if world.drawn and not with_names:
        yield "Some parameters of the task are drawn at random, and the same in all episodes, training and hidden."
        return
    for name, (low, high) in world.drawn.items():
        kind = "" if name in ABSOLUTE else " of its usual value"
        size = f", from {low:g} to {high:g}{kind}" if with_numbers else ""
        yield f"Drawn at random, and the same in all episodes, training and hidden: {PARAMETERS[name]}{size}."


def _steps(count: int) -> str:
    return f"{count} step{'s' * (count != 1)}"
