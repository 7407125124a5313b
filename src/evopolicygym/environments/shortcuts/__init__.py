"""Shortcuts: simulators that do the same with less work, so that an episode costs less and not one bit of it changes.

Each module has a class that derives from a simulator's own and writes anew the part that takes most of its time. It is
used only with the versions of packages it was compared with; with others the simulator plays as it is. How episodes
come to be is not told here but in ``environments/environment.py``, and what a shortcut gains in docs/benchmarks.md.
"""

from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version


@dataclass(frozen=True, slots=True)
class Shortcut:
    """A class to play instead of a registered one."""

    entry_point: str
    """``module:class``, as gymnasium registers it."""
    compared_with: tuple[str, str]
    """Distribution and version of the code it stands in for."""


_HERE = "evopolicygym.environments.shortcuts"
_GYMNASIUM, _HIGHWAY, _MINIGRID = ("gymnasium", "1.3.0"), ("highway-env", "1.11"), ("minigrid", "3.1.0")
SHORTCUTS = {
    "gymnasium.envs.box2d.car_racing:CarRacing": Shortcut(f"{_HERE}.car_racing:CarRacing", _GYMNASIUM),
    "highway_env.envs.parking_env:ParkingEnv": Shortcut(f"{_HERE}.highway:ParkingEnv", _HIGHWAY),
    "highway_env.envs.roundabout_env:RoundaboutEnv": Shortcut(f"{_HERE}.highway:RoundaboutEnv", _HIGHWAY),
    "minigrid.envs:DoorKeyEnv": Shortcut(f"{_HERE}.minigrid:DoorKeyEnv", _MINIGRID),
    "minigrid.envs:FourRoomsEnv": Shortcut(f"{_HERE}.minigrid:FourRoomsEnv", _MINIGRID),
    "minigrid.envs:KeyCorridorEnv": Shortcut(f"{_HERE}.minigrid:KeyCorridorEnv", _MINIGRID),
    "minigrid.envs:ObstructedMaze_Full_V1": Shortcut(f"{_HERE}.minigrid:ObstructedMazeEnv", _MINIGRID),
}
"""By the entry point that is registered."""


@cache
def entry_point(registered: str) -> str:
    """Return what to play for a registered entry point: its shortcut, or itself where there is none to be used."""
    shortcut = SHORTCUTS.get(registered)
    if shortcut is None:
        return registered
    distribution, compared = shortcut.compared_with
    try:
        return shortcut.entry_point if version(distribution) == compared else registered
    except PackageNotFoundError:
        return registered
