"""Files that other distributions bring by entry points: an entry point's name is a file's, and its value says where.

The value is a package that holds ``NAME.toml``, or an attribute that holds the path of a TOML file (text, ``Path`` or a
package resource). A package is looked up without running its code, so that listing imports no simulator.
"""

import sys
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path

from evopolicygym.core.errors import UsageError

SUFFIX = ".toml"


def brought(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by their names; none is loaded."""
    return _brought(group, tuple(sys.path))


@cache
def _brought(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:  # noqa: ARG001 - on which the answer depends
    return {point.name: point for point in entry_points(group=group)}


def file_of(point: EntryPoint, kind: str) -> Traversable:
    """Return the file that an entry point stands for, which may not be there.

    Raises ``UsageError`` with the ``kind``, such as ``environment``, where what it names can't be loaded or is no
    place, whatever its code raises.
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
