"""What an environment's results depend on: versions of distributions, and hashes of its modules' files.

A spec's ``packages`` names the distributions. A run records both and compares them when it is resumed. Agents can't
import the modules of an environment.
"""

import base64
import hashlib
import os
import platform
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions, metadata, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from evopolicygym.core.errors import MissingExtra, UsageError
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.packs.installation import installed

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

_RIVALS = {"pygame": ("pygame", "pygame-ce")}
"""Distributions that overwrite each other's files. Minigrid requires pygame-ce and highway-env requires pygame: both
are installed, the later one wins, and they draw different pixels."""


def versions(spec: EnvironmentSpec) -> dict[str, str]:
    """Return the versions of Python, numpy, gymnasium and the spec's packages, by distribution.

    If two distributions provide a package, the one whose files are on disk is returned. Raises ``MissingExtra`` if a
    package isn't installed.
    """
    result = {"python": platform.python_version(), "numpy": version("numpy"), "gymnasium": version("gymnasium")}
    for package in spec.packages:
        try:
            found_provider = provider(package)
        except PackageNotFoundError as error:
            raise not_installed(spec, package) from error
        result[found_provider] = version(found_provider)
    return result


def is_installed(spec: EnvironmentSpec) -> bool:
    """Return whether all packages of a spec are installed in the Python that plays it."""
    return bool(installed(spec.pack)) if spec.pack else are_installed(spec.packages)


def are_installed(packages: Iterable[str]) -> bool:
    """Return whether distributions, or their substitutes, are installed in this Python."""
    return all(any(map(_is_installed, _RIVALS.get(package, (package,)))) for package in packages)


def not_installed(spec: EnvironmentSpec, missing: str) -> UsageError:
    """Return the error for a missing module or package, with how to install it."""
    if spec.extra in _own_extras():  # a record from elsewhere may state any text, which is no part of a command
        return MissingExtra(f"The environment {spec.name!r}", spec.extra, missing)
    if any(f"{name}.".startswith(f"{missing}.") for name in spec.registering_modules):
        return UsageError(
            f"The environment {spec.name!r} needs the module {missing}, which is neither on Python's path nor beside "
            f"its TOML file. Install the package that provides it, or set the directory of {missing}.py: PYTHONPATH=DIR"
        )
    return UsageError(
        f"The environment {spec.name!r} needs {missing}, which is not installed; install the package that provides it."
    )


@cache
def _own_extras() -> frozenset[str]:
    return frozenset(metadata("evopolicygym").get_all("Provides-Extra") or ())


@cache
def provider(package: str) -> str:
    """Return the distribution whose files are on disk for a package; raise ``PackageNotFoundError`` if none."""
    installed = [name for name in _RIVALS.get(package, (package,)) if _is_installed(name)]
    if not installed:
        raise PackageNotFoundError(package)
    return max(installed, key=lambda name: _files_in_place(distribution(name))) if len(installed) > 1 else installed[0]


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _files_in_place(distribution: Distribution) -> float:
    """Return the share of a distribution's compiled modules that are unchanged on disk."""
    modules = [file for file in distribution.files or () if file.suffix in {".so", ".pyd"} and file.hash is not None]
    intact = sum(_digest(distribution, str(file)) == file.hash.value for file in modules if file.hash is not None)
    return intact / max(1, len(modules))


def _digest(distribution: Distribution, file: str) -> str:
    try:
        with open(str(distribution.locate_file(file)), "rb") as module:  # noqa: PTH123 - a SimplePath has no open
            digest = hashlib.file_digest(module, "sha256").digest()
    except OSError:
        return ""
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


MAX_FILES, MAX_BYTES = 20_000, 512 << 20
"""Limits for a module: beyond these bytes only sizes of files are hashed; further files are ignored."""
RUN_FILE = "journal.jsonl"
"""The file by which run directories inside a package are recognised and left out."""
_NOT_HASHED = {"evopolicygym", "gymnasium", *sys.stdlib_module_names}
"""Modules that a run identifies by versions instead."""
_SITE_PACKAGES = {"site-packages", "dist-packages"}


def simulators_of(spec: EnvironmentSpec) -> tuple[str, ...]:
    """Return the outermost modules that register a spec's id."""
    return tuple(dict.fromkeys(name.partition(".")[0] for name in spec.registering_modules))


def simulator_code(spec: EnvironmentSpec) -> dict[str, str]:
    """Return the code of an environment's modules; it must have been created in this process.

    These are the modules that the spec names, those of its classes, and what they have imported so far from their own
    directories, without installed packages.
    """
    makers = dict.fromkeys([*simulators_of(spec), *entry_point_modules(spec)])
    own = {path.parent for name in makers for path in _locate(name) if not _in_site_packages(path)}
    return code_of([*makers, *_modules_imported_from(own)])


