"""The search for simulators, which agents may not import, in the directories of this machine that an agent sees.

They are searched by name in every directory, since packages are in many places: conda environments, package caches,
eggs, targets of editable installs. ``program/view.py`` hides them, and ``inside/preflight.py`` checks that no Python in
the sandbox imports one.
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
"""The simulators of the package's environments, and other packages that simulate the same."""
OURS = "evopolicygym"
"""This package, which has reference policies and anchors."""
DISTRIBUTIONS = frozenset({"box2d_py", "box2d_kengz"})
"""Names of distributions that differ from their modules' names."""
FILES = (
    ".py", ".pyc", ".so", ".egg", ".egg-link", ".egg-info", ".dist-info", ".pth", ".whl", ".zip", ".pyz", ".conda",
    ".tar.gz", ".tar.bz2",
)  # fmt: skip
PYTHON = re.compile(r"(python|pypy)\d*(\.\d+)?t?")
VERSION = re.compile(r"\.|_(?=v?\d)")
MOST_DIRECTORIES = 500_000


@dataclass(frozen=True, slots=True)
class SimulatorFiles:
    """The simulators in a directory tree."""

    hidden: Mapping[str, frozenset[str]]
    """Names of a simulator's entries by their directory, outermost first."""
    pythons: tuple[str, ...]
    """Executables that may be a Python."""


def hidden_modules(of_run: Iterable[str] = ()) -> tuple[str, ...]:
    """Return all modules that an agent may not import, including those of its run's environment.

    A module is given by name, which is searched everywhere, or by the absolute path of its file or package.
    """
    return tuple(dict.fromkeys((*MODULES, OURS, *of_run)))


def names_of(modules: Iterable[str]) -> tuple[str, ...]:
    """Return the modules that are given by name."""
    return tuple(module for module in modules if not os.path.isabs(module))  # noqa: PTH117 - as text


def search(tree: str, modules: Collection[str]) -> SimulatorFiles:
    """Search a tree for modules, without following links; raise ``SandboxError`` if it is too large."""
    paths = (os.path.realpath(module) for module in set(modules).difference(names_of(modules)))
    within = frozenset(path for path in paths if path.startswith(f"{os.path.realpath(tree)}/"))
    return _search(tree, frozenset(map(_plain, names_of(modules))) | DISTRIBUTIONS, within)


def is_module(path: Path, modules: Collection[str]) -> bool:
    """Return whether a path is the file or the package directory of one of the modules."""
    if os.path.realpath(path) in {os.path.realpath(module) for module in set(modules).difference(names_of(modules))}:
        return True
    return (path / "__init__.py").exists() and _plain(path.name) in set(map(_plain, names_of(modules)))


def find_first(path: Path, modules: Collection[str]) -> str:
    """Return the path of the first of the modules at or below a path; empty if there is none."""
    if _plain(path.name) in frozenset(map(_plain, names_of(modules))) | DISTRIBUTIONS:
        return str(path)
    hidden = search(str(path), modules).hidden
    return next((f"{directory}/{name}" for directory, names in hidden.items() for name in names), "")


@cache
def _search(tree: str, names: frozenset[str], paths: frozenset[str]) -> SimulatorFiles:
    by_directory = _names_by_directory(tree, paths)
    hidden: dict[str, frozenset[str]] = {}
    pythons: list[str] = []
    waiting, count = [tree], 0
    while waiting:
        directory, count = waiting.pop(), count + 1
        if count > MOST_DIRECTORIES:
            raise SandboxError(
                f"The agent's command shows {tree}, which has more than {MOST_DIRECTORIES} directories: too many to "
                f"search for simulators. Name a smaller directory."
            )
        try:
            with os.scandir(directory) as listing:
                entries = list(listing)
        except OSError:  # a file, or unreadable
            continue
        here = names | by_directory.get(directory, frozenset())
        matches = frozenset(entry.name for entry in entries if _is_hidden(entry, here))
        if matches:
            hidden[directory] = matches
        below = (entry.path for entry in entries if entry.name not in matches and entry.is_dir(follow_symlinks=False))
        waiting.extend(below)
        pythons += [entry.path for entry in entries if PYTHON.fullmatch(entry.name) and _is_program(entry)]
    return SimulatorFiles(hidden, tuple(sorted(pythons)))


def _names_by_directory(tree: str, paths: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the names of modules that are given by path, by the directories of the tree in which they are."""
    names: dict[str, frozenset[str]] = {}
    for path in paths:
        parent, name = os.path.split(os.path.relpath(path, os.path.realpath(tree)))
        directory = os.path.join(tree, parent) if parent else tree  # noqa: PTH118 - as named by os.scandir
        for location in (directory, f"{directory}/__pycache__"):
            names[location] = names.get(location, frozenset()) | {_plain(name)}
    return names


def _is_hidden(entry: "os.DirEntry[str]", names: frozenset[str]) -> bool:
    own_names = [entry.name]
    if entry.is_symlink():
        own_names.append(os.path.basename(os.readlink(entry.path)))  # noqa: PTH115, PTH119 - faster for thousands
    if not any(_plain(name) in names for name in own_names):
        return False
    return entry.is_dir() or any(name.lower().endswith(FILES) for name in own_names)


def _plain(name: str) -> str:
    """Return a file's name as a module's name: without a version or suffix."""
    return VERSION.split(name.lower().replace("-", "_"), maxsplit=1)[0]


def _is_program(entry: "os.DirEntry[str]") -> bool:
    return entry.is_file() and os.access(entry.path, os.X_OK)
