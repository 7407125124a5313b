"""The system-call filters of policies and of agents' programs, compiled by libseccomp.

A policy may only make the calls that ``permissions`` lists: it reads files that it can see, computes, waits, starts
threads and writes to its own pipes. No call may leave a mark that another process can find, now or later. Commands,
flags and process numbers are allowed by value, so that new ones of a newer kernel are not allowed. Values are compared
in all 64 bits of an argument, although the kernel often reads 32: a value with stray upper bits is refused.
``benchmarks/channel_search/`` tries all calls that the compiled filter allows for marks that survive.

An agent's program, which must run any coding tool, may make all calls but those of ``AGENT_DENIED``. Filters are
compiled on the trusted side; a policy's process only installs its filter.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from errno import EAFNOSUPPORT, EAGAIN, ENOSYS, EPERM
from functools import cache
from socket import AF_INET, AF_INET6, AF_NETLINK, AF_UNIX

from evopolicygym.sandbox.libseccomp import ALLOW, Argument, Comparison, Compiler, failing

ALL_BITS = (1 << 64) - 1
OWN_PROCESS = 0x5EA1ED07
"""Placeholder in the filter for the number of the process that will install it."""
PIPES = 5
"""Descriptors below this are the policy's pipes and its null device (``guest.episode``)."""
OPEN_FILES = 256
"""RLIMIT_NOFILE, one more than the largest descriptor: a power of two."""
HERE = (-100) & ALL_BITS, (-100) & 0xFFFFFFFF
"""AT_FDCWD as callers pass it: sign-extended, or as 32 bits."""
KEYS = "add_key request_key keyctl"
NAMESPACES = (
    "unshare setns mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr"
)
AGENT_DENIED = (
    "ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp "
    f"{KEYS} {NAMESPACES} shmget shmat memfd_secret bpf perf_event_open userfaultfd "
    "io_uring_setup io_uring_enter io_uring_register "
    "init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct quotactl "
    "quotactl_fd iopl ioperm modify_ldt syslog vhangup open_by_handle_at name_to_handle_at fanotify_init "
    "mincore cachestat fadvise64 readahead statmount listmount "
    "lookup_dcookie move_pages migrate_pages settimeofday clock_settime sethostname setdomainname"
).split()
AGENT_FAMILIES = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}
"""Families of sockets that an agent may open; other families may not be confined by a network namespace."""
MOST_FAMILIES = 64
CLONE_NEWUSER = 0x10000000
RWF_NOWAIT, FLAGS_OF_PREADV2 = 0x8, 5
"""A flag to read only what is in memory, and the index of its argument."""
STATX_MNT_ID_UNIQUE, MASK_OF_STATX = 0x4000, 3
"""A flag for mount numbers, which count all mounts of the machine, and the index of its argument."""
TYPING = {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541C}
"""Requests of ioctl that insert input into a terminal."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values of an argument that equal ``value`` in the bits of ``mask``."""

    argument: int
    value: int
    mask: int = ALL_BITS


@dataclass(frozen=True, slots=True)
class Permission:
    """A call that is allowed if all of its conditions hold."""

    call: str
    conditions: tuple[Values, ...] = ()


FILE_CALLS = (
    "open openat close stat lstat access faccessat faccessat2 readlink readlinkat getdents getdents64 getcwd chdir "
    "fchdir read readv pread64 preadv lseek write writev"
)
MEMORY_CALLS = "munmap mprotect mremap brk"
ENDS_AND_THREADS = (
    "exit exit_group restart_syscall rseq set_robust_list sched_yield sched_get_priority_max sched_get_priority_min"
)
SIGNAL_CALLS = (
    "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait sigaltstack alarm getitimer "
    "setitimer pause"
)
WAITING_CALLS = "gettimeofday nanosleep time times poll ppoll pselect6 select"
OWN_CALLS = "getpid gettid getppid getuid geteuid getgid getegid getpgrp getrandom getrlimit uname"
PLAIN_CALLS = f"{FILE_CALLS} {MEMORY_CALLS} {ENDS_AND_THREADS} {SIGNAL_CALLS} {WAITING_CALLS} {OWN_CALLS}".split()
"""Calls that leave no mark, whatever their arguments.

Missing because they reveal others' activity: ``getrusage`` (major faults and read blocks show which pages of a file
were in memory), ``openat2`` (RESOLVE_CACHED shows which names were), ``statfs``, ``sysinfo``. Missing because of their
counters: ``pipe2``, ``socketpair`` (inode numbers of all processes), ``timer_create``, ``epoll_*`` (limits of a user).
"""
UNKNOWN_CALLS = (
    "clone3", "openat2", "futex_wait", "futex_wake", "futex_requeue", "futex_waitv", "close_range", "epoll_pwait2",
)  # fmt: skip
"""Newer calls, which seem not to exist, so that libraries fall back on older ones."""

