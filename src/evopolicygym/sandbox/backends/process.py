"""A plain process under resource limits, with Landlock and seccomp where the kernel has them; no namespaces.

The policy's process sees the host's process table and shares its user; for code that one trusts not to attack. Its own
process number is the machine's next one: it differs from episode to episode, and nothing at this level can help that.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace

from evopolicygym.core.task import Limits
from evopolicygym.sandbox import cgroup
from evopolicygym.sandbox.base import (
    Confinement,
    Guarantee,
    ProgramSandbox,
    SandboxFeature,
    WorkerDirectory,
    ZygoteView,
)
from evopolicygym.sandbox.cgroup import ControlGroup
from evopolicygym.sandbox.host import library_directories
from evopolicygym.sandbox.program.plain import PlainPrograms
from evopolicygym.sandbox.seccomp import OPEN_FILES, OWN_PROCESS, policy_filter, seccomp_finding

MEBIBYTE = 1 << 20
GROUP = "a control group"
NICE = 5
"""Policies come after us at a processor, and before an agent's program."""
THREADS = 256
"""Processes and threads of one sandbox, the zygote's own among them; and the most threads of one policy, wherever no
kernel counts them and its monitor does (``rollout/policy_monitor.py``)."""
PLAINLY = ("-s", "-P", "-S", "-B")
"""Arguments of a Python in a sandbox: no site, no user's packages, nothing written."""


class Backend:
    """Policies in a plain process that gives up what it can."""

    guarantees = frozenset(Guarantee) - {
        Guarantee.HOST_NAMES_HIDDEN,
        Guarantee.PROCESS_NUMBERS_PRIVATE,
        Guarantee.FILES_PRIVATE,
        Guarantee.PROGRAM_ENCLOSED,
    }
    walls = frozenset({SandboxFeature.LANDLOCK, SandboxFeature.SECCOMP})

    def findings(self) -> Mapping[str, str]:
        """Return what the kernel and libseccomp offer here."""
        root = "" if os.geteuid() else "; root without them still owns root's files, from which Landlock keeps it"
        return {
            "namespaces": "not used at this level",
            "seccomp": seccomp_finding(),
            "privileges": f"no capabilities, no new privileges{root}",
            "threads": threads_finding(GROUP if cgroup.can_be_made() else ""),
            "process numbers": "the machine's: they tell how many processes it has started",
            "times of access": access_times_finding(),
        }

    def policy_sandbox(self, ground: WorkerDirectory, control: int, environment: Mapping[str, str]) -> ZygoteView:
        """Start a zygote, with the guest's code and the library on its import path."""
        readable = (
            *(str(path) for path in ground.library.paths.values()),
            *ground.library.python.standard_library,
            *library_directories(),
            *(str(path) for path in (ground.runtime, ground.packages, ground.policy)),
            "/dev/null",
            "/dev/urandom",
        )
        group = cgroup.make(THREADS)
        return ZygoteView(
            spawn(ground, control, environment, group),
            str(ground.policy),
            replace(confinement(ground.limits, readable), nice=NICE),
        )

    def program_sandbox(self) -> ProgramSandbox:
        """Return what takes an agent's program its privileges and holds it to limits; the host's files are its own."""
        return PlainPrograms(confined=True)


def spawn(
    ground: WorkerDirectory,
    control: int,
    environment: Mapping[str, str],
    group: ControlGroup | None = None,
) -> "subprocess.Popen[bytes]":
    """Start a zygote on the library's Python, in the ground's own directory and in a group, where there is."""
    paths = {"PYTHONPATH": f"{ground.runtime}:{ground.packages}"}
    line = [ground.library.python.program, *zygote_arguments(control)]
    return subprocess.Popen(
        group.joined_by(line[0], line) if group else line,
        env={**environment, **paths},
        cwd=ground.root,
        stdin=subprocess.DEVNULL,
        pass_fds=[control],
        start_new_session=True,
    )


def access_times_finding() -> str:
    """Return in words what reading a library's file leaves on it where files are not mounted for a sandbox alone."""
    if os.statvfs(os.__file__).f_flag & (os.ST_NOATIME | os.ST_RDONLY):
        return "not kept by the disk of the standard library"
    return "the disk of the standard library keeps the first reading of a day, which other policies can see"


def zygote_arguments(control: int) -> list[str]:
    """Return the arguments by which a Python becomes a zygote."""
    return [*PLAINLY, "-m", "guest.zygote", str(control)]


def threads_finding(counted_by: str) -> str:
    """Return in words what bounds the threads of a policy; nothing of the kernel's where nothing is named."""
    how = f"counted by {counted_by}" if counted_by else "looked at every 0.05 s, as no control group could be made"
    return f"at most {THREADS}, {how}"


def confinement(limits: Limits, readable: Sequence[str]) -> Confinement:
    """Return what every backend but ``none`` has its policies give up.

    RLIMIT_NPROC is left alone: it counts per user, so one policy's threads would starve another's. Where each sandbox
    is a user namespace, it counts there, and ``bubblewrap`` sets it. Signals that wait with their data count per user
    too, so a policy may have none.
    """
    seconds = int(limits.load_s + limits.reset_s + limits.episode_s) + 1
    amounts = {
        "RLIMIT_AS": limits.memory_mb * MEBIBYTE,
        "RLIMIT_CPU": seconds,
        "RLIMIT_FSIZE": 0,
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": OPEN_FILES,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_SIGPENDING": 0,
    }
    filtered = (policy_filter() or b"").hex()
    return Confinement(amounts, tuple(readable), filtered, OWN_PROCESS, unprivileged=True)