def code_of(modules: Iterable[str]) -> dict[str, str]:
    """Return the code of modules by name; missing modules are left out.

    A module's code is the distribution that installed it, if any, and the hash of its file, or of all files of its
    package except compiled ones. No module is imported.
    """
    hashes = {}
    for name in sorted(set(modules) - _NOT_HASHED):
        if paths := _locate(name):
            installed = _distribution(paths[0]) if _in_site_packages(paths[0]) else ""
            hashes[name] = f"{f'{installed}, ' if installed else ''}sha256 {_sha256(paths)}"
    return hashes


def places_of(modules: Iterable[str]) -> tuple[str, ...]:
    """Return the paths of modules: files, or directories of packages. No module is imported."""
    return tuple(str(path) for name in sorted(set(modules) - _NOT_HASHED) for path in _locate(name))


def without_installed(modules: Iterable[str]) -> list[str]:
    """Return the modules that lie beside a script or in somebody's own directory, sorted. No module is imported."""
    outermost = {name: name.partition(".")[0] for name in modules}
    own = {
        name
        for name in set(outermost.values()) - _NOT_HASHED - {"__main__"}
        if any(not _in_site_packages(path) for path in _locate(name))
    }
    return sorted(name for name, top in outermost.items() if top in own)


def registration(spec: EnvironmentSpec) -> "EnvSpec":
    """Return gymnasium's registration of a spec's id, whose modules were imported.

    Of ``module:Class`` with an unregistered name, it is that of the class or function. Raises gymnasium's
    errors.
    """
    import gymnasium

    try:
        return gymnasium.spec(spec.registered_id)
    except gymnasium.error.Error:  # of an unregistered name, or of one without its version
        module, _, name = spec.id.rpartition(":")
        maker = getattr(sys.modules.get(module), name, None)
        if not callable(maker):
            raise
        return gymnasium.envs.registration.EnvSpec(id=name, entry_point=maker)


def entry_point_modules(spec: EnvironmentSpec) -> Iterator[str]:
    """Yield the outermost modules of the classes behind a registered id, including wrappers."""
    registered = registration(spec)
    for point in (registered.entry_point, *(wrapper.entry_point for wrapper in registered.additional_wrappers)):
        module = point.partition(":")[0] if isinstance(point, str) else getattr(point, "__module__", "")
        if module:
            yield module.partition(".")[0]


def _modules_imported_from(directories: set[Path]) -> Iterator[str]:
    """Yield the outermost names of modules imported from directories so far, without installed ones."""
    if not directories:
        return
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or name == "__main__":
            continue
        path = Path(file)
        if not _in_site_packages(path) and any(path.is_relative_to(directory) for directory in directories):
            yield name.partition(".")[0]


def _locate(name: str) -> list[Path]:
    """Return the directories or the file of an outermost module; nothing if it can't be found."""
    try:
        module = find_spec(name)
    except (ImportError, ValueError):
        return []
    if module is None:
        return []
    if module.submodule_search_locations is not None:
        return [Path(path) for path in module.submodule_search_locations]
    origin = Path(module.origin or "")
    archives = (path for path in (origin, *origin.parents) if path.is_file())
    return list(archives)[:1]


def _in_site_packages(path: Path) -> bool:
    """Return whether a path is in a directory of installed packages or in the standard library."""
    return not _SITE_PACKAGES.isdisjoint(path.parts) or path.is_relative_to(_standard_library())


@cache
def _standard_library() -> str:
    return sysconfig.get_path("stdlib")


def _distribution(path: Path) -> str:
    """Return the name and version of the distribution that installed a module; empty if none did."""
    listed = f"{path.name}/__init__.py," if path.is_dir() else f"{path.name},"
    for owner in distributions(path=[str(path.parent)]):
        if any(line.startswith(listed) for line in (owner.read_text("RECORD") or "").splitlines()):
            return f"{owner.name} {owner.version}"
    return ""


def _sha256(paths: Iterable[Path]) -> str:
    """Return the hash over the names, sizes and contents of all files."""
    total, remaining = hashlib.sha256(b"evopolicygym simulator code 1\n"), MAX_BYTES
    for root in paths:
        files = sorted(_package_files(root)) if root.is_dir() else [(root.name, root)]
        for name, file in files[:MAX_FILES]:
            size = file.stat().st_size
            remaining -= size
            content = _file_digest(file) if remaining >= 0 else ""
            total.update(f"{name}\0{size}\0{content}\n".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def _file_digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _package_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of a package with their relative paths, without hidden and compiled files."""
    for directory, directories, files in os.walk(root):
        if RUN_FILE in files:
            directories.clear()
            continue
        directories[:] = [name for name in directories if name != "__pycache__" and not name.startswith(".")]
        for name in files:
            file = Path(directory, name)
            if not name.startswith(".") and not name.endswith((".pyc", ".pyo")) and file.is_file():
                yield file.relative_to(root).as_posix(), file