ABOUT_A_FILE = {"fstat": 0, "newfstatat": 0, "statx": 0, "dup": 0, "dup2": 0, "dup3": 0}
"""Calls on a descriptor, with the index of that argument; not on the pipes, whose inode numbers count the machine's."""
BY_PATH = {"newfstatat", "statx"}
"""Those that also accept a path from the working directory."""
STATX_ALL = 0xFFF
"""Allowed fields of ``statx``. Later ones name mounts by numbers that count all of the machine's."""
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
"""Without huge pages, whose pool is shared (MAP_HUGETLB), and without locked memory (MAP_LOCKED)."""
FUTEX_PRIVATE, FUTEX_REALTIME = 128, 256
FUTEX = {"WAIT": 0, "WAKE": 1, "REQUEUE": 3, "CMP_REQUEUE": 4, "WAKE_OP": 5, "WAIT_BITSET": 9, "WAKE_BITSET": 10}
"""Private futexes only: one on a page of a library would be shared by every process that maps it."""
THREAD = 0x3D0F00
"""Flags of a new thread: VM, FS, FILES, SIGHAND, THREAD, SYSVSEM, SETTLS, PARENT_SETTID and CHILD_CLEARTID."""
DETACHED = 0x400000
"""A flag without effect, which some libraries set."""
CLOCKS = (Values(0, 0, ALL_BITS & ~7), Values(0, 8, ALL_BITS & ~3))
"""The clocks 0 to 11, of the machine and the process; others are those of other processes: the zygote's processor time
would count episodes."""
OWN_SIGNALS = tuple(
    Values(2, first, ALL_BITS & ~(count - 1))
    for first, count in ((0, 1), (4, 4), (8, 1), (10, 2), (12, 2), (14, 1), (16, 16), (32, 32), (64, 1))
)
"""Signals that a policy may send to itself: all but those by which it would seem to be killed from outside
(``core.causes.FROM_OUTSIDE``)."""
OF_A_CLOCK = ("clock_gettime", "clock_getres", "clock_nanosleep")


def permissions() -> Iterator[Permission]:
    """Yield all permissions of a policy."""
    yield from map(Permission, PLAIN_CALLS)
    for call, index in ABOUT_A_FILE.items():
        values = [*_descriptors(index), *((Values(index, here) for here in HERE) if call in BY_PATH else ())]
        asked = (Values(3, 0, ALL_BITS & ~STATX_ALL),) if call == "statx" else ()
        yield from (Permission(call, (value, *asked)) for value in values)
    for command in FCNTL_OF_ANY.values():
        yield Permission("fcntl", (Values(1, command),))
    for command in FCNTL_OF_A_FILE.values():
        yield from (Permission("fcntl", (file, Values(1, command))) for file in _descriptors(0))
    yield from (Permission("ioctl", (Values(1, request),)) for request in IOCTL.values())
    yield from (Permission("madvise", (Values(2, advice),)) for advice in MADVISE.values())
    yield Permission("mmap", (Values(3, 0, ALL_BITS & ~sum(MMAP.values())),))
    for command in FUTEX.values():
        yield Permission("futex", (Values(1, FUTEX_PRIVATE | command, ALL_BITS & ~FUTEX_REALTIME),))
    yield Permission("clone", (Values(0, THREAD, ALL_BITS & ~DETACHED),))
    yield from (Permission(call, (clock,)) for call in OF_A_CLOCK for clock in CLOCKS)
    # Its own limits and processors: libc reads them to size stacks, and others to count threads.
    yield Permission("prlimit64", (Values(0, 0), Values(2, 0)))
    yield Permission("sched_getaffinity", (Values(0, 0),))
    # Signals to its own threads, for abort and raise.
    yield from (Permission("tgkill", (Values(0, OWN_PROCESS), signals)) for signals in OWN_SIGNALS)


