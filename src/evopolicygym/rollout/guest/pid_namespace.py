"""A PID namespace in which every policy process has the same number, whatever was played before.

Otherwise the numbers would count the episodes that a zygote has forked. The zygote is the first process of a PID
namespace and resets the kernel's counter before each fork. Both need a capability in the sandbox's user namespace,
which every child gives up (``lockdown``). Run as ``python -c TEXT DESCRIPTOR``, this module checks whether that works
here, so it imports nothing of this package.
"""

import ctypes
import os
import signal
import sys
from contextlib import suppress

CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000
PR_SET_PDEATHSIG = 1
MS_RDONLY, MS_REMOUNT, MNT_DETACH = 0x1, 0x20, 0x2
MOUNT_FLAGS = 0x2 | 0x4
"""MS_NOSUID and MS_NODEV."""
LIBC = ctypes.CDLL(None, use_errno=True)
FIRST_PID = 1
"""The PID of a namespace's first process."""


def enter_pid_namespace() -> None:
    """Continue as the first process of a new PID and mount namespace, while the old process waits for its end.

    Call it early: modules loaded before are in memory twice. Raises ``OSError``.
    """
    _require(LIBC.unshare(CLONE_NEWPID | CLONE_NEWNS), "unshare")
    first = os.fork()
    if first:
        os.closerange(3, 4096)  # otherwise their other ends would stay open after the first process ends
        _, status = os.waitpid(first, 0)
        os._exit(abs(os.waitstatus_to_exitcode(status)))
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def mount_tmpfs(path: str, *, replace: bool) -> None:
    """Mount a tmpfs at a path, after unmounting the last one if ``replace``; raise ``OSError``."""
    if replace:
        _require(LIBC.umount2(path.encode(), MNT_DETACH), "umount2")
    _require(LIBC.mount(b"checkpoint", path.encode(), b"tmpfs", MOUNT_FLAGS, b"mode=0755"), "mount")


def make_read_only(path: str) -> None:
    """Make the mount at a path read-only; raise ``OSError``."""
    _require(LIBC.mount(None, path.encode(), None, MOUNT_FLAGS | MS_REMOUNT | MS_RDONLY, None), "mount")


def _require(result: int, what: str) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def reset_pid_counter(last: int) -> None:
    """Have the kernel give the next child the PID after our own; ``last`` is ns_last_pid, open for writing."""
    os.pwrite(last, str(FIRST_PID).encode(), 0)


def kill_all_others() -> None:
    """Kill all other processes of the namespace; usually there are none, since a policy can't start processes.

    That common case raises no exception, whose memory would stay allocated for a while.
    """
    if LIBC.kill(-1, signal.SIGKILL):
        return
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)  # orphans become children of the first process


def main(last: int) -> None:
    """Exit with code 0 if every child gets the same PID here and a tmpfs can be mounted."""
    enter_pid_namespace()
    mount_tmpfs("/usr", replace=False)
    pids = set()
    for _ in range(2):
        reset_pid_counter(last)
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        pids.add(child)
    os._exit(len(pids) - 1)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]))
    except OSError as error:
        sys.exit(str(error))
