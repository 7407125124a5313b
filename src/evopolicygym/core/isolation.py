"""How an isolation level is written: its name, and after ``without`` the walls that a user waived.

Such as ``bubblewrap`` or ``bubblewrap without seccomp``. Which levels and walls there are is described in
``sandbox/levels.py`` and ``sandbox/confinement/walls.py``.
"""

from collections.abc import Collection

WITHOUT, AND = " without ", " and "
UNVERIFIED = "none"
"""The level, as records name it, that keeps nothing in: scores that were made at it are marked wherever they stand."""


def written(level: str, waived: Collection[str]) -> str:
    """Return how a level is written, less the walls that were waived."""
    return f"{level}{WITHOUT}{AND.join(sorted(waived))}" if waived else level


def parted(isolation: str) -> tuple[str, frozenset[str]]:
    """Return a level's name and the walls that were waived, of how it is written."""
    level, _, walls = isolation.partition(WITHOUT)
    return level, frozenset(wall.strip() for wall in walls.split(AND) if wall.strip())


def is_unverified(isolation: str) -> bool:
    """Return whether a score that was made at an isolation is marked as unverified."""
    return parted(isolation)[0] == UNVERIFIED
