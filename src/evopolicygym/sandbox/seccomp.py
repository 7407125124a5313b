"""The filters of system calls for policies and for agents, compiled by libseccomp where it is installed.

Everything is allowed but what is named. For policies: no network, no program, no other process (threads are allowed),
no look into other processes, no change to files but by writing, no measurement of the machine, nothing that widens what
the kernel offers; for agents see ``agent_filter``. The filters are compiled here, on the trusted side; the policy's
process only installs its own.
"""

import os
from errno import EAFNOSUPPORT, ENOSYS, EPERM
from functools import cache
from socket import AF_INET, AF_INET6, AF_NETLINK, AF_UNIX
from typing import Any

NETWORK = "socket socketpair connect bind listen accept accept4 sendto sendmsg sendmmsg"
PROGRAMS = "execve execveat fork vfork"
PROCESSES = (
    "ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd pidfd_open pidfd_send_signal kcmp "
    "kill tkill rt_sigqueueinfo rt_tgsigqueueinfo setsid setpgid"
)
SHARED_MEMORY = "shmget shmat shmctl semget semop semctl msgget msgsnd msgrcv mq_open memfd_create memfd_secret"
KEYS = "add_key request_key keyctl"
NAMESPACES = (
    "unshare setns mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr"
)
FILES = (
    "chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes utimensat futimesat setxattr lsetxattr "
    "fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat file_setattr mkdir mkdirat rmdir rename "
    "renameat renameat2 unlink unlinkat link linkat symlink symlinkat mknod mknodat truncate"
)
"""What Landlock leaves to a file's owner, and what it forbids, for kernels without it."""
BETWEEN_EPISODES = (
    "flock inotify_init inotify_init1 statfs fstatfs sysinfo fadvise64 readahead mincore cachestat preadv2"
)
"""Ways in which episodes could tell each other something: libraries are common files, and so are their pages in memory.
"""
KERNEL = (
    "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register init_module finit_module "
    "delete_module kexec_load kexec_file_load reboot swapon swapoff acct quotactl iopl ioperm modify_ldt personality "
    "syslog open_by_handle_at name_to_handle_at fanotify_init move_pages migrate_pages mbind set_mempolicy "
    "settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname"
)
PRIVILEGE = (
    "setrlimit setpriority sched_setscheduler sched_setparam sched_setattr sched_setaffinity ioprio_set "
    "setuid setgid setreuid setregid setresuid setresgid setgroups setfsuid setfsgid capset"
)
OF_THE_PROCESS = f"{NETWORK} {PROGRAMS} {PROCESSES} {SHARED_MEMORY} {PRIVILEGE}"
OF_THE_MACHINE = f"{KEYS} {NAMESPACES} {FILES} {BETWEEN_EPISODES} {KERNEL}"
DENIED = f"{OF_THE_PROCESS} {OF_THE_MACHINE}".split()
AGENT_DENIED = (
    "ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp "
    f"{KEYS} {NAMESPACES} memfd_secret bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register "
    "init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct quotactl "
    "quotactl_fd iopl ioperm modify_ldt syslog vhangup open_by_handle_at name_to_handle_at fanotify_init "
    "lookup_dcookie move_pages migrate_pages settimeofday clock_settime sethostname setdomainname"
).split()
AGENT_FAMILIES = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}
"""Sockets that an agent may open: of no other family is it sure that its namespace of networks holds them in."""
MOST_FAMILIES = 64
CLONE_NEWUSER = 0x10000000
CLONE_THREAD = 0x00010000
REQUESTS = {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541C, "FS_IOC_SETFLAGS": 0x40086602, "FS_IOC_FSSETXATTR": 0x401C5820}
"""Requests of ioctl that type for the user, or change a file that is open only for reading."""
FILE_COMMANDS = {
    "F_GETLK": 5, "F_SETLK": 6, "F_SETLKW": 7, "F_OFD_GETLK": 36, "F_OFD_SETLK": 37, "F_OFD_SETLKW": 38,
    "F_SETLEASE": 1024, "F_NOTIFY": 1026,
}  # fmt: skip
"""Commands of fcntl by which who has a file open tells others who have."""
PAGES_OUT = {"MADV_COLD": 20, "MADV_PAGEOUT": 21}
"""Advice of madvise that takes a file's pages out of memory, which others notice."""
OWN_PROCESS = 0x5EA1ED07
"""Stands in the filter for the number of the process that installs it, which nobody knows while it is compiled."""


