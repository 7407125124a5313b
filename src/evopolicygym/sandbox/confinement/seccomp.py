"""The filters of system calls for policies and for agents, compiled by libseccomp where it is installed.

A policy is refused everything but what ``permitted.py`` lists; an agent's program, which must run any coding tool, is
allowed everything but what is named here. The filters are compiled on the trusted side; a policy's process only
installs its own.
"""

import os
from errno import EAFNOSUPPORT, EAGAIN, ENOSYS, EPERM
from functools import cache
from socket import AF_INET, AF_INET6, AF_NETLINK, AF_UNIX
from typing import Any

from evopolicygym.sandbox.confinement.permitted import ALL_BITS, FUTEX_PRIVATE, UNKNOWN, Values, permissions

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


@cache
def policy_filter() -> bytes | None:
    """Return the compiled filter, or None where libseccomp is not installed."""
    try:
        import pyseccomp
    except (ImportError, OSError, RuntimeError):
        return None
    rules = pyseccomp.SyscallFilter(pyseccomp.ERRNO(EPERM))
    for permission in permissions():
        conditions = (_condition(pyseccomp, one) for one in permission.conditions)
        _add(rules, pyseccomp, pyseccomp.ALLOW, permission.call, *conditions)
    for name in UNKNOWN:
        _add(rules, pyseccomp, pyseccomp.ERRNO(ENOSYS), name)
    # Who waits for a thread's end does so by a shared futex; answered EAGAIN, it looks until the thread is gone.
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
