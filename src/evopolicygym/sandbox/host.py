"""What of this machine a Python needs to run: its standard library, the shared libraries, its program.

Named piece by piece, so that a sandbox shows these and nothing else: no site-packages, no other program.
"""

import os
import sys
import sysconfig
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

from evopolicygym.sandbox.base import PolicyLibrary, PolicyPython

PACKAGE_DIRECTORIES = {"site-packages", "dist-packages", "test", "idlelib", "ensurepip", "__pycache__"}
"""Parts of a standard library's directory that a policy has no business with."""
METADATA = ".dist-info"


@cache
def standard_library() -> tuple[str, ...]:
    """Return the entries of the standard library's directories, site-packages left out."""
    roots = dict.fromkeys((sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib", vars=_base())))
    return tuple(
        str(entry)
        for root in map(Path, roots)
        if root.is_dir()
        for entry in sorted(root.iterdir())
        if entry.name not in PACKAGE_DIRECTORIES
    )


@cache
def library_directories() -> tuple[str, ...]:
    """Return the directories of the system's shared libraries, real paths, outermost first."""
    triplet = sysconfig.get_config_var("MULTIARCH") or ""
    known = [f"/usr/lib/{triplet}", f"/lib/{triplet}"] if triplet and Path(f"/usr/lib/{triplet}").is_dir() else []
    candidates = [*known, "/usr/lib64", "/lib64", *([] if known else ["/usr/lib", "/lib"])]
    return tuple(dict.fromkeys(os.path.realpath(path) for path in candidates if Path(path).is_dir()))


@cache
def bundled_libraries() -> tuple[str, ...]:
    """Return shared libraries that this Python brings along outside the system's directories."""
    root = Path(sys.base_prefix) / "lib"
    if str(root) in {"/usr/lib", "/lib"}:
        return ()
    return tuple(str(path) for path in sorted(root.glob("*.so*")))


def python_program() -> str:
    """Return the real path of this Python's program, that of the environment's base."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def this_python() -> PolicyPython:
    """Return this Python as one that policies run on."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return PolicyPython(python_program(), version, standard_library(), bundled_libraries())


def library(distributions: Iterable[str], described: Collection[str] = ()) -> PolicyLibrary:
    """Return where the named distributions lie, as far as they are installed; of those ``described``, metadata too."""
    from importlib import metadata  # loads late: only a worker needs it

    paths: dict[str, Path] = {}
    versions: list[str] = []
    for name in distributions:
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        versions.append(f"{found.metadata['Name']}=={found.version}")
        left_out = (".pth",) if name in described else (".pth", METADATA)
        for file in found.files or ():
            top = file.parts[0]
            if top not in {"..", "__pycache__"} and not top.endswith(left_out):
                paths.setdefault(top, Path(str(found.locate_file(top))))
    return PolicyLibrary(paths, tuple(versions), this_python())


def _base() -> dict[str, str]:
    return {"base": sys.base_prefix, "platbase": sys.base_exec_prefix, "installed_platbase": sys.base_exec_prefix}
