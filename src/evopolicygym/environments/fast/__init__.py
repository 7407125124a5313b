"""Faster implementations of simulators with bit-identical results.

Each module has classes that derive from a simulator's own and replace its slowest part. They are used only with the
package versions that they were compared with; other versions play unchanged (docs/measure/benchmarks.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from evopolicygym.environments.versions import provider


@dataclass(frozen=True, slots=True)
class FastSimulator:
    """A faster class for a registered one."""

    entry_point: str
    """``module:class``, as gymnasium registers it."""
    compared_with: Mapping[str, str]
    """Versions of the distributions on which its results depend: the original code and its libraries."""


_HERE = "evopolicygym.environments.fast"
_BOTH = {"gymnasium": "1.3.0", "numpy": "2.4.6"}
_CARS = _BOTH | {"box2d": "2.3.10", "pygame": "2.6.1"}
_HIGHWAY, _MINIGRID = _BOTH | {"highway-env": "1.11", "pandas": "3.1.1"}, _BOTH | {"minigrid": "3.1.0"}
FAST_SIMULATORS = {
    "gymnasium.envs.box2d.car_racing:CarRacing": FastSimulator(f"{_HERE}.car_racing:CarRacing", _CARS),
    "highway_env.envs.parking_env:ParkingEnv": FastSimulator(f"{_HERE}.highway:ParkingEnv", _HIGHWAY),
    "highway_env.envs.roundabout_env:RoundaboutEnv": FastSimulator(f"{_HERE}.highway:RoundaboutEnv", _HIGHWAY),
    "minigrid.envs:DoorKeyEnv": FastSimulator(f"{_HERE}.minigrid:DoorKeyEnv", _MINIGRID),
    "minigrid.envs:FourRoomsEnv": FastSimulator(f"{_HERE}.minigrid:FourRoomsEnv", _MINIGRID),
    "minigrid.envs:KeyCorridorEnv": FastSimulator(f"{_HERE}.minigrid:KeyCorridorEnv", _MINIGRID),
    "minigrid.envs:ObstructedMaze_Full_V1": FastSimulator(f"{_HERE}.minigrid:ObstructedMazeEnv", _MINIGRID),
}
"""Fast simulators by registered entry point."""


@cache
def entry_point(registered: str) -> str:
    """Return the fast simulator for a registered entry point, or the entry point itself if there is none."""
    fast = FAST_SIMULATORS.get(registered)
    if fast is None or not all(_is_installed(*item) for item in fast.compared_with.items()):
        return registered
    return fast.entry_point


def _is_installed(distribution: str, compared: str) -> bool:
    """Return whether a distribution is installed in the compared version, and its files weren't overwritten."""
    try:
        return provider(distribution) == distribution and version(distribution) == compared
    except PackageNotFoundError:
        return False
