"""Finds another Python for packs that can't be installed on ours: on the path, by ``uv`` or in pyenv.

Only workers run on it. Policies keep our Python and our numpy.
"""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from evopolicygym.core.errors import UsageError
from evopolicygym.core.pack import Pack

MINORS = range(11, 31)
"""Minor versions of Python 3 to look for; our code needs at least the first."""
PATIENCE_S = 30.0
VERSION = "import ensurepip, sys, venv; print(*sys.version_info[:2])"
"""Prints the version of a Python that can make virtual environments."""
BOUND = re.compile(r"\s*(>=|<)(\d+)\.(\d+)\s*")


def fits(specifier: str, python: tuple[int, int]) -> bool:
    """Return whether a specifier such as ``>=3.11,<3.13`` allows a version of Python."""
    for bound_text in filter(None, specifier.split(",")):
        found = BOUND.fullmatch(bound_text)
        if not found:
            raise UsageError(f"Invalid Python version {specifier!r}: expected bounds such as >=3.11,<3.13.")
        bound = int(found[2]), int(found[3])
        if python < bound if found[1] == ">=" else python >= bound:
            return False
    return True


def find_python(pack: Pack) -> str:
    """Return a Python that a pack can be installed on; raise ``UsageError`` if there is none."""
    fitting = [f"3.{minor}" for minor in MINORS if fits(pack.python, (3, minor))]
    for program in _candidates(pack.python, fitting):
        if (version := _version(program)) and fits(pack.python, version):
            return program
    wanted = next(iter(fitting), "")
    hint = f" Install one: uv python install {wanted}, or pyenv install {wanted}." if wanted else ""
    raise UsageError(
        f"The pack {pack.name!r} needs Python {pack.python}, and evopolicygym runs on {platform.python_version()}. No "
        f"other Python was found on the path, by uv or in pyenv.{hint}"
    )


def _candidates(specifier: str, fitting: list[str]) -> Iterator[str]:
    """Yield programs that may be a fitting Python."""
    yield from filter(None, (shutil.which(f"python{version}") for version in fitting))
    if uv := shutil.which("uv"):
        yield from _printed([uv, "python", "find", "--no-project", specifier]).splitlines()[:1]
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for version in fitting:
        yield from map(str, sorted(root.glob(f"{version}.*/bin/python{version}"), reverse=True))


def _version(program: str) -> tuple[int, int] | None:
    """Return the version of a Python that can make virtual environments; None if it fails."""
    major, _, minor = _printed([program, "-I", "-c", VERSION]).partition(" ")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def _printed(line: list[str]) -> str:
    """Return the output of a program; empty if it fails."""
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if done.returncode else done.stdout.strip()
