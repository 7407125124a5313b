"""What a policy's process may ask of the kernel, as a list: whatever does not stand here is refused.

A policy reads the files that it can see, computes, waits, starts threads, and writes to its own pipes. Nothing here may
leave a mark that another process can find, now or later. A call that takes a command, flags or another process's number
is allowed for the values that stand here, no others: a kernel that learns a new one does not widen the list.

Values are compared over all 64 bits of an argument, although the kernel often looks at 32: a value with stray upper
bits is refused. How the list becomes a filter is in ``seccomp.py``; ``checks/channel_search/`` tries all that it
lets through for marks that survive.
"""

from collections.abc import Iterator
from dataclasses import dataclass

ALL_BITS = (1 << 64) - 1
OWN_PROCESS = 0x5EA1ED07
"""Stands in the filter for the number of the process that installs it, which nobody knows while it is compiled."""
PIPES = 5
"""Descriptors below are the policy's pipes and its null device (``guest.episode``)."""
OPEN_FILES = 256
"""One more than the largest descriptor (RLIMIT_NOFILE): a power of two."""
HERE = (-100) & ALL_BITS, (-100) & 0xFFFFFFFF
"""AT_FDCWD as callers pass it: sign-extended, or as 32 bits."""


@dataclass(frozen=True, slots=True)
class Values:
    """Values of one argument: those that are ``value`` in the bits of ``mask``."""

    argument: int
    value: int
    mask: int = ALL_BITS


@dataclass(frozen=True, slots=True)
class Permission:
    """A call that is allowed where each of its conditions holds."""

    call: str
    conditions: tuple[Values, ...] = ()


FILES = (
    "open openat close stat lstat access faccessat faccessat2 readlink readlinkat getdents getdents64 getcwd chdir "
    "fchdir read readv pread64 preadv lseek write writev"
)
MEMORY = "munmap mprotect mremap brk"
ENDS_AND_THREADS = (
    "exit exit_group restart_syscall rseq set_robust_list sched_yield sched_get_priority_max sched_get_priority_min"
)
SIGNALS = (
    "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait sigaltstack alarm getitimer "
    "setitimer pause"
)
WAITING = "gettimeofday nanosleep time times poll ppoll pselect6 select"
ITSELF = "getpid gettid getppid getuid geteuid getgid getegid getpgrp getrandom getrlimit uname"
PLAIN = f"{FILES} {MEMORY} {ENDS_AND_THREADS} {SIGNALS} {WAITING} {ITSELF}".split()
"""Calls that leave nothing behind, whatever their arguments.

Not among them, for what they would tell of others: ``getrusage`` (major faults and blocks that were read say which
pages of a file were in memory), ``openat2`` (RESOLVE_CACHED says which names were), ``statfs``, ``sysinfo``; and for
what they count: ``pipe2``, ``socketpair`` (inode numbers go on from process to process), ``timer_create``, ``epoll_*``
(of one user all together).
"""
UNKNOWN = (
    "clone3", "openat2", "futex_wait", "futex_wake", "futex_requeue", "futex_waitv", "close_range", "epoll_pwait2",
)  # fmt: skip
"""Newer calls, answered as a kernel does that lacks them: libraries then fall back on older ones."""

