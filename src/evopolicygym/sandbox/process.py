"""A plain process under resource limits, with Landlock and seccomp where the kernel has them; no namespaces.

The policy's process sees the host's process table and shares its user; for code that one trusts not to attack. Its own
process number is the machine's next one: it differs from episode to episode, and nothing at this level can help that.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence

from evopolicygym.core.task import Limits
from evopolicygym.sandbox.base import Confinement, Ground, Inside, Level
from evopolicygym.sandbox.host import library_directories, standard_library
from evopolicygym.sandbox.permitted import OPEN_FILES, OWN_PROCESS
from evopolicygym.sandbox.seccomp import policy_filter, seccomp_finding

MEBIBYTE = 1 << 20
PLAINLY = ("-s", "-P", "-S", "-B")
"""Arguments of a Python in a sandbox: no site, no user's packages, nothing written."""


class Backend:
    """Policies in a plain process that gives up what it can."""

    level = Level.PROCESS

    def findings(self) -> Mapping[str, str]:
        """Return what the kernel and libseccomp offer here."""
        return {"namespaces": "not used at this level", "seccomp": seccomp_finding()}

    def start(self, ground: Ground, control: int, environment: Mapping[str, str]) -> Inside:
        """Start a zygote of this Python, with the guest's code and the library on its import path."""
        readable = (
            *(str(path) for path in ground.library.paths.values()),
            *standard_library(),
            *library_directories(),
            *(str(path) for path in (ground.runtime, ground.packages, ground.policy)),
            "/dev/null",
            "/dev/urandom",
        )
        return Inside(
            spawn([sys.executable], ground, control, environment),
            str(ground.policy),
            confinement(ground.limits, readable),
        )


def spawn(
    python: Sequence[str], ground: Ground, control: int, environment: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    """Start a zygote with this command for a Python, in the ground's own directory."""
    paths = {"PYTHONPATH": f"{ground.runtime}:{ground.packages}"}
    return subprocess.Popen(
        [*python, *zygote_arguments(control)],
        env={**environment, **paths},
        cwd=ground.root,
        stdin=subprocess.DEVNULL,
        pass_fds=[control],
        start_new_session=True,
    )


def zygote_arguments(control: int) -> list[str]:
    """Return the arguments by which a Python becomes a zygote."""
    return [*PLAINLY, "-m", "guest.zygote", str(control)]


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
    return Confinement(amounts, tuple(readable), (policy_filter() or b"").hex(), OWN_PROCESS)
