"""Installs packs, each into a Python environment of its own, and removes them.

What is downloaded is named by the pack, exact versions included. An installation that is broken off leaves no pack:
it lies under another name until it is whole, and goes on where it stood when it is asked for again.
"""

import fcntl
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import distributions
from pathlib import Path

from evopolicygym.core.errors import UsageError
from evopolicygym.core.pack import Pack
from evopolicygym.packs.installation import PYTHON, InstalledPack, installed, packs_directory, write_document
from evopolicygym.packs.interpreter import BEGIN, elsewhere

OURS = ("gymnasium", "numpy", "pydantic", "pyseccomp")
"""What our own modules need in a pack's Python."""
LAST_LINES = 12
CONTENTS = "evopolicygym.packs.contents"
"""The module that says, on a pack's Python, what is there."""


def install(pack: Pack, tell: Callable[[str], None]) -> InstalledPack:
    """Install a pack and return it; ``tell`` is called with what is being done, in a few words.

    One that is installed as the pack says is left as it is. Raises ``UsageError`` where it can't be installed here.
    """
    _refuse(pack)
    requirements = (*pack.requirements, *_ours(pack))
    directory = packs_directory() / pack.name
    with _alone(directory):
        found = installed(pack.name)
        if found and set(found.requirements) == set(requirements):
            tell("it is installed")
            return found
        partial = _begun(directory.with_name(f"{pack.name}.partial"), requirements)
        log = partial / "install.log"
        if not os.access(partial / PYTHON, os.X_OK):
            tell("making a Python environment")
            _do(_environment(partial / PYTHON.parts[0]), log)
        tell(f"installing {', '.join(pack.requirements)} (about {pack.size_mb} MB)")
        _do(_requirements(partial), log)
        tell("looking at what is there")
        versions = json.loads(_do(elsewhere(partial / PYTHON, CONTENTS, *pack.imports), log).splitlines()[-1])
        whole = InstalledPack(partial, requirements, platform.python_version(), versions, _megabytes(partial))
        write_document(whole)
        if directory.exists():
            shutil.rmtree(directory)
        partial.rename(directory)
    return InstalledPack(directory, whole.requirements, whole.python, whole.versions, whole.size_mb)


def remove(name: str) -> bool:
    """Remove what is installed of a pack, whole or not; return whether there was anything."""
    directory = packs_directory() / name
    there = [place for place in (directory, directory.with_name(f"{name}.partial")) if place.is_dir()]
    if there:
        with _alone(directory):
            for place in there:
                shutil.rmtree(place)
    return bool(there)


def fits(asked: str, python: tuple[int, int]) -> bool:
    """Return whether a version of Python is one that a text such as ``>=3.11,<3.13`` allows."""
    for one in filter(None, asked.split(",")):
        found = re.fullmatch(r"\s*(>=|<)(\d+)\.(\d+)\s*", one)
        if not found:
            raise UsageError(f"{asked!r} names no versions of Python; >=3.11,<3.13 would.")
        bound = int(found[2]), int(found[3])
        if python < bound if found[1] == ">=" else python >= bound:
            return False
    return True


def _refuse(pack: Pack) -> None:
    if not pack.tasks:
        reasons = "; ".join(f"{one.what}: {one.reason}" for one in pack.unavailable)
        raise UsageError(f"The pack {pack.name!r} can't be installed. {reasons}")
    if pack.is_beside_us:
        how = f"pip install 'evopolicygym[{pack.extra}]'" if pack.extra else "it needs nothing besides"
        raise UsageError(f"The pack {pack.name!r} plays on the Python that evopolicygym is installed in: {how}.")
    if not fits(pack.python, sys.version_info[:2]):
        raise UsageError(
            f"The pack {pack.name!r} needs Python {pack.python}, and evopolicygym runs on {platform.python_version()}. "
            f"Policies play on the same Python as evopolicygym, so install that on such a one."
        )


def _ours(pack: Pack) -> Iterator[str]:
    """Yield what our own code needs beside what a pack names: where it names no version, the one that we run with."""
    named = {re.split("[^A-Za-z0-9_.-]", one)[0].lower() for one in pack.requirements}
    here = {one.metadata["Name"].lower(): one.version for one in distributions()}
    yield from (f"{name}=={here[name]}" for name in OURS if name not in named and name in here)


def _begun(partial: Path, requirements: Sequence[str]) -> Path:
    """Return the directory of an installation that is not whole yet: that of before, where it was for the same."""
    listed = "".join(f"{one}\n" for one in requirements)
    there = partial / "requirements.txt"
    if partial.is_dir() and not (there.is_file() and there.read_text(encoding="utf-8") == listed):
        shutil.rmtree(partial)
    partial.mkdir(parents=True, exist_ok=True)
    there.write_text(listed, encoding="utf-8")
    return partial


def _environment(place: Path) -> list[str]:
    shutil.rmtree(place, ignore_errors=True)
    if uv := shutil.which("uv"):
        return [uv, "venv", "--quiet", "--python", sys.executable, str(place)]
    return [sys.executable, "-m", "venv", str(place)]


def _requirements(partial: Path) -> list[str]:
    python, listed = str(partial / PYTHON), str(partial / "requirements.txt")
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--compile-bytecode", "--python", python, "-r", listed]
    return [python, "-m", "pip", "install", "--disable-pip-version-check", "-r", listed]


def _do(line: Sequence[str], log: Path) -> str:
    """Run a program and return what it printed, which is kept; raise ``UsageError`` with its end where it fails."""
    done = subprocess.run(line, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    with log.open("a", encoding="utf-8") as kept:
        kept.write(done.stdout + done.stderr)
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-LAST_LINES:])
        began = " ".join(word for word in line[:4] if word != BEGIN)
        raise UsageError(
            f"{began} … failed with exit code {done.returncode}:\n{said}\nAll that it printed is in {log}. What was "
            f"installed so far is kept: the same command goes on there."
        )
    return done.stdout


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Keep others from installing or removing the same pack at the same time."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f"{directory.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"The pack {directory.name!r} is being installed or removed by another program."
            ) from error
        yield


def _megabytes(directory: Path) -> int:
    files = (path.lstat().st_size for path in directory.rglob("*") if not path.is_dir())
    return round(sum(files) / 1e6)
