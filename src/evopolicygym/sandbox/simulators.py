"""Which modules no agent may import, and where they lie in the trees of this machine that an agent is shown.

They are looked for by their names in every directory, as packages lie in many places: environments of conda, caches of
packages, eggs, what an editable install points to. ``program/view.py`` hides them; that no Python in
there imports one is looked at by ``inside/preflight.py``.
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from evopolicygym.core.errors import SandboxError

MODULES = (
    "gymnasium", "gymnasium_robotics", "mujoco", "minigrid", "highway_env", "Box2D",
    "gym", "gym_minigrid", "mujoco_py", "mujoco_mjx", "dm_control", "brax", "gymnax", "envpool",
)  # fmt: skip
"""The simulators of the environments that come with the package, and other packages that simulate the same."""
OURS = "evopolicygym"
"""This package has references, and what every environment's anchors are."""
DISTRIBUTIONS = frozenset({"box2d_py", "box2d_kengz"})
"""What else a module's files may be called after."""
FILES = (
    ".py", ".pyc", ".so", ".egg", ".egg-link", ".egg-info", ".dist-info", ".pth", ".whl", ".zip", ".pyz", ".conda",
    ".tar.gz", ".tar.bz2",
)  # fmt: skip
PYTHON = re.compile(r"(python|pypy)\d*(\.\d+)?t?")
VERSION = re.compile(r"\.|_(?=v?\d)")
MOST_DIRECTORIES = 500_000


@dataclass(frozen=True, slots=True)
class SimulatorPlaces:
    """What was found in a tree."""

    hidden: Mapping[str, frozenset[str]]
    """Directories with those of their entries that are a simulator's, outermost first."""
    pythons: tuple[str, ...]
    """Programs that may be a Python."""


def hidden_modules(of_run: Iterable[str] = ()) -> tuple[str, ...]:
    """Return all modules that an agent may not import, those of its run's environment among them.

    A module is a name, looked for wherever it may lie, or the absolute path of its file or its package.
    """
    return tuple(dict.fromkeys((*MODULES, OURS, *of_run)))


def names_of(modules: Iterable[str]) -> tuple[str, ...]:
    """Return those of modules that are names."""
    return tuple(module for module in modules if not os.path.isabs(module))  # noqa: PTH117 - as text


def search(tree: str, modules: Collection[str]) -> SimulatorPlaces:
    """Look for modules in a tree, no link followed; raise ``SandboxError`` where it is too large."""
    places = (os.path.realpath(module) for module in set(modules).difference(names_of(modules)))
    within = frozenset(place for place in places if place.startswith(f"{os.path.realpath(tree)}/"))
    return _search(tree, frozenset(map(_plain, names_of(modules))) | DISTRIBUTIONS, within)


def is_one(path: Path, modules: Collection[str]) -> bool:
    """Return whether a path is such a module itself: the directory of its package, or its file."""
    if os.path.realpath(path) in {os.path.realpath(module) for module in set(modules).difference(names_of(modules))}:
        return True
    return (path / "__init__.py").exists() and _plain(path.name) in set(map(_plain, names_of(modules)))


def first_of(path: Path, modules: Collection[str]) -> str:
    """Return where the first of such modules lies at or in a path; empty where there is none."""
    if _plain(path.name) in frozenset(map(_plain, names_of(modules))) | DISTRIBUTIONS:
        return str(path)
    hidden = search(str(path), modules).hidden
    return next((f"{directory}/{name}" for directory, names in hidden.items() for name in names), "")


@cache
def _search(tree: str, names: frozenset[str], places: frozenset[str]) -> SimulatorPlaces:
    lying = _lying(tree, places)
    hidden: dict[str, frozenset[str]] = {}
    pythons: list[str] = []
    waiting, looked = [tree], 0
    while waiting:
        directory, looked = waiting.pop(), looked + 1
        if looked > MOST_DIRECTORIES:
            raise SandboxError(
                f"The agent's command shows {tree}, which holds more than {MOST_DIRECTORIES} directories: too many to "
                f"look for simulators in. Name what it needs more narrowly."
            )
        try:
            with os.scandir(directory) as listing:
                entries = list(listing)
        except OSError:  # it is a file, or nobody may look into it
            continue
        here = names | lying.get(directory, frozenset())
        found = frozenset(entry.name for entry in entries if _is_hidden(entry, here))
        if found:
            hidden[directory] = found
        below = (entry.path for entry in entries if entry.name not in found and entry.is_dir(follow_symlinks=False))
        waiting.extend(below)
        pythons += [entry.path for entry in entries if PYTHON.fullmatch(entry.name) and _is_program(entry)]
    return SimulatorPlaces(hidden, tuple(sorted(pythons)))


def _lying(tree: str, places: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the directories of a tree in which modules given by paths lie, with what they are called there."""
    found: dict[str, frozenset[str]] = {}
    for place in places:
        parent, name = os.path.split(os.path.relpath(place, os.path.realpath(tree)))
        directory = os.path.join(tree, parent) if parent else tree  # noqa: PTH118 - as os.scandir calls it
        for location in (directory, f"{directory}/__pycache__"):
            found[location] = found.get(location, frozenset()) | {_plain(name)}
    return found


def _is_hidden(entry: "os.DirEntry[str]", names: frozenset[str]) -> bool:
    called = [entry.name]
    if entry.is_symlink():
        called.append(os.path.basename(os.readlink(entry.path)))  # noqa: PTH115, PTH119 - of thousands
    if not any(_plain(name) in names for name in called):
        return False
    return entry.is_dir() or any(name.lower().endswith(FILES) for name in called)


def _plain(name: str) -> str:
    """Return what a file is called after, as modules are: without a version or a suffix."""
    return VERSION.split(name.lower().replace("-", "_"), maxsplit=1)[0]


def _is_program(entry: "os.DirEntry[str]") -> bool:
    return entry.is_file() and os.access(entry.path, os.X_OK)
