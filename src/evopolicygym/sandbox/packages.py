"""Which installed distributions policies may import beside the standard library, and which they never may.

Some always, others where a run names them. What a policy sees of them is laid out by the backends; where their files
lie is found in ``host.py``.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

from evopolicygym.core.errors import UsageError
from evopolicygym.sandbox.host import PolicyLibrary, library
from evopolicygym.sandbox.simulators import first_of

ALWAYS = ("numpy", "scipy")
"""What every policy may import, as far as it is installed."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
OF_AN_EXTRA = re.compile(r";.*\bextra\s*==", re.ASCII)
SUFFIXES = (".py", ".so")


def normalised(names: Iterable[str]) -> tuple[str, ...]:
    """Return distributions' names, each once, as indices spell them; raise ``UsageError`` for an invalid name."""
    for name in names:
        if not NAME.fullmatch(name):
            raise UsageError(f"{name!r} is not a valid name of a package; a distribution's name works, such as pandas.")
    return tuple(sorted({_normal(name) for name in names}))


def policy_library(named: Collection[str] = ()) -> PolicyLibrary:
    """Return what policies of a run may import that names these; raise ``UsageError`` where one isn't installed."""
    besides = with_requirements(named)
    return library(dict.fromkeys((*ALWAYS, *besides)), described=besides)


def with_requirements(named: Iterable[str]) -> tuple[str, ...]:
    """Return distributions and all that they require, as far as that is installed; what extras bring is left out.

    Raises ``UsageError`` where one that is named isn't installed.
    """
    waiting, found = list(named), dict[str, None]()
    for name in waiting:
        if installed_version(name) is None:
            raise UsageError(
                f"Invalid policy package {name!r}: it is not installed here. pip install {name}, or leave it out."
            )
    while waiting:
        name = waiting.pop()
        if name in found or installed_version(name) is None:
            continue
        found[name] = None
        lines = metadata.distribution(name).requires or ()
        required = (NAME.match(line) for line in lines if not OF_AN_EXTRA.search(line))
        waiting += [_normal(match[0]) for match in required if match]
    return tuple(sorted(found))


def installed_version(name: str) -> str | None:
    """Return the version of a distribution that is installed here; None where it isn't."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def versions_of(named: Iterable[str]) -> dict[str, str]:
    """Return the versions of distributions that a run names and of what they require, by name."""
    return {name: installed_version(name) or "" for name in with_requirements(named)}


def refuse_simulators(named: Iterable[str], packages: Collection[str], modules: Collection[str]) -> None:
    """Raise ``UsageError`` where a distribution, or what it requires, is or holds what an environment is played with.

    ``packages`` are the distributions that the environment is simulated with, ``modules`` those that stay hidden.
    """
    simulated = {_normal(package) for package in packages} - set(ALWAYS)
    for asked in named:
        for name in with_requirements([asked]):
            through = "" if name == asked else f", which requires {name}"
            held = name if name in simulated else next(_held(name, modules), "")
            if held and name not in ALWAYS:
                raise UsageError(
                    f"Invalid policy package {asked!r}{through}: {held} is part of what environments are simulated "
                    f"with, which stays hidden from policies. Other installed packages can be named."
                )


def modules_of(name: str) -> tuple[str, ...]:
    """Return the modules that a distribution brings, sorted; raise ``UsageError`` where none can be shown."""
    found = {
        place.name.partition(".")[0]
        for place in library([name]).paths.values()
        if place.name.endswith(SUFFIXES) or (place / "__init__.py").exists()
    }
    public = tuple(sorted(module for module in found if module.isidentifier() and not module.startswith("_")))
    if not public:
        raise UsageError(
            f"Invalid policy package {name!r}: nothing of it lies beside other packages; one that is installed in "
            f"editable form can't be shown to them: pip install it as a copy."
        )
    return public


def _held(name: str, modules: Collection[str]) -> Iterator[str]:
    """Yield where hidden modules lie in a distribution."""
    places: Mapping[str, Path] = library([name]).paths
    return (found for place in places.values() if (found := first_of(place, modules)))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
