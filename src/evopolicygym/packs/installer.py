"""Installs packs, each into a separate Python environment, and removes them.

A pack pins the exact versions of its downloads. An interrupted installation leaves no pack: it has another name until
it is complete, and the next attempt resumes it.
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
from evopolicygym.packs.installation import (
    BEGIN,
    PYTHON,
    InstalledPack,
    foreign_command,
    installed,
    packs_directory,
    write_document,
)

OURS = ("gymnasium", "numpy", "pydantic", "pyseccomp")
"""Distributions that this package needs in a pack's Python."""
LAST_LINES = 12
CONTENTS = "evopolicygym.packs.contents"
"""The module that lists the contents of a pack's Python."""


def install(pack: Pack, report: Callable[[str], None]) -> InstalledPack:
    """Install a pack and return it; ``report`` is called with a few words on each step.

    An up-to-date installation is left unchanged. Raises ``UsageError`` where it can't be installed here.
    """
    _check_installable(pack)
    requirements = (*pack.requirements, *_ours(pack))
    directory = packs_directory() / pack.name
    with _lock(directory):
        found = installed(pack.name)
        if found and set(found.requirements) == set(requirements):
            report("already installed")
            return found
        partial = _prepare_partial(directory.with_name(f"{pack.name}.partial"), requirements)
        log = partial / "install.log"
        if not os.access(partial / PYTHON, os.X_OK):
            report("making a Python environment")
            _run(_environment(partial / PYTHON.parts[0]), log)
        report(f"installing {', '.join(pack.requirements)} (about {pack.size_mb} MB)")
        _run(_requirements(partial), log)
        report("listing its contents")
        versions = json.loads(_run(foreign_command(partial / PYTHON, CONTENTS, *pack.imports), log).splitlines()[-1])
        whole = InstalledPack(partial, requirements, platform.python_version(), versions, _megabytes(partial))
        write_document(whole)
        if directory.exists():
            shutil.rmtree(directory)
        partial.rename(directory)
    return InstalledPack(directory, whole.requirements, whole.python, whole.versions, whole.size_mb)


def remove(name: str) -> bool:
    """Remove a pack's installation, complete or not; return whether there was one."""
    directory = packs_directory() / name
    existing = [path for path in (directory, directory.with_name(f"{name}.partial")) if path.is_dir()]
    if existing:
        with _lock(directory):
            for path in existing:
                shutil.rmtree(path)
    return bool(existing)


def fits(specifier: str, python: tuple[int, int]) -> bool:
    """Return whether a specifier such as ``>=3.11,<3.13`` allows a version of Python."""
    for bound_text in filter(None, specifier.split(",")):
        found = re.fullmatch(r"\s*(>=|<)(\d+)\.(\d+)\s*", bound_text)
        if not found:
            raise UsageError(f"Invalid Python version {specifier!r}: expected bounds such as >=3.11,<3.13.")
        bound = int(found[2]), int(found[3])
        if python < bound if found[1] == ">=" else python >= bound:
            return False
    return True


def _check_installable(pack: Pack) -> None:
    if not pack.tasks:
        reasons = "; ".join(f"{task.what}: {task.reason}" for task in pack.unavailable)
        raise UsageError(f"The pack {pack.name!r} can't be installed. {reasons}")
    if pack.is_beside_us:
        how = f"pip install 'evopolicygym[{pack.extra}]'" if pack.extra else "it needs no installation"
        raise UsageError(f"The pack {pack.name!r} plays on the Python that evopolicygym is installed in: {how}.")
    if not fits(pack.python, sys.version_info[:2]):
        raise UsageError(
            f"The pack {pack.name!r} needs Python {pack.python}, and evopolicygym runs on {platform.python_version()}. "
            f"Policies play on the same Python as evopolicygym, so install evopolicygym on a Python that fits."
        )


def _ours(pack: Pack) -> Iterator[str]:
    """Yield the requirements of this package that a pack doesn't pin, at the versions that run here."""
    named = {re.split("[^A-Za-z0-9_.-]", requirement)[0].lower() for requirement in pack.requirements}
    here = {found.metadata["Name"].lower(): found.version for found in distributions()}
    yield from (f"{name}=={here[name]}" for name in OURS if name not in named and name in here)


def _prepare_partial(partial: Path, requirements: Sequence[str]) -> Path:
    """Return the directory of an incomplete installation; one with the same requirements is reused."""
    listed = "".join(f"{requirement}\n" for requirement in requirements)
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


def _run(line: Sequence[str], log: Path) -> str:
    """Run a program, append its output to the log and return it; raise ``UsageError`` with its end where it fails."""
    done = subprocess.run(line, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    with log.open("a", encoding="utf-8") as stream:
        stream.write(done.stdout + done.stderr)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-LAST_LINES:])
        start = " ".join(word for word in line[:4] if word != BEGIN)
        raise UsageError(
            f"{start} … failed with exit code {done.returncode}:\n{tail}\nIts whole output is in {log}. Run the same "
            f"command to resume the installation."
        )
    return done.stdout


@contextmanager
def _lock(directory: Path) -> Iterator[None]:
    """Lock a pack against concurrent installation and removal; raise ``UsageError`` where it is locked."""
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
