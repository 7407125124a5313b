"""What a policy sees of this machine: the words for bwrap that lay it out, and the files behind it.

An interpreter with its standard library, the shared libraries that these need, the packages that it may import, the
guest's code and the checkpoint, all under neutral names and read-only. How a zygote is started in it is described in
``backends/bubblewrap.py``.
"""

import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from evopolicygym.sandbox.base import PolicyLibrary, PolicyPython, WorkerDirectory
from evopolicygym.sandbox.confinement.layers import Layers
from evopolicygym.sandbox.confinement.overlays import Overlays
from evopolicygym.sandbox.host import PACKAGE_DIRECTORIES, library_directories
from evopolicygym.sandbox.shared_libraries import libraries_of, needed_libraries

PYTHON, RUNTIME, PACKAGES, POLICY = "/usr/bin/python3", "/usr/lib/runtime", "/usr/lib/packages", "/policy"
DEVICES = ("/dev/null", "/dev/urandom")


def view(ground: WorkerDirectory, layers: Layers | None, *, shows_checkpoint: bool) -> Iterator[str]:
    """Yield the words that lay out what a zygote sees, as files of its own where there are layers.

    It may copy the checkpoint itself to where policies find it.
    """
    checkpoint = ("--ro-bind", str(ground.policy), POLICY) if shows_checkpoint else ("--dir", POLICY)
    if layers is None:
        yield from _shared_view(ground, checkpoint)
        return
    overlays = Overlays(layers)
    yield from _own_machine(overlays, ground.library)
    for name, path in ground.library.paths.items():
        yield from overlays.shown(str(path), f"{PACKAGES}/{name}")
    yield from ("--ro-bind", str(ground.runtime), RUNTIME)
    yield from checkpoint
    yield from overlays.devices([Path(device).name for device in DEVICES])
    yield from ("--remount-ro", "/", "--chdir", POLICY)


def seen_files(library: PolicyLibrary) -> Iterator[str]:
    """Yield the files and directories of the machine that policies read from."""
    yield from (str(path) for path in library.paths.values())
    yield from library.python.standard_library
    names = _needed(library.python, tuple(library.paths.values()))
    for root in library_directories():
        yield from (place for name in names if os.path.isfile(place := f"{root}/{name}"))  # noqa: PTH113 - as text


def _own_machine(overlays: Overlays, library: PolicyLibrary) -> Iterator[str]:
    """Yield the words for an interpreter with its standard library, in overlays."""
    python = library.python
    needed = _needed(python, tuple(library.paths.values()))
    laid_later = (_standard_library(python), RUNTIME, PACKAGES)
    for root in library_directories():
        inside = [str(Path(place).relative_to(root)) for place in laid_later if Path(place).is_relative_to(root)]
        kept = needed | {place.partition("/")[0] for place in inside}
        with os.scandir(root) as entries:
            hidden = [entry.name for entry in entries if entry.name not in kept]
        yield from overlays.words(root, root, {".": hidden}, inside)
    yield from links()
    *below, first = dict.fromkeys(str(Path(entry).parent) for entry in python.standard_library)
    hidden_parts = [
        name for name in PACKAGE_DIRECTORIES if any((Path(root) / name).exists() for root in (*below, first))
    ]
    yield from overlays.words(first, _standard_library(python), {".": hidden_parts}, below=below)
    for library_file in python.bundled_libraries:
        yield from overlays.copied(library_file, _found_first(Path(library_file).name))
    yield from overlays.copied(python.program, PYTHON)


def _standard_library(python: PolicyPython) -> str:
    """Return where a policy sees its Python's standard library."""
    return f"/usr/{sys.platlibdir}/python{python.version}"


@cache
def _needed(python: PolicyPython, packages: tuple[Path, ...]) -> frozenset[str]:
    """Return the names of the system's libraries that Python, its standard library and some packages need."""
    parts = (*map(Path, python.standard_library), *map(Path, python.bundled_libraries), *packages)
    files = (Path(python.program), *(file for part in parts for file in libraries_of(part)))
    bundled = {Path(path).name for path in python.bundled_libraries}
    return needed_libraries(files, library_directories()) | bundled


def _shared_view(ground: WorkerDirectory, checkpoint: tuple[str, ...]) -> Iterator[str]:
    """Yield the same words where files are the machine's own."""
    yield from _machine(ground.library.python)
    for name, path in ground.library.paths.items():
        yield from ("--ro-bind", str(path), f"{PACKAGES}/{name}")
    yield from ("--ro-bind", str(ground.runtime), RUNTIME)
    yield from checkpoint
    for device in DEVICES:
        yield from ("--dev-bind", device, device)
    for place in (*_other_pythons(), "/"):
        yield from ("--remount-ro", place)
    yield from ("--chdir", POLICY)


def _machine(python: PolicyPython) -> Iterator[str]:
    """Yield the words for an interpreter with its standard library."""
    for root in library_directories():
        yield from ("--ro-bind", root, root)
    for place in _other_pythons():
        yield from ("--tmpfs", place)
    yield from links()
    for entry in python.standard_library:
        yield from ("--ro-bind", entry, f"{_standard_library(python)}/{Path(entry).name}")
    for library in python.bundled_libraries:
        yield from ("--ro-bind", library, _found_first(Path(library).name))
    yield from ("--ro-bind", python.program, PYTHON)


def _found_first(name: str) -> str:
    """Return where a shared library of this name is looked for first: over the system's own, where there is one."""
    for place in (Path(root, name) for root in library_directories()):
        if place.exists() and (real := place.resolve()).is_relative_to(place.parent):
            return str(real)
    return f"/usr/lib/{name}"


def _other_pythons() -> list[str]:
    return [str(python) for root in library_directories() for python in sorted(Path(root).glob("python3*"))]


def links() -> Iterator[str]:
    """Yield the words for ``/lib`` and ``/lib64``, where programs look for their loader."""
    for link in ("/lib", "/lib64"):
        if Path(link).is_symlink():
            yield from ("--symlink", str(Path(link).readlink()), link)
        elif Path(link).is_dir():
            yield from ("--ro-bind", link, link)
