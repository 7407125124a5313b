"""Policies in namespaces of their own, by bubblewrap: as root and as an ordinary user.

Inside there is an interpreter with its standard library, the allowed distributions, the guest's code and the
checkpoint, all under neutral names and read-only; no ``/proc``, no network, no other process but the zygote's, nothing
writable. A zygote starts with an empty environment, and bwrap itself too, so that nothing of the host can be read back
from it. It keeps two privileges in the sandbox's own namespace of users, by which it gives every policy's process the
same number (``guest.pid_namespace``); where that doesn't work it keeps none, and process numbers count the episodes.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox import cgroup
from evopolicygym.sandbox.backends.process import (
    GROUP,
    PLAINLY,
    THREADS,
    confinement,
    threads_finding,
    zygote_arguments,
)
from evopolicygym.sandbox.base import Guarantee, ProgramSandbox, SandboxFeature, WorkerDirectory, ZygoteView
from evopolicygym.sandbox.bwrap import bwrap, encode_arguments, memory_file, namespaces, sandbox_user, users_finding
from evopolicygym.sandbox.cgroup import ControlGroup
from evopolicygym.sandbox.host import (
    PACKAGE_DIRECTORIES,
    PolicyLibrary,
    PolicyPython,
    libraries_of,
    library_directories,
    needed_libraries,
    python_program,
)
from evopolicygym.sandbox.limits import counts_by_namespace
from evopolicygym.sandbox.overlays import (
    Layers,
    Overlays,
    files_finding,
    keep_in_memory,
    own_devices,
    pages_finding,
    why_shared,
)
from evopolicygym.sandbox.program.enclosed import EnclosedPrograms
from evopolicygym.sandbox.seccomp import seccomp_finding

OWN_PID_NAMESPACE = ("--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP")
"""What a zygote keeps: to have a namespace of process numbers and count in it, and to leave none of this to a child."""
LAST_NUMBER = "/proc/sys/kernel/ns_last_pid"
"""The kernel's setting from which it counts on, in the namespace of the process that writes it."""
PYTHON, RUNTIME, PACKAGES, POLICY = "/usr/bin/python3", "/usr/lib/runtime", "/usr/lib/packages", "/policy"
DEVICES = ("/dev/null", "/dev/urandom")


class Backend:
    """Policies behind namespaces, and all that ``process`` gives up besides."""

    guarantees = frozenset(Guarantee)
    walls = frozenset({SandboxFeature.SECCOMP})

    def findings(self) -> Mapping[str, str]:
        """Try bubblewrap on nothing; raise ``SandboxError`` with its own words where it can't work here."""
        why = _why_numbers_count(bwrap())
        tried = _tried(*_this_python(), "--ro-bind", "/bin/true", "/true", "--", "/true") if why else None
        if tried and tried.returncode:
            said = tried.stderr.strip()[:300]
            raise SandboxError(
                f"bubblewrap can't make a sandbox here: {said or tried.returncode}. User namespaces may be switched "
                f"off (sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns), or this "
                f"is a container without them. --isolation process is the next weaker level."
            )
        numbers = f"count the episodes that a worker played: {why}" if why else "the same in every episode"
        return {
            "namespaces": "user, pid, net, ipc, uts, mount, cgroup",
            "process numbers": numbers,
            "checkpoint": f"its files' numbers {'count the checkpoints' if why else 'are the same in every episode'}",
            "user": users_finding(),
            "files": files_finding(pages_finding(), () if own_devices() else DEVICES),
            "seccomp": seccomp_finding(),
            "threads": threads_finding(_counted_by()),
        }

    def policy_sandbox(self, ground: WorkerDirectory, control: int, environment: Mapping[str, str]) -> ZygoteView:
        """Start a zygote in new namespaces."""
        layers = None if why_shared() else Layers()
        try:
            return self._zygote_in(ground, layers, control, environment)
        except BaseException:
            if layers is not None:
                layers.close()
            raise

    def _zygote_in(
        self, ground: WorkerDirectory, layers: Layers | None, control: int, environment: Mapping[str, str]
    ) -> ZygoteView:
        copies = not _why_numbers_count(bwrap())
        words = [*policy_view(ground, layers, shows_checkpoint=not copies)]
        for name, value in {**environment, "PYTHONPATH": f"{RUNTIME}:{PACKAGES}"}.items():
            words += ["--setenv", name, value]
        group = cgroup.make(THREADS) if _counted_by() == GROUP else None
        if not copies:
            process = _started(ground, words, zygote_arguments(control), group, control)
        else:
            with _last_number() as last:
                arguments = [*PLAINLY, "-m", "guest.isolated_zygote", str(control), str(last)]
                process = _started(ground, [*words, *OWN_PID_NAMESPACE], arguments, group, control, last)
        if layers is not None:
            keep_in_memory(seen_files(ground.library))  # while the zygote gets ready
        readable = ("/usr", "/lib", "/lib64", POLICY, *DEVICES)
        given_up = confinement(ground.limits, readable)
        if counts_by_namespace():
            given_up = replace(given_up, limits={**given_up.limits, "RLIMIT_NPROC": THREADS})
        return ZygoteView(process, POLICY, given_up, copies, layers)

    def program_sandbox(self) -> ProgramSandbox:
        """Return what keeps an agent's program in namespaces of its own."""
        return EnclosedPrograms()