def _descriptors(index: int) -> Iterator[Values]:
    """Yield all descriptors except the pipes, as the argument with index ``index``."""
    size = 1
    while size < OPEN_FILES:
        if size >= PIPES:
            yield Values(index, size, ALL_BITS & ~(size - 1))
        else:
            yield from (Values(index, number) for number in range(max(size, PIPES), 2 * size))
        size *= 2


@cache
def policy_filter() -> bytes | None:
    """Return the compiled filter of policies, or None without libseccomp."""
    rules = Compiler.begin(failing(EPERM))
    if rules is None:
        return None
    for permission in permissions():
        rules.add(ALLOW, permission.call, *map(_condition, permission.conditions))
    for name in UNKNOWN_CALLS:
        rules.add(failing(ENOSYS), name)
    # Threads are joined by a shared futex; with EAGAIN, the waiting thread polls until the other has ended.
    rules.add(failing(EAGAIN), "futex", Argument(1, Comparison.MASKED_EQUAL, FUTEX_PRIVATE, 0))
    # Libraries that ask for the processors of a thread take ENOSYS for "unknown".
    rules.add(failing(ENOSYS), "sched_getaffinity", Argument(0, Comparison.NOT_EQUAL, 0))
    return rules.compiled()


@cache
def agent_filter() -> bytes | None:
    """Return the compiled filter of agents' programs, or None without libseccomp.

    It denies what no coding tool needs: access to other processes, keys, namespaces, shared memory that outlives
    processes, pages of files in memory, and extensions of the kernel.
    """
    rules = Compiler.begin(ALLOW)
    if rules is None:
        return None
    for name in AGENT_DENIED:
        rules.add(failing(EPERM), name)
    # clone3 has its flags behind a pointer; with ENOSYS, libc falls back to clone.
    rules.add(failing(ENOSYS), "clone3")
    for call, index, flag in (
        ("clone", 0, CLONE_NEWUSER),
        ("preadv2", FLAGS_OF_PREADV2, RWF_NOWAIT),
        ("statx", MASK_OF_STATX, STATX_MNT_ID_UNIQUE),
    ):
        rules.add(failing(EPERM), call, Argument(index, Comparison.MASKED_EQUAL, flag, flag))
    for name in ("socket", "socketpair"):
        for family in set(range(MOST_FAMILIES)) - AGENT_FAMILIES:
            rules.add(failing(EAFNOSUPPORT), name, Argument(0, Comparison.EQUAL, family))
        rules.add(failing(EAFNOSUPPORT), name, Argument(0, Comparison.AT_LEAST, MOST_FAMILIES))
    for request in TYPING.values():  # the kernel reads 32 bits
        rules.add(failing(EPERM), "ioctl", Argument(1, Comparison.MASKED_EQUAL, 0xFFFFFFFF, request))
    return rules.compiled()


def signals_finding() -> str:
    """Return the finding on whether a policy can end itself as if it had been killed from outside."""
    if policy_filter():
        return "a policy can't send itself those by which others end it"
    return "a policy can end itself as if it had been killed from outside, which stops its run without a score"


def seccomp_finding() -> str:
    """Return the finding on whether system calls are filtered."""
    return "on" if policy_filter() else "libseccomp is not installed: system calls are not filtered"


def _condition(values: Values) -> Argument:
    if values.mask == ALL_BITS:
        return Argument(values.argument, Comparison.EQUAL, values.value)
    return Argument(values.argument, Comparison.MASKED_EQUAL, values.mask, values.value)