ABOUT_A_FILE = {"fstat": 0, "newfstatat": 0, "statx": 0, "dup": 0, "dup2": 0, "dup3": 0}
"""Calls on a descriptor and the place of that argument; never on the pipes, whose inode numbers count the machine's."""
BY_PATH = {"newfstatat", "statx"}
"""Those that take a path too, from the working directory."""
STATX_ALL = 0xFFF
"""What ``statx`` may be asked for. What came later names mounts, by numbers that count all of the machine's."""
FCNTL_OF_ANY = {"F_GETFD": 1, "F_SETFD": 2, "F_GETFL": 3}
FCNTL_OF_A_FILE = {"F_DUPFD": 0, "F_DUPFD_CLOEXEC": 1030}
IOCTL = {"TCGETS": 0x5401, "FIONCLEX": 0x5450, "FIOCLEX": 0x5451}
MADVISE = {
    "MADV_NORMAL": 0, "MADV_RANDOM": 1, "MADV_SEQUENTIAL": 2, "MADV_WILLNEED": 3, "MADV_DONTNEED": 4, "MADV_FREE": 8,
    "MADV_HUGEPAGE": 14, "MADV_NOHUGEPAGE": 15, "MADV_DONTDUMP": 16,
}  # fmt: skip
MMAP = {
    "MAP_SHARED": 0x01, "MAP_PRIVATE": 0x02, "MAP_FIXED": 0x10, "MAP_ANONYMOUS": 0x20, "MAP_GROWSDOWN": 0x100,
    "MAP_DENYWRITE": 0x800, "MAP_EXECUTABLE": 0x1000, "MAP_NORESERVE": 0x4000, "MAP_POPULATE": 0x8000,
    "MAP_NONBLOCK": 0x10000, "MAP_STACK": 0x20000, "MAP_FIXED_NOREPLACE": 0x100000,
}  # fmt: skip
"""No huge pages of the machine's one pool (MAP_HUGETLB), nothing locked in memory (MAP_LOCKED)."""
FUTEX_PRIVATE, FUTEX_REALTIME = 128, 256
FUTEX = {"WAIT": 0, "WAKE": 1, "REQUEUE": 3, "CMP_REQUEUE": 4, "WAKE_OP": 5, "WAIT_BITSET": 9, "WAKE_BITSET": 10}
"""Private ones alone: a futex on a page of a library would be one for every process that maps it."""
THREAD = 0x3D0F00
"""VM, FS, FILES, SIGHAND, THREAD, SYSVSEM, SETTLS, PARENT_SETTID and CHILD_CLEARTID: what a thread is made with."""
DETACHED = 0x400000
"""A flag without a meaning, which some libraries set."""
CLOCKS = (Values(0, 0, ALL_BITS & ~7), Values(0, 8, ALL_BITS & ~3))
"""The clocks 0 to 11, which are the machine's and one's own; beyond them are those of other processes: the zygote's
processor time would count the episodes."""
OF_A_CLOCK = ("clock_gettime", "clock_getres", "clock_nanosleep")


def permissions() -> Iterator[Permission]:
    """Yield all that is allowed, a call once for every set of values."""
    yield from map(Permission, PLAIN)
    for call, place in ABOUT_A_FILE.items():
        values = [*_files(place), *((Values(place, here) for here in HERE) if call in BY_PATH else ())]
        asked = (Values(3, 0, ALL_BITS & ~STATX_ALL),) if call == "statx" else ()
        yield from (Permission(call, (one, *asked)) for one in values)
    for command in FCNTL_OF_ANY.values():
        yield Permission("fcntl", (Values(1, command),))
    for command in FCNTL_OF_A_FILE.values():
        yield from (Permission("fcntl", (file, Values(1, command))) for file in _files(0))
    yield from (Permission("ioctl", (Values(1, request),)) for request in IOCTL.values())
    yield from (Permission("madvise", (Values(2, advice),)) for advice in MADVISE.values())
    yield Permission("mmap", (Values(3, 0, ALL_BITS & ~sum(MMAP.values())),))
    for command in FUTEX.values():
        yield Permission("futex", (Values(1, FUTEX_PRIVATE | command, ALL_BITS & ~FUTEX_REALTIME),))
    yield Permission("clone", (Values(0, THREAD, ALL_BITS & ~DETACHED),))
    yield from (Permission(call, (clock,)) for call in OF_A_CLOCK for clock in CLOCKS)
    # Its own limits and processors may be asked for: libc does, to size stacks, and others to count threads.
    yield Permission("prlimit64", (Values(0, 0), Values(2, 0)))
    yield Permission("sched_getaffinity", (Values(0, 0),))
    # Its own threads may be signalled: abort and raise do.
    yield Permission("tgkill", (Values(0, OWN_PROCESS),))


def _files(place: int) -> Iterator[Values]:
    """Yield all descriptors but those of the pipes, as an argument at ``place``."""
    size = 1
    while size < OPEN_FILES:
        if size >= PIPES:
            yield Values(place, size, ALL_BITS & ~(size - 1))
        else:
            yield from (Values(place, one) for one in range(max(size, PIPES), 2 * size))
        size *= 2
