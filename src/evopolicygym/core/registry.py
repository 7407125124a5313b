"""Plugins by name: a built-in module's name, an entry point, or ``package.module:Class``.

A module is imported only when its name is loaded, so that optional dependencies are imported late.
"""

import sys
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pkgutil import iter_modules
from typing import Any, cast

from evopolicygym.core.errors import MissingExtra, UnknownName, UsageError, described


@dataclass(frozen=True, slots=True)
class Registry:
    """The plugins of one kind."""

    kind: str
    """The kind in messages, such as ``agent``."""
    package: str
    """The package whose modules are the built-in plugins."""
    group: str
    """The entry-point group of other distributions."""
    attribute: str
    """The attribute that a module of the package must define."""
    from_outside: str = "Class"
    """What follows the colon of ``package.module:Class``, for messages."""

    def names(self) -> list[str]:
        """Return all names, sorted, including those of other distributions."""
        built_in = {info.name for info in iter_modules(import_module(self.package).__path__)}
        return sorted(built_in | self.installed().keys())

    def installed(self) -> dict[str, EntryPoint]:
        """Return the entry points of other distributions by name, without loading them."""
        return entry_points_of(self.group)

    def load(self, name: str) -> Any:  # noqa: ANN401 - a class or a function, by kind
        """Return the plugin with this name; raise ``UnknownName``, ``MissingExtra`` or ``UsageError``."""
        if ":" in name:
            return self._from_outside(name)
        if point := self.installed().get(name):
            return self._from_outside(f"{point.module}:{point.attr}")
        names = self.names()
        if name not in names and (spelled := name.replace("-", "_")) in names:
            name = spelled
        if name not in names:
            raise UnknownName(self.kind, name, names)
        try:
            return getattr(import_module(f"{self.package}.{name}"), self.attribute)
        except ModuleNotFoundError as error:
            raise MissingExtra(f"The {self.kind} {name!r}", name, str(error.name)) from error

    def _from_outside(self, name: str) -> Any:  # noqa: ANN401 - as above
        module, _, attribute = name.partition(":")
        try:
            return getattr(import_module(module), attribute)
        except (ImportError, AttributeError, ValueError, TypeError) as error:
            raise UsageError(
                f"The {self.kind} {name!r} can't be loaded: {error}. Expected package.module:{self.from_outside} of an "
                f"importable package."
            ) from error
        except Exception as error:
            raise UsageError(f"The {self.kind} {name!r} can't be loaded: {described(error)}.") from error


def entry_points_of(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, without loading them; of two with one name, the path's first."""
    points = _entry_points(tuple(sys.path)).select(group=group)
    return {point.name: point for point in reversed(tuple(points))}


@cache
def _entry_points(path: tuple[str, ...]) -> EntryPoints:  # noqa: ARG001 - what is found depends on it
    """Return the entry points of all distributions, whose files take milliseconds to read."""
    return cast("EntryPoints", entry_points())  # Python 3.11 has another type, with the same method