def _counted_by() -> str:
    """Return what of the kernel counts a policy's threads; empty where nothing does.

    A user's limit holds nobody who is root outside, and before it counted by namespaces, it counted all of a user's.
    """
    if os.geteuid() and counts_by_namespace():
        return "RLIMIT_NPROC"
    return GROUP if cgroup.can_be_made() else ""


def _started(
    ground: WorkerDirectory, words: Iterable[str], arguments: Iterable[str], group: ControlGroup | None, *inherited: int
) -> "subprocess.Popen[bytes]":
    """Start a Python in a sandbox that these words lay out."""
    with namespaces(sandbox_user(ground.root)) as (kinds, needed):
        laid_out = memory_file(encode_arguments((*kinds, *words)))
        line = [bwrap(), "--args", str(laid_out), "--", PYTHON, *arguments]
        try:
            return subprocess.Popen(
                group.joined_by(bwrap(), line) if group else line,
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                pass_fds=[*inherited, *needed, laid_out],
            )
        finally:
            os.close(laid_out)


def _tried(*words: str, inherited: Iterable[int] = ()) -> "subprocess.CompletedProcess[str]":
    """Run something in a sandbox, to its end."""
    with namespaces(sandbox_user(Path(os.devnull))) as (kinds, needed):
        return subprocess.run(
            [bwrap(), *kinds, *words],
            capture_output=True,
            check=False,
            encoding="utf-8",
            errors="replace",
            env={},
            pass_fds=[*inherited, *needed],
        )


@cache
def _why_numbers_count(_bwrap: str) -> str:
    """Try whether every child of a zygote can have the same number here; return why not, nothing where it can."""
    trial = files("evopolicygym.rollout.guest").joinpath("pid_namespace.py").read_text(encoding="utf-8")
    try:
        with _last_number() as last:
            program = [python_program(), *PLAINLY, "-c", trial, str(last)]
            tried = _tried(*OWN_PID_NAMESPACE, *_this_python(), "--", *program, inherited=[last])
    except OSError as error:
        return str(error)
    said = tried.stderr.strip().splitlines() or ["the kernel goes on counting"]
    return said[-1][:200] if tried.returncode else ""


@contextmanager
def _last_number() -> Iterator[int]:
    """Open the kernel's setting for a while: anybody may, but only who has the privilege can write."""
    descriptor = os.open(LAST_NUMBER, os.O_WRONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _this_python() -> Iterator[str]:
    """Yield the words for this Python where it lies and as a whole, which is quicker; for trials of our own alone."""
    for place in sorted({*library_directories(), sys.base_prefix, sys.base_exec_prefix}):
        yield from ("--ro-bind", place, place)
    yield from links()


def policy_view(ground: WorkerDirectory, layers: Layers | None, *, shows_checkpoint: bool) -> Iterator[str]:
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
    names = _needed_by(library.python, tuple(library.paths.values()))
    for root in library_directories():
        yield from (place for name in names if os.path.isfile(place := f"{root}/{name}"))  # noqa: PTH113 - as text


def _own_machine(overlays: Overlays, library: PolicyLibrary) -> Iterator[str]:
    """Yield the words for an interpreter with its standard library, in overlays."""
    python = library.python
    needed = _needed_by(python, tuple(library.paths.values()))
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
def _needed_by(python: PolicyPython, packages: tuple[Path, ...]) -> frozenset[str]:
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
