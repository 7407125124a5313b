"""The packages that hold the simulators of the benchmark's environments, or could rebuild them."""

import re
from collections.abc import Iterable

PACKAGES = frozenset(
    {
        "gymnasium",
        "gym",
        "minigrid",
        "gym_minigrid",
        "highway_env",
        "mujoco",
        "mujoco_py",
        "dm_control",
        "Box2D",
        "box2d",
    }
    | {"pybullet", "pymunk", "ale_py", "atari_py", "evopolicygym", "brax", "gymnax", "envpool", "pufferlib", "procgen"}
    | {"gymnasium_robotics", "flappy_bird_gymnasium", "gym_pusht", "jumanji"}
)
"""Names by which Python imports them."""
WORDS = re.compile(
    r"(?<![a-z])(?:gymnasium|gym|minigrid|highway[-_]?env|mujoco|dm[-_]control|box2d|pybullet|pymunk|ale[-_]py|atari|"
    r"evopolicygym|brax|gymnax|envpool|pufferlib|procgen|jumanji|farama)(?![a-z])",
    re.IGNORECASE,
)


def named(texts: Iterable[str]) -> str:
    """Return the first simulator that is named in texts; empty where none is."""
    return next((found.group() for text in texts if (found := WORDS.search(text))), "")


def is_simulator(module: str) -> bool:
    """Return whether a dotted name of Python's is of a simulator's package."""
    return module.partition(".")[0] in PACKAGES
