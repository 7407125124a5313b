"""Installs packs, each into a separate Python environment, and removes them.

A pack pins the exact versions of its downloads. An interrupted installation leaves no pack: it has another name until
it is complete, and the next attempt resumes it. For a pack that our Python doesn't fit, another is searched on the
path, by ``uv`` and in pyenv; only workers run on it.

As a program, ``installer MODULE …`` runs on a pack's Python: it imports the modules that register the pack's
environments, so that an import error is found at installation, and prints the versions of ``python`` and of all
distributions as a JSON object in its last line.
"""

import fcntl
import importlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import distributions
from pathlib import Path

from evopolicygym.core.errors import UsageError
from evopolicygym.core.pack import Pack, distribution_name
from evopolicygym.packs.installation import (
    BEGIN,
    PYTHON,
    InstalledPack,
    foreign_command,
    installed,
    packs_directory,
    write_document,
)

OURS = ("gymnasium", "numpy", "pydantic")
"""Distributions that this package needs in a pack's Python."""
LAST_LINES = 8
MOST_CHARACTERS = 300
"""The longest line of an installer that an error shows."""
NOISE = re.compile(r"WARNING: (Retrying|Location|There was an error checking)|Looking in |Processing |\[notice\]")
"""Begins lines of pip that explain no failure."""
CAUSES = (
    (re.compile(r"No space left on device|os error 28|Disk quota exceeded"), "the disk is full"),
    (
        re.compile(
            r"name resolution|Failed to establish a new connection|Network is unreachable|dns error|ConnectTimeout"
        ),
        "the package index can't be reached",
    ),
    (re.compile(r"No matching distribution found|there is no version of"), "the package index lacks a pinned version"),
)
"""What an installer prints, and what it means."""
CONTENTS = "evopolicygym.packs.installer"
"""The module that lists the contents of a pack's Python, as a program."""
PYTHON_VERSION = "python"
MINORS = range(11, 31)
"""Minor versions of Python 3 to look for; our code needs at least the first."""
SEARCH_TIMEOUT_S = 30.0
VERSION = "import ensurepip, sys, venv; print(*sys.version_info[:2])"
"""Prints the version of a Python that can make virtual environments."""
BOUND = re.compile(r"\s*(>=|<)(\d+)\.(\d+)\s*")


def install(pack: Pack, report: Callable[[str], None]) -> InstalledPack:
    """Install a pack and return it; ``report`` is called with a few words on each step.

    An up-to-date installation is left unchanged. Raises ``UsageError`` where it can't be installed here.
    """
    _check_installable(pack)
    python = sys.executable if fits(pack.python, sys.version_info[:2]) else find_python(pack)
    requirements = (*pack.requirements, *_ours(pack))
    directory = packs_directory() / pack.name
    with _explained(pack, directory), _lock(directory) as lock:
        existing = installed(pack.name)
        if existing and set(existing.requirements) == set(requirements):
            report("already installed")
            return existing
        _check_space(pack, directory)
        partial = _prepare_partial(_partial(directory), requirements)
        log = partial / "install.log"
        if not os.access(partial / PYTHON, os.X_OK):
            report("making a Python environment")
            _run(_environment_command(partial / PYTHON.parts[0], python), log, lock)
        report(f"installing {', '.join(pack.requirements)} (about {pack.size_mb} MB)")
        for line in _install_commands(partial, requirements, pack.no_dependencies):
            _run(line, log, lock)
        report("listing its contents")
        contents = _run(foreign_command(partial / PYTHON, CONTENTS, *pack.imports), log, lock)
        versions = json.loads(contents.splitlines()[-1])
        version = versions.pop(PYTHON_VERSION)
        complete = InstalledPack(partial, requirements, version, versions, _megabytes(partial))
        write_document(complete)
        if directory.exists():
            shutil.rmtree(directory)
        partial.rename(directory)
    return replace(complete, directory=directory)


def remove(name: str) -> bool:
    """Remove a pack's installation, complete or not; return whether there was one."""
    directory = packs_directory() / name
    existing = [path for path in (directory, _partial(directory)) if path.is_dir()]
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


def _check_space(pack: Pack, directory: Path) -> None:
    """Raise ``UsageError`` if the disk has less room than a pack needs, beside what is there of an incomplete one."""
    free = shutil.disk_usage(directory.parent).free // 10**6 + _megabytes(_partial(directory))
    if free < pack.size_mb:
        raise UsageError(
            f"The pack {pack.name!r} needs about {pack.size_mb} MB in {directory.parent}, which has {free} MB free. "
            "Free some space, or set XDG_DATA_HOME to a directory on another disk."
        )


