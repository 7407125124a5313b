"""The code of an environment: its modules, and a hash of each module's files.

An agent may import none of these modules, and runs are comparable only where they are equal. ``versions.py`` has the
versions of the distributions that a spec names.
"""

import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

from evopolicygym.core.task import EnvironmentSpec

MOST_FILES, MOST_BYTES = 20_000, 512 << 20
"""Limits of reading a module: beyond so many bytes only the sizes of files count, further files are ignored."""
RECORD_OF_A_RUN = "journal.jsonl"
"""A directory that holds one is a run's, and no part of a package that it happens to lie in."""
_HASHED_OTHERWISE = {"evopolicygym", "gymnasium", *sys.stdlib_module_names}
"""Modules that a run's protocol and versions stand for."""
_INSTALLED = {"site-packages", "dist-packages"}


def simulators_of(spec: EnvironmentSpec) -> tuple[str, ...]:
    """Return the modules that a spec names as makers; the packages of its spec may be of use for other things."""
    return tuple(dict.fromkeys(name.partition(".")[0] for name in spec.registering_modules))


def simulator_code(spec: EnvironmentSpec) -> dict[str, str]:
    """Return the code of the modules that make an environment, which has been made in this process.

    Those are the ones that the spec names, those where gymnasium finds its classes, and what they have imported so far
    from the directories in which they lie, installed packages aside.
    """
    makers = dict.fromkeys([*simulators_of(spec), *registered_in(spec)])
    own = {place.parent for name in makers for place in _places(name) if not _is_installed(place)}
    return code_of([*makers, *_imported_from(own)])


def code_of(modules: Iterable[str]) -> dict[str, str]:
    """Return the code of modules by their names, as it lies here; those that are not here are left out.

    A module's code is the hash of its file, or of all files of its package but what Python compiled, before it the
    distribution that installed it. No module is imported.
    """
    found = {}
    for name in sorted(set(modules) - _HASHED_OTHERWISE):
        if places := _places(name):
            installed = _distribution(places[0]) if _is_installed(places[0]) else ""
            found[name] = f"{f'{installed}, ' if installed else ''}sha256 {_sha256(places)}"
    return found


def places_of(modules: Iterable[str]) -> tuple[str, ...]:
    """Return where modules lie here: their files, or the directories of their packages. No module is imported."""
    return tuple(str(place) for name in sorted(set(modules) - _HASHED_OTHERWISE) for place in _places(name))


def registered_in(spec: EnvironmentSpec) -> Iterator[str]:
    """Yield the outermost modules of the classes that gymnasium makes an id of, wrappers included."""
    import gymnasium

    registered = gymnasium.spec(spec.registered_id)
    for point in (registered.entry_point, *(wrapper.entry_point for wrapper in registered.additional_wrappers)):
        module = point.partition(":")[0] if isinstance(point, str) else getattr(point, "__module__", "")
        if module:
            yield module.partition(".")[0]


def _imported_from(directories: set[Path]) -> Iterator[str]:
    """Yield the outermost names of all modules so far imported from somewhere in directories, but installed ones."""
    if not directories:
        return
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or name == "__main__":
            continue
        place = Path(file)
        if not _is_installed(place) and any(place.is_relative_to(directory) for directory in directories):
            yield name.partition(".")[0]


def _places(name: str) -> list[Path]:
    """Return where an outermost module lies: its directories, or its file; nothing where it can't be found."""
    try:
        found = find_spec(name)
    except (ImportError, ValueError):
        return []
    if found is None:
        return []
    if found.submodule_search_locations is not None:
        return [Path(place) for place in found.submodule_search_locations]
    origin = Path(found.origin or "")
    archives = (place for place in (origin, *origin.parents) if place.is_file())
    return list(archives)[:1]


def _is_installed(place: Path) -> bool:
    """Return whether a file lies where packages are installed, or with the standard library."""
    return not _INSTALLED.isdisjoint(place.parts) or place.is_relative_to(_standard_library())


@cache
def _standard_library() -> str:
    return sysconfig.get_path("stdlib")


def _distribution(place: Path) -> str:
    """Return the name and version of the distribution that installed a module; empty where none did."""
    listed = f"{place.name}/__init__.py," if place.is_dir() else f"{place.name},"
    for found in distributions(path=[str(place.parent)]):
        if any(line.startswith(listed) for line in (found.read_text("RECORD") or "").splitlines()):
            return f"{found.name} {found.version}"
    return ""


def _sha256(places: Iterable[Path]) -> str:
    """Return the hash over the names, sizes and contents of all files."""
    whole, room = hashlib.sha256(b"evopolicygym simulator code 1\n"), MOST_BYTES
    for root in places:
        files = sorted(_below(root)) if root.is_dir() else [(root.name, root)]
        for name, file in files[:MOST_FILES]:
            size = file.stat().st_size
            room -= size
            content = _digest(file) if room >= 0 else ""
            whole.update(f"{name}\0{size}\0{content}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _below(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of a package, each with its place in it; neither hidden ones, nor what Python compiled."""
    for directory, directories, files in os.walk(root):
        if RECORD_OF_A_RUN in files:
            directories.clear()
            continue
        directories[:] = [name for name in directories if name != "__pycache__" and not name.startswith(".")]
        for name in files:
            file = Path(directory, name)
            if not name.startswith(".") and not name.endswith((".pyc", ".pyo")) and file.is_file():
                yield file.relative_to(root).as_posix(), file
