"""The installed distributions that policies may import: some always, others if a run names them; never simulators."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

from evopolicygym.core.errors import UsageError
from evopolicygym.sandbox.host import PolicyLibrary, library
from evopolicygym.sandbox.simulators import find_first

ALWAYS = ("numpy", "scipy")
"""Distributions that every policy may import, if they are installed."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
OF_AN_EXTRA = re.compile(r";.*\bextra\s*==", re.ASCII)
SUFFIXES = (".py", ".so")


def normalise_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return normalised names of distributions, without duplicates; raise ``UsageError`` for an invalid name."""
    for name in names:
        if not NAME.fullmatch(name):
            raise UsageError(f"Invalid package {name!r}: expected the name of a distribution, such as pandas.")
    return tuple(sorted({_normalise(name) for name in names}))


def policy_library(named: Collection[str] = ()) -> PolicyLibrary:
    """Return the library of a run's policies; raise ``UsageError`` if a named distribution isn't installed."""
    extra = with_requirements(named)
    return library(dict.fromkeys((*ALWAYS, *extra)), described=extra)


def with_requirements(named: Iterable[str]) -> tuple[str, ...]:
    """Return distributions and their installed requirements, without those of extras.

    Raises ``UsageError`` if a named distribution isn't installed.
    """
    waiting, names = list(named), dict[str, None]()
    for name in waiting:
        if installed_version(name) is None:
            raise UsageError(
                f"Invalid policy package {name!r}: it is not installed here. pip install {name}, or leave it out."
            )
    while waiting:
        name = waiting.pop()
        if name in names or installed_version(name) is None:
            continue
        names[name] = None
        lines = metadata.distribution(name).requires or ()
        matches = (NAME.match(line) for line in lines if not OF_AN_EXTRA.search(line))
        waiting += [_normalise(match[0]) for match in matches if match]
    return tuple(sorted(names))


def installed_version(name: str) -> str | None:
    """Return the installed version of a distribution; None if it isn't installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def versions_of(named: Iterable[str]) -> dict[str, str]:
    """Return the versions of a run's distributions and their requirements, by name."""
    return {name: installed_version(name) or "" for name in with_requirements(named)}


def refuse_simulators(named: Iterable[str], packages: Collection[str], modules: Collection[str]) -> None:
    """Raise ``UsageError`` if a distribution or a requirement of it is, or contains, a part of a simulator.

    ``packages`` are the distributions of the environment's simulator, ``modules`` the hidden modules.
    """
    simulated = {_normalise(package) for package in packages} - set(ALWAYS)
    for distribution in named:
        for name in with_requirements([distribution]):
            through = "" if name == distribution else f", which requires {name}"
            part = name if name in simulated else next(_hidden_modules(name, modules), "")
            if part and name not in ALWAYS:
                raise UsageError(
                    f"Invalid policy package {distribution!r}{through}: {part} is part of a simulator, which is hidden "
                    f"from policies. Name other installed packages."
                )


def modules_of(name: str) -> tuple[str, ...]:
    """Return the public modules of a distribution, sorted; raise ``UsageError`` if it has none in site-packages."""
    modules = {
        path.name.partition(".")[0]
        for path in library([name]).paths.values()
        if path.name.endswith(SUFFIXES) or (path / "__init__.py").exists()
    }
    public = tuple(sorted(module for module in modules if module.isidentifier() and not module.startswith("_")))
    if not public:
        raise UsageError(
            f"Invalid policy package {name!r}: it has no module in site-packages. Install it without -e (editable): "
            f"policies can't see an editable installation."
        )
    return public


def _hidden_modules(name: str, modules: Collection[str]) -> Iterator[str]:
    """Yield the paths of hidden modules in a distribution."""
    paths: Mapping[str, Path] = library([name]).paths
    return (module for path in paths.values() if (module := find_first(path, modules)))


def _normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
