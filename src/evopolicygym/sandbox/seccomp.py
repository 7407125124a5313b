"""The filters of system calls: what a policy and an agent's program may ask of the kernel, compiled by libseccomp.

A policy is refused everything but what ``permissions`` lists: it reads the files that it can see, computes, waits,
starts threads, and writes to its own pipes. Nothing there may leave a mark that another process can find, now or later.
A call that takes a command, flags or another process's number is allowed for the values that stand here, no others: a
kernel that learns a new one does not widen the list. Values are compared over all 64 bits of an argument, although the
kernel often looks at 32: a value with stray upper bits is refused. ``checks/channel_search/`` tries all that the
compiled filter lets through (``allowed_calls``) for marks that survive.

An agent's program, which must run any coding tool, is allowed everything but what ``AGENT_DENIED`` names. Filters are
compiled on the trusted side; a policy's process only installs its own.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from errno import EAFNOSUPPORT, EAGAIN, ENOSYS, EPERM
from functools import cache
from operator import and_, eq, ge, gt
from socket import AF_INET, AF_INET6, AF_NETLINK, AF_UNIX
from struct import iter_unpack
from typing import Any

ALL_BITS = (1 << 64) - 1
OWN_PROCESS = 0x5EA1ED07
"""Stands in the filter for the number of the process that installs it, which nobody knows while it is compiled."""
PIPES = 5
"""Descriptors below are the policy's pipes and its null device (``guest.episode``)."""
OPEN_FILES = 256
"""One more than the largest descriptor (RLIMIT_NOFILE): a power of two."""
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
"""Sockets that an agent may open: of no other family is it sure that its namespace of networks holds them in."""
MOST_FAMILIES = 64
CLONE_NEWUSER = 0x10000000
RWF_NOWAIT, FLAGS_OF_PREADV2 = 0x8, 5
"""To read only what is in memory, and the place of that among the arguments."""
STATX_MNT_ID_UNIQUE, MASK_OF_STATX = 0x4000, 3
"""To ask for a mount by a number that counts all mounts of the machine, and the place of that among the arguments."""
TYPING = {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541C}
"""Requests of ioctl that type for the user."""
LOAD, ALWAYS, EQUAL, GREATER, AT_LEAST, ANY_BIT, MASK, RETURN = 0x20, 0x05, 0x15, 0x25, 0x35, 0x45, 0x54, 0x06
COMPARISONS = {EQUAL: eq, GREATER: gt, AT_LEAST: ge, ANY_BIT: and_}
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
"""Where these lie in what a filter looks at, in bytes."""
AUDIT_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW = 0x7FFF0000
MOST_CALLS = 1024
"""More system calls than any kernel has."""
WORD = 0xFFFFFFFF


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
"""Calls that leave nothing behind, whatever their arguments.

Not among them, for what they would tell of others: ``getrusage`` (major faults and blocks that were read say which
pages of a file were in memory), ``openat2`` (RESOLVE_CACHED says which names were), ``statfs``, ``sysinfo``; and for
what they count: ``pipe2``, ``socketpair`` (inode numbers go on from process to process), ``timer_create``, ``epoll_*``
(of one user all together).
"""
UNKNOWN_CALLS = (
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
    yield from map(Permission, PLAIN_CALLS)
    for call, place in ABOUT_A_FILE.items():
        values = [*_descriptors(place), *((Values(place, here) for here in HERE) if call in BY_PATH else ())]
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
    # Its own limits and processors may be asked for: libc does, to size stacks, and others to count threads.
    yield Permission("prlimit64", (Values(0, 0), Values(2, 0)))
    yield Permission("sched_getaffinity", (Values(0, 0),))
    # Its own threads may be signalled: abort and raise do.
    yield Permission("tgkill", (Values(0, OWN_PROCESS),))


def _descriptors(place: int) -> Iterator[Values]:
    """Yield all descriptors but those of the pipes, as an argument at ``place``."""
    size = 1
    while size < OPEN_FILES:
        if size >= PIPES:
            yield Values(place, size, ALL_BITS & ~(size - 1))
        else:
            yield from (Values(place, number) for number in range(max(size, PIPES), 2 * size))
        size *= 2


@cache
def policy_filter() -> bytes | None:
    """Return the compiled filter, or None where libseccomp is not installed."""
    try:
        import pyseccomp
    except (ImportError, OSError, RuntimeError):
        return None
    rules = pyseccomp.SyscallFilter(pyseccomp.ERRNO(EPERM))
    for permission in permissions():
        conditions = (_condition(pyseccomp, condition) for condition in permission.conditions)
        _add(rules, pyseccomp, pyseccomp.ALLOW, permission.call, *conditions)
    for name in UNKNOWN_CALLS:
        _add(rules, pyseccomp, pyseccomp.ERRNO(ENOSYS), name)
    # A thread is joined by a shared futex; answered EAGAIN, the waiting thread polls until the other is gone.
    shared = pyseccomp.Arg(1, pyseccomp.MASKED_EQ, FUTEX_PRIVATE, 0)
    _add(rules, pyseccomp, pyseccomp.ERRNO(EAGAIN), "futex", shared)
    # Libraries take this answer for "not known" where they ask for the processors of a thread.
    _add(rules, pyseccomp, pyseccomp.ERRNO(ENOSYS), "sched_getaffinity", pyseccomp.Arg(0, pyseccomp.NE, 0))
    return _exported(rules)


@cache
def agent_filter() -> bytes | None:
    """Return the compiled filter for an agent's program, or None where libseccomp is not installed.

    It denies what no coding tool needs: looking into other processes, keys, namespaces, memory that belongs to nobody,
    which pages of a file are in memory, what widens the kernel's reach.
    """
    try:
        import pyseccomp
    except (ImportError, OSError, RuntimeError):
        return None
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in AGENT_DENIED:
        _deny(rules, pyseccomp, EPERM, name)
    # clone3 hides its flags behind a pointer: to answer that it doesn't exist makes libc fall back to clone.
    _deny(rules, pyseccomp, ENOSYS, "clone3")
    _deny(rules, pyseccomp, EPERM, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER))
    in_memory_alone = pyseccomp.Arg(FLAGS_OF_PREADV2, pyseccomp.MASKED_EQ, RWF_NOWAIT, RWF_NOWAIT)
    _deny(rules, pyseccomp, EPERM, "preadv2", in_memory_alone)
    counted = pyseccomp.Arg(MASK_OF_STATX, pyseccomp.MASKED_EQ, STATX_MNT_ID_UNIQUE, STATX_MNT_ID_UNIQUE)
    _deny(rules, pyseccomp, EPERM, "statx", counted)
    for name in ("socket", "socketpair"):
        for family in set(range(MOST_FAMILIES)) - AGENT_FAMILIES:
            _deny(rules, pyseccomp, EAFNOSUPPORT, name, pyseccomp.Arg(0, pyseccomp.EQ, family))
        _deny(rules, pyseccomp, EAFNOSUPPORT, name, pyseccomp.Arg(0, pyseccomp.GE, MOST_FAMILIES))
    for request in TYPING.values():  # of which the kernel looks at 32 bits
        _deny(rules, pyseccomp, EPERM, "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, request))
    return _exported(rules)


def call_name(number: int) -> str:
    """Return the name of a system call of this machine; its number as text where libseccomp doesn't know it."""
    import pyseccomp

    try:
        return str(pyseccomp.resolve_syscall(pyseccomp.system_arch(), number).decode())
    except (ValueError, OSError):
        return str(number)


def seccomp_finding() -> str:
    """Return in words whether system calls are filtered here."""
    return "on" if policy_filter() else "libseccomp is not installed: system calls are not filtered"


def _condition(pyseccomp: Any, values: Values) -> Any:  # noqa: ANN401 - untyped library
    if values.mask == ALL_BITS:
        return pyseccomp.Arg(values.argument, pyseccomp.EQ, values.value)
    return pyseccomp.Arg(values.argument, pyseccomp.MASKED_EQ, values.mask, values.value)


def _deny(rules: Any, pyseccomp: Any, code: int, name: str, *arguments: Any) -> None:  # noqa: ANN401 - as above
    _add(rules, pyseccomp, pyseccomp.ERRNO(code), name, *arguments)


def _add(rules: Any, pyseccomp: Any, action: int, name: str, *arguments: Any) -> None:  # noqa: ANN401 - as above
    try:
        number = pyseccomp.resolve_syscall(pyseccomp.system_arch(), name)
    except (ValueError, OSError):
        return
    if number >= 0:  # negative where this architecture or this libseccomp doesn't know the call
        rules.add_rule(action, name, *arguments)


def _exported(rules: Any) -> bytes:  # noqa: ANN401 - as above
    descriptor = os.memfd_create("filter")
    with os.fdopen(descriptor, "w+b") as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of 32 bits of an argument, and how it must come out."""

    argument: int
    high: bool
    mask: int
    comparison: int
    value: int
    holds: bool

    def allows(self, value: int) -> bool:
        """Return whether an argument's value meets it."""
        word = (value >> 32 if self.high else value) & self.mask
        return bool(COMPARISONS[self.comparison](word, self.value)) is self.holds


@dataclass(frozen=True, slots=True)
class Allowed:
    """One way through the filter: a call's number, and what must hold of its arguments."""

    number: int
    conditions: tuple[Condition, ...]

    def values(self, argument: int, offered: Iterable[int]) -> list[int]:
        """Return values that an argument may have: of those offered, and what the conditions themselves name."""
        own = [condition for condition in self.conditions if condition.argument == argument]
        if not own:
            return list(offered)
        named = [condition for condition in own if condition.comparison == EQUAL and condition.holds]
        base = sum(condition.value << 32 * condition.high for condition in named)
        fixed = 0
        for condition in named:
            fixed |= condition.mask << 32 * condition.high
        free = [1 << bit for bit in range(64) if not fixed >> bit & 1]
        found = (*offered, base, *(base | bit for bit in free))
        return [value for value in dict.fromkeys(found) if all(condition.allows(value) for condition in own)]


def allowed_calls(program: bytes, machine: str) -> Iterator[Allowed]:
    """Yield every way through a compiled filter for calls of a machine's own architecture.

    Ways that differ only in what does not hold are one.
    """
    instructions = list(iter_unpack("<HBBI" if sys.byteorder == "little" else ">HBBI", program))
    for number in range(MOST_CALLS):
        known = {NUMBER: number, ARCHITECTURE: AUDIT_ARCHITECTURES[machine]}
        ways = {tuple(condition for condition in way if condition.holds): way for way in _ways(instructions, known)}
        yield from (Allowed(number, conditions) for conditions in ways.values())


def _ways(instructions: list[tuple[int, int, int, int]], known: dict[int, int]) -> Iterator[tuple[Condition, ...]]:
    """Yield the conditions under which the program ends with allowing, one tuple for each way to such an end."""
    # Where in the program, the number that is loaded or else which word of which argument, its mask, conditions so far.
    open_ways: list[tuple[int, int | None, int, int, tuple[Condition, ...]]] = [(0, 0, 0, WORD, ())]
    while open_ways:
        at, loaded, offset, mask, conditions = open_ways.pop()
        code, if_so, if_not, value = instructions[at]
        if code == RETURN:
            if value == ALLOW:
                yield conditions
        elif code == LOAD:
            open_ways.append((at + 1, known.get(value), value, WORD, conditions))
        elif code == MASK:
            concrete = None if loaded is None else loaded & value
            open_ways.append((at + 1, concrete, offset, mask & value, conditions))
        elif code == ALWAYS:
            open_ways.append((at + 1 + value, loaded, offset, mask, conditions))
        elif loaded is not None:
            jump = if_so if COMPARISONS[code](loaded, value) else if_not
            open_ways.append((at + 1 + jump, loaded, offset, mask, conditions))
        else:
            for jump, holds in ((if_not, False), (if_so, True)):
                argument, high = divmod(offset - ARGUMENTS, 8)
                condition = Condition(argument, bool(high), mask, code, value, holds)
                if replace(condition, holds=not holds) not in conditions:
                    kept = conditions if condition in conditions else (*conditions, condition)
                    open_ways.append((at + 1 + jump, None, offset, mask, kept))
