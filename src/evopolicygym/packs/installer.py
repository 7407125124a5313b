"""Installs packs, each into a separate Python environment, and removes them.

A pack pins the exact versions of its downloads. An interrupted installation leaves no pack: it has another name until
it is complete, and the next attempt resumes it. ``other_python.py`` finds a Python for packs that ours doesn't fit.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import distributions
from pathlib import Path

from evopolicygym.core.errors import UsageError
from evopolicygym.core.pack import Pack, distribution_name
from evopolicygym.packs.contents import PYTHON as PYTHON_VERSION
from evopolicygym.packs.installation import (
    BEGIN,
    PYTHON,
    InstalledPack,
    foreign_command,
    installed,
    packs_directory,
    write_document,
)
from evopolicygym.packs.other_python import find_python, fits

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
    python = sys.executable if fits(pack.python, sys.version_info[:2]) else find_python(pack)
    requirements = (*pack.requirements, *_ours(pack))
    directory = packs_directory() / pack.name
    with _lock(directory) as lock:
        found = installed(pack.name)
        if found and set(found.requirements) == set(requirements):
            report("already installed")
            return found
        partial = _prepare_partial(directory.with_name(f"{pack.name}.partial"), requirements)
        log = partial / "install.log"
        if not os.access(partial / PYTHON, os.X_OK):
            report("making a Python environment")
            _run(_environment(partial / PYTHON.parts[0], python), log, lock)
        report(f"installing {', '.join(pack.requirements)} (about {pack.size_mb} MB)")
        for line in _requirements(partial, requirements, pack.no_dependencies):
            _run(line, log, lock)
        report("listing its contents")
        contents = _run(foreign_command(partial / PYTHON, CONTENTS, *pack.imports), log, lock)
        versions = json.loads(contents.splitlines()[-1])
        version = versions.pop(PYTHON_VERSION)
        whole = InstalledPack(partial, requirements, version, versions, _megabytes(partial))
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


def _check_installable(pack: Pack) -> None:
    if not pack.tasks:
        reasons = "; ".join(f"{task.what}: {task.reason}" for task in pack.unavailable)
        raise UsageError(f"The pack {pack.name!r} can't be installed. {reasons}")
    if pack.is_beside_us:
        how = f"pip install 'evopolicygym[{pack.extra}]'" if pack.extra else "it needs no installation"
        raise UsageError(f"The pack {pack.name!r} plays on the Python that evopolicygym is installed in: {how}.")


def _ours(pack: Pack) -> Iterator[str]:
    """Yield the requirements of this package that a pack doesn't pin, at the versions that run here."""
    named = set(map(distribution_name, pack.requirements))
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


def _environment(place: Path, python: str) -> list[str]:
    shutil.rmtree(place, ignore_errors=True)
    if uv := shutil.which("uv"):
        return [uv, "venv", "--quiet", "--python", python, str(place)]
    return [python, "-m", "venv", str(place)]


def _requirements(partial: Path, requirements: Sequence[str], no_dependencies: Sequence[str]) -> Iterator[list[str]]:
    """Yield the commands that install the requirements; those without their dependencies come last."""
    python, alone = str(partial / PYTHON), set(map(distribution_name, no_dependencies))
    if uv := shutil.which("uv"):
        line = [uv, "pip", "install", "--compile-bytecode", "--python", python]
    else:
        line = [python, "-m", "pip", "install", "--disable-pip-version-check"]
    if whole := [one for one in requirements if distribution_name(one) not in alone]:
        yield [*line, *whole]
    if bare := [one for one in requirements if distribution_name(one) in alone]:
        yield [*line, "--no-deps", *bare]


def _run(line: Sequence[str], log: Path, lock: int) -> str:
    """Run a program, append its output to the log and return it; raise ``UsageError`` with its end where it fails.

    It inherits the lock, so that a program that outlives this one, which was killed, meets no second installation.
    """
    done = subprocess.run(line, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, pass_fds=[lock])
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
def _lock(directory: Path) -> Iterator[int]:
    """Lock a pack against concurrent installation and removal; yield the lock's descriptor.

    Raises ``UsageError`` where it is locked.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f"{directory.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"The pack {directory.name!r} is being installed or removed by another program."
            ) from error
        yield lock.fileno()


def _megabytes(directory: Path) -> int:
    files = (path.lstat().st_size for path in directory.rglob("*") if not path.is_dir())
    return round(sum(files) / 1e6)
