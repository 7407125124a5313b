"""Process numbers that tell nothing: every policy's process has the same one, whatever was played before.

Otherwise they would count the processes, and so the episodes, that a zygote forked. The zygote is the first process in
a namespace of process numbers of its own, and before each fork it has the kernel count from there again. Both need a
privilege in the sandbox's namespace of users, which every child gives up for good (``lockdown``). Run as a program,
``python -c TEXT DESCRIPTOR``, this tries whether all that works here; so it imports nothing of ours.
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
"""No set-user-ID programs, no devices."""
LIBC = ctypes.CDLL(None, use_errno=True)
FIRST = 1
"""The number of a namespace's first process."""


def enter_pid_namespace() -> None:
    """Go on as the first process of a new namespace, while the one that was waits for its end; raises ``OSError``.

    What is mounted from here on is seen in a namespace of mounts of its own, too.

    To be called early: what is loaded before lies in memory twice.
    """
    _require(LIBC.unshare(CLONE_NEWPID | CLONE_NEWNS), "unshare")
    first = os.fork()
    if first:
        os.closerange(3, 4096)  # whose other ends would not hear of the first one's end
        _, status = os.waitpid(first, 0)
        os._exit(abs(os.waitstatus_to_exitcode(status)))
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def mount_anew(place: str, *, again: bool) -> None:
    """Mount a new file system in memory at a place, in place of the last one if there is; raises ``OSError``."""
    if again:
        _require(LIBC.umount2(place.encode(), MNT_DETACH), "umount2")
    _require(LIBC.mount(b"checkpoint", place.encode(), b"tmpfs", MOUNT_FLAGS, b"mode=0755"), "mount")


def close_mount(place: str) -> None:
    """Let nobody write to what is mounted at a place; raises ``OSError``."""
    _require(LIBC.mount(None, place.encode(), None, MOUNT_FLAGS | MS_REMOUNT | MS_RDONLY, None), "mount")


def _require(result: int, what: str) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def count_again(last: int) -> None:
    """Have the kernel give the next child the number after our own; ``last`` is ns_last_pid, open for writing."""
    os.pwrite(last, str(FIRST).encode(), 0)


def end_all_others() -> None:
    """End whatever else is in the namespace; usually nothing is, since a policy can start no process.

    That is asked without an exception, whose memory would stay for a while.
    """
    if LIBC.kill(-1, signal.SIGKILL):
        return
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)  # what lost its parent is our child


def main(last: int) -> None:
    """End well if every child gets the same number here, and files in memory can be mounted."""
    enter_pid_namespace()
    mount_anew("/usr", again=False)
    numbers = set()
    for _ in range(2):
        count_again(last)
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        numbers.add(child)
    os._exit(len(numbers) - 1)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]))
    except OSError as error:
        sys.exit(str(error))
