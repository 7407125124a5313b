"""A plain process with resource limits, Landlock and seccomp, without namespaces.

The policy's process sees the host's process table and has the host's user: for code that is trusted not to attack. Its
process number is the machine's next one, so it differs from episode to episode.
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
from evopolicygym.sandbox.seccomp import OPEN_FILES, OWN_PROCESS, policy_filter, seccomp_finding, signals_finding

MEBIBYTE = 1 << 20
GROUP = "a control group"
NICE = 5
"""Niceness of policies: between ours and that of an agent's program."""
THREADS = 256
"""Most processes and threads of a sandbox, including the zygote's; and of a policy, if its monitor counts them
(``rollout/policy_monitor.py``) instead of the kernel."""
PYTHON_FLAGS = ("-s", "-P", "-S", "-B")
"""Flags of a Python in a sandbox: no site, no user's packages, no bytecode files."""


class Backend:
    """Policies in a confined process without namespaces."""

    guarantees = frozenset(Guarantee) - {
        Guarantee.HOST_NAMES_HIDDEN,
        Guarantee.PROCESS_NUMBERS_PRIVATE,
        Guarantee.FILES_PRIVATE,
        Guarantee.PROGRAM_ENCLOSED,
    }
    required_features = frozenset({SandboxFeature.LANDLOCK, SandboxFeature.SECCOMP})

    def findings(self) -> Mapping[str, str]:
        """Return what the kernel and libseccomp enforce here."""
        root = "" if os.geteuid() else "; root without them still owns root's files, from which Landlock keeps it"
        return {
            "namespaces": "not used at this level",
            "seccomp": seccomp_finding(),
            "signals": signals_finding(),
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
        """Return a sandbox that drops an agent's program's privileges and limits it, but shows it the host's files."""
        return PlainPrograms(confined=True)


def spawn(
    ground: WorkerDirectory,
    control: int,
    environment: Mapping[str, str],
    group: ControlGroup | None = None,
) -> "subprocess.Popen[bytes]":
    """Start a zygote on the library's Python in a worker's directory, and in a control group if there is one."""
    paths = {"PYTHONPATH": f"{ground.runtime}:{ground.packages}"}
    command = [ground.library.python.program, *zygote_arguments(control)]
    return subprocess.Popen(
        group.join_command(command[0], command) if group else command,
        env={**environment, **paths},
        cwd=ground.root,
        stdin=subprocess.DEVNULL,
        pass_fds=[control],
        start_new_session=True,
    )


def access_times_finding() -> str:
    """Return the finding on access times of files that sandboxes share."""
    if os.statvfs(os.__file__).f_flag & (os.ST_NOATIME | os.ST_RDONLY):
        return "not kept by the disk of the standard library"
    return "the disk of the standard library keeps the first reading of a day, which other policies can see"


def zygote_arguments(control: int) -> list[str]:
    """Return the arguments with which Python runs a zygote."""
    return [*PYTHON_FLAGS, "-m", "guest.zygote", str(control)]


def threads_finding(counted_by: str) -> str:
    """Return the finding on the limit of a policy's threads; ``counted_by`` names what counts them in the kernel."""
    how = f"counted by {counted_by}" if counted_by else "looked at every 0.05 s, as no control group could be made"
    return f"at most {THREADS}, {how}"


def confinement(limits: Limits, readable: Sequence[str]) -> Confinement:
    """Return the confinement of policies with every backend but ``none``.

    RLIMIT_NPROC is not set: it counts per user, so one policy's threads would starve another's. In a user namespace it
    counts that namespace, so ``bubblewrap`` sets it. Pending signals with data count per user too, so a policy may have
    none.
    """
    seconds = int(limits.load_s + limits.reset_s + limits.episode_s) + 1
    resource_limits = {
        "RLIMIT_AS": limits.memory_mb * MEBIBYTE,
        "RLIMIT_CPU": seconds,
        "RLIMIT_FSIZE": 0,
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": OPEN_FILES,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_SIGPENDING": 0,
    }
    program = (policy_filter() or b"").hex()
    return Confinement(resource_limits, tuple(readable), program, OWN_PROCESS, unprivileged=True)
