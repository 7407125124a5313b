"""Names to things: a name in a config is a file's name in its room, an entry point, or ``package.module:Class``.

A module is imported only when its name is asked for, so optional dependencies load late.
"""

from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from typing import Any

from evopolicygym.core.errors import MissingExtra, UnknownName, UsageError, described


@dataclass(frozen=True, slots=True)
class Registry:
    """One kind of thing that can be named."""

    kind: str
    """What a person calls it, such as ``agent``."""
    package: str
    """The folder whose files, all of them, are the built-in names."""
    group: str
    """The entry-point group by which other distributions add names."""
    attribute: str
    """What a module of the room must define."""
    from_outside: str = "Class"
    """What stands after the colon of a name from outside, as a person is shown it."""

    def names(self) -> list[str]:
        """Return every name that answers, sorted; those of other distributions included."""
        room = import_module(self.package)
        files = {info.name for info in iter_modules(room.__path__)}
        return sorted(files | self.installed().keys())

    def installed(self) -> dict[str, EntryPoint]:
        """Return the entry points by which other distributions add names, each by its name; none is loaded."""
        return {point.name: point for point in reversed(tuple(entry_points(group=self.group)))}

    def load(self, name: str) -> Any:  # noqa: ANN401 - a class or a function, as the kind has it
        """Return what a name stands for; raise ``UnknownName`` or ``MissingExtra``."""
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
                f"The {self.kind} {name!r} can't be loaded: {error}. A name from outside is written "
                f"package.module:{self.from_outside}, and the package must be importable."
            ) from error
        except Exception as error:
            raise UsageError(f"The {self.kind} {name!r} can't be loaded: {described(error)}.") from error