@cache
def policy_filter() -> bytes | None:
    """Return the compiled filter, or None where libseccomp is not installed."""
    try:
        import pyseccomp
    except (ImportError, OSError, RuntimeError):
        return None
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in DENIED:
        _deny(rules, pyseccomp, EPERM, name)
    # clone3 hides its flags behind a pointer: to answer that it doesn't exist makes libc fall back to clone.
    _deny(rules, pyseccomp, ENOSYS, "clone3")
    _deny(rules, pyseccomp, EPERM, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, CLONE_THREAD, 0))
    # A process may ask for its limits (libc does, to size stacks) but not set any.
    _deny(rules, pyseccomp, EPERM, "prlimit64", pyseccomp.Arg(2, pyseccomp.NE, 0))
    # A process may signal its own threads (abort and raise do), not those of others.
    _deny(rules, pyseccomp, EPERM, "tgkill", pyseccomp.Arg(0, pyseccomp.NE, OWN_PROCESS))
    for command in FILE_COMMANDS.values():
        _deny(rules, pyseccomp, EPERM, "fcntl", pyseccomp.Arg(1, pyseccomp.EQ, command))
    for advice in PAGES_OUT.values():
        _deny(rules, pyseccomp, EPERM, "madvise", pyseccomp.Arg(2, pyseccomp.EQ, advice))
    for request in REQUESTS.values():
        _deny(rules, pyseccomp, EPERM, "ioctl", pyseccomp.Arg(1, pyseccomp.EQ, request))
    return _exported(rules)


@cache
def agent_filter() -> bytes | None:
    """Return the compiled filter for an agent's program, or None where libseccomp is not installed.

    It denies what no coding tool needs: looking into other processes, keys, namespaces, what widens the kernel's reach.
    """
    try:
        import pyseccomp
    except (ImportError, OSError, RuntimeError):
        return None
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in AGENT_DENIED:
        _deny(rules, pyseccomp, EPERM, name)
    _deny(rules, pyseccomp, ENOSYS, "clone3")  # as above
    _deny(rules, pyseccomp, EPERM, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER))
    for name in ("socket", "socketpair"):
        for family in set(range(MOST_FAMILIES)) - AGENT_FAMILIES:
            _deny(rules, pyseccomp, EAFNOSUPPORT, name, pyseccomp.Arg(0, pyseccomp.EQ, family))
        _deny(rules, pyseccomp, EAFNOSUPPORT, name, pyseccomp.Arg(0, pyseccomp.GE, MOST_FAMILIES))
    for name in ("TIOCSTI", "TIOCLINUX"):
        _deny(rules, pyseccomp, EPERM, "ioctl", pyseccomp.Arg(1, pyseccomp.EQ, REQUESTS[name]))
    return _exported(rules)


def seccomp_finding() -> str:
    """Return in words whether system calls are filtered here."""
    return "on" if policy_filter() else "libseccomp is not installed: system calls are not filtered"


def _deny(rules: Any, pyseccomp: Any, code: int, name: str, *arguments: Any) -> None:  # noqa: ANN401 - untyped library
    try:
        number = pyseccomp.resolve_syscall(pyseccomp.system_arch(), name)
    except (ValueError, OSError):
        return
    if number >= 0:  # negative where this architecture or this libseccomp doesn't know the call
        rules.add_rule(pyseccomp.ERRNO(code), name, *arguments)


def _exported(rules: Any) -> bytes:  # noqa: ANN401 - as above
    descriptor = os.memfd_create("filter")
    with os.fdopen(descriptor, "w+b") as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()
