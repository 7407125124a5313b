"""Reads reference policies: for each environment a whole project that a person wrote, as it lies in ``system/``.

They are data in the folder ``references/`` of the package, and never imported. A folder holds an environment's
``policy.py`` and what lies beside it; a folder of ``SHARED`` is laid into several projects. The agent ``reference``
plays them; docs/measure/references.md has their scores.
"""

from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable

from evopolicygym.core.errors import UsageError

POLICY = "policy.py"
SHARED: Mapping[str, tuple[str, ...]] = {
    "gait": ("AntMaze_Large_Diverse_GR-v5", "ant", "half_cheetah"),
    "gridworld": (
        "door_key",
        "four_rooms",
        "key_corridor",
        "obstructed_maze",
        "BabyAI-BossLevel-v0",
        "BabyAI-GoToLocal-v0",
        "MiniGrid-KeyCorridorS6R3-v0",
        "MiniGrid-LavaCrossingS9N2-v0",
        "MiniGrid-MemoryS17Random-v0",
        "MiniGrid-MultiRoom-N6-v0",
        "MiniGrid-ObstructedMaze-Full-v1",
    ),
    "stance": ("Hopper-v5", "Walker2d-v5"),
}
"""Folders that hold no policy, and the environments into whose projects their files are laid."""
SAME: Mapping[str, str] = {"MountainCarContinuous-v0": "continuous_car"}
"""Tasks of packs that are an environment of Core16 under gymnasium's own id, and have its project."""
_NOT_LAID = "__pycache__"


def names() -> list[str]:
    """Return the environments that have a reference, sorted."""
    return sorted({*(folder.name for folder in _room().iterdir() if folder.joinpath(POLICY).is_file()), *SAME})


def files_of(environment: str) -> dict[str, bytes]:
    """Return the files of an environment's reference, by their paths in ``system/``; raise ``UsageError`` if none."""
    if environment not in names():
        raise UsageError(
            f"There is no reference policy for the environment {environment!r}. There are for: {', '.join(names())}."
        )
    own = SAME.get(environment, environment)
    shared = [folder for folder, environments in SHARED.items() if own in environments]
    return {
        file.name: file.read_bytes()
        for folder in (*shared, own)
        for file in sorted(_room().joinpath(folder).iterdir(), key=lambda file: file.name)
        if file.name != _NOT_LAID
    }


def _room() -> Traversable:
    return files("evopolicygym") / "references"