@contextmanager
def _explained(pack: Pack, directory: Path) -> Iterator[None]:
    """Have an error of the file system name the pack, the place and what to do."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"The pack {pack.name!r} was not installed: {error.strerror or error} "
            f"({error.filename or directory.parent}). "
            f"{_next_steps(pack.name)}"
        ) from error


def _next_steps(name: str) -> str:
    return f"The same command resumes the installation; evopolicygym packs remove {name} removes what is there."


def _partial(directory: Path) -> Path:
    """Return where a pack lies until its installation is complete."""
    return directory.with_name(f"{directory.name}.partial")


def _ours(pack: Pack) -> Iterator[str]:
    """Yield the requirements of this package that a pack doesn't pin, at the versions that run here."""
    pinned = set(map(distribution_name, pack.requirements))
    here = {distribution.metadata["Name"].lower(): distribution.version for distribution in distributions()}
    yield from (f"{name}=={here[name]}" for name in OURS if name not in pinned and name in here)


def _prepare_partial(partial: Path, requirements: Sequence[str]) -> Path:
    """Return the directory of an incomplete installation; one with the same requirements is reused."""
    text = "".join(f"{requirement}\n" for requirement in requirements)
    file = partial / "requirements.txt"
    if partial.is_dir() and not (file.is_file() and file.read_text(encoding="utf-8") == text):
        shutil.rmtree(partial)
    partial.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return partial


def _environment_command(directory: Path, python: str) -> list[str]:
    shutil.rmtree(directory, ignore_errors=True)
    if uv := shutil.which("uv"):
        return [uv, "venv", "--quiet", "--python", python, str(directory)]
    return [python, "-I", "-m", "venv", str(directory)]  # -I: nothing of the present directory


def _install_commands(
    partial: Path, requirements: Sequence[str], no_dependencies: Sequence[str]
) -> Iterator[list[str]]:
    """Yield the commands that install the requirements; those without their dependencies come last."""
    python, alone = str(partial / PYTHON), set(map(distribution_name, no_dependencies))
    if uv := shutil.which("uv"):
        line = [uv, "pip", "install", "--compile-bytecode", "--python", python]
    else:
        line = [python, "-I", "-m", "pip", "install", "--disable-pip-version-check"]
    if complete := [requirement for requirement in requirements if distribution_name(requirement) not in alone]:
        yield [*line, *complete]
    if bare := [requirement for requirement in requirements if distribution_name(requirement) in alone]:
        yield [*line, "--no-deps", *bare]


def _run(line: Sequence[str], log: Path, lock: int) -> str:
    """Run a program, append its output to the log and return it; raise ``UsageError`` with its last lines if it fails.

    It inherits the lock, which so outlives this process if it is killed.
    """
    done = subprocess.run(line, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, pass_fds=[lock])
    with log.open("a", encoding="utf-8") as stream:
        stream.write(done.stdout + done.stderr)
    if done.returncode:
        name, output = log.parent.name.removesuffix(".partial"), done.stdout + done.stderr
        start = " ".join(word for word in line[:4] if word != BEGIN)
        cause = next((cause for sign, cause in CAUSES if sign.search(output)), "an installer failed")
        raise UsageError(
            f"The pack {name!r} was not installed: {cause}. {_next_steps(name)}\n"
            f"{start} … ended with exit code {done.returncode}; its whole output is in {log}:\n{_tail(output)}"
        )
    return done.stdout


def _tail(output: str) -> str:
    """Return the last lines of an installer's output that may explain a failure."""
    lines = [line[:MOST_CHARACTERS] for line in output.strip().splitlines() if not NOISE.match(line)]
    return "\n".join(lines[-LAST_LINES:])


@contextmanager
def _lock(directory: Path) -> Iterator[int]:
    """Lock a pack against concurrent installation and removal; yield the lock's descriptor.

    Raises ``UsageError`` if it is locked.
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


def fits(specifier: str, python: tuple[int, int]) -> bool:
    """Return whether a specifier such as ``>=3.11,<3.13`` allows a version of Python."""
    for bound_text in filter(None, specifier.split(",")):
        match = BOUND.fullmatch(bound_text)
        if not match:
            raise UsageError(f"Invalid Python version {specifier!r}: expected bounds such as >=3.11,<3.13.")
        bound = int(match[2]), int(match[3])
        if python < bound if match[1] == ">=" else python >= bound:
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
        yield from _run_quietly([uv, "python", "find", "--no-project", specifier]).splitlines()[:1]
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for version in fitting:
        yield from map(str, sorted(root.glob(f"{version}.*/bin/python{version}"), reverse=True))


def _version(program: str) -> tuple[int, int] | None:
    """Return the version of a Python that can make virtual environments; None if it fails."""
    major, _, minor = _run_quietly([program, "-I", "-c", VERSION]).partition(" ")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def _run_quietly(line: list[str]) -> str:
    """Return the output of a program; empty if it fails."""
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=SEARCH_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if done.returncode else done.stdout.strip()


def _print_contents(modules: list[str]) -> None:
    """Import modules, then print the versions of Python and of all distributions."""
    warnings.simplefilter("ignore")
    for module in modules:
        importlib.import_module(module)
    versions = {distribution.metadata["Name"]: distribution.version for distribution in distributions()}
    sys.stdout.write(f"\n{json.dumps({**versions, PYTHON_VERSION: platform.python_version()})}\n")


if __name__ == "__main__":
    _print_contents(sys.argv[1:])
