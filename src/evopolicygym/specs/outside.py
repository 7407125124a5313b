"""Files of other distributions, found by entry points.

An entry point has the name of a file; its value is a package that holds ``NAME.toml``, or an attribute that holds the
path of a TOML file (text, ``Path`` or a package resource). A package is located without running its code, so that
listing imports no simulator.
"""

import sys
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path

from evopolicygym.core.errors import UsageError

SUFFIX = ".toml"


def entry_points_of(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, without loading them."""
    return _cached_entry_points(group, tuple(sys.path))


@cache
def _cached_entry_points(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:  # noqa: ARG001 - part of the cache key
    return {point.name: point for point in entry_points(group=group)}


def file_of(point: EntryPoint, kind: str) -> Traversable:
    """Return the file of an entry point, which may not exist.

    Raises ``UsageError`` with the ``kind``, such as ``environment``, where it can't be loaded or is not a path,
    whatever its code raises.
    """
    try:
        found = point.load() if point.attr else _directory(point.module) / f"{point.name}{SUFFIX}"
    except Exception as error:
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise UsageError(f"The {kind} {point.name!r} ({point.value}) can't be loaded: {said}.") from error
    if isinstance(found, str | Path | Traversable):
        return Path(found) if isinstance(found, str) else found
    raise UsageError(
        f"The {kind} {point.name!r} ({point.value}) is a {type(found).__name__}; an entry point of {point.group} must "
        f"be a package that holds {point.name}{SUFFIX}, or the path of a TOML file as text, Path or package resource."
    )


def _directory(module: str) -> Path:
    found = find_spec(module)
    if found is None:
        raise ModuleNotFoundError(f"No module named {module!r}")
    if found.submodule_search_locations:
        return Path(next(iter(found.submodule_search_locations)))
    return Path(found.origin or "").parent
