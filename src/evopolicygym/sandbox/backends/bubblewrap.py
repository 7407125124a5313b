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
from evopolicygym.sandbox.backends.process import (
    GROUP,
    PLAINLY,
    THREADS,
    confinement,
    threads_finding,
    zygote_arguments,
)
from evopolicygym.sandbox.base import WorkerDirectory, ZygoteView
from evopolicygym.sandbox.confinement import cgroup
from evopolicygym.sandbox.confinement.bwrap import as_arguments, bwrap, in_memory
from evopolicygym.sandbox.confinement.cgroup import ControlGroup
from evopolicygym.sandbox.confinement.host_user import namespaces, user_of, users_finding
from evopolicygym.sandbox.confinement.layers import Layers
from evopolicygym.sandbox.confinement.limits import counts_by_namespace
from evopolicygym.sandbox.confinement.overlays import files_finding, own_devices, why_shared
from evopolicygym.sandbox.confinement.resident import keep, pages_finding
from evopolicygym.sandbox.confinement.seccomp import seccomp_finding
from evopolicygym.sandbox.confinement.walls import Wall
from evopolicygym.sandbox.guarantee import Guarantee
from evopolicygym.sandbox.host import library_directories, python_program
from evopolicygym.sandbox.policy_view import DEVICES, PACKAGES, POLICY, PYTHON, RUNTIME, links, seen_files, view
from evopolicygym.sandbox.program.contract import ProgramSandbox
from evopolicygym.sandbox.program.enclosed import EnclosedPrograms

OWN_PID_NAMESPACE = ("--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP")
"""What a zygote keeps: to have a namespace of process numbers and count in it, and to leave none of this to a child."""
LAST_NUMBER = "/proc/sys/kernel/ns_last_pid"
"""The kernel's setting from which it counts on, in the namespace of whoever writes it."""


class Backend:
    """Policies behind namespaces, and all that ``process`` gives up besides."""

    guarantees = frozenset(Guarantee)
    walls = frozenset({Wall.SECCOMP})

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
        words = [*view(ground, layers, shows_checkpoint=not copies)]
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
            keep(seen_files(ground.library))  # while the zygote gets ready
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
    with namespaces(user_of(ground.root)) as (kinds, needed):
        laid_out = in_memory(as_arguments((*kinds, *words)))
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
    with namespaces(user_of(Path(os.devnull))) as (kinds, needed):
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
