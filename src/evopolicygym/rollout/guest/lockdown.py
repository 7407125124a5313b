"""Drops a policy process's rights before it reads a checkpoint: capabilities, limits, no_new_privs, Landlock, seccomp.

The host decides which (``sandbox.base.Confinement``). The process can't undo any of it.
"""

import ctypes
import errno
import os
import resource
import signal
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PR_SET_NO_NEW_PRIVS, PR_SET_DUMPABLE, PR_SET_PDEATHSIG = 38, 4, 1
PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 23, 24, 47, 4
CAPABILITIES = 64
"""An upper bound of the number of capabilities of any kernel."""
CAPABILITY_SETS = struct.pack("<Ii", 0x20080522, 0), bytes(24)
"""Arguments of ``capset``: version 3 and this process; no effective, permitted or inheritable capabilities."""
SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC = 1, 1
SYSTEM_CALLS = {
    "x86_64": {"seccomp": 317, "landlock_create_ruleset": 444},
    "aarch64": {"seccomp": 277, "landlock_create_ruleset": 444},
}
LANDLOCK_READ = (1 << 2) | (1 << 3)
"""LANDLOCK_ACCESS_FS_READ_FILE and _READ_DIR."""
LANDLOCK_FS_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Number of file-system rights by ABI version; sixteen from 5 on."""


@dataclass(frozen=True, slots=True)
class PreparedLockdown:
    """What ``confine`` needs, prepared once by the zygote for all its children."""

    libc: ctypes.CDLL
    limits: Mapping[str, int]
    ruleset: int
    """A descriptor of a Landlock ruleset; -1 for none."""
    filter: bytes
    """A compiled seccomp program; empty for none."""
    own_process: int
    """The placeholder in the program for the PID of the process that installs it."""
    capabilities: Sequence[int] | None
    """The bounding set, which the children of a privileged zygote drop; None if the zygote has no privileges."""
    unprivileged: bool
    """Whether processes that it starts can't gain rights; if not, it is not confined at all."""


def prepare(confinement: Mapping[str, Any], *, privileged: bool) -> PreparedLockdown:
    """Prepare a confinement; raise ``OSError`` if the kernel refuses.

    A ``privileged`` process keeps its capabilities, and its children drop them. Any other drops its own at once, before
    it reads any file, so that it can read no more than its children.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    os.nice(confinement["nice"])
    bounding = tuple(
        capability for capability in range(CAPABILITIES) if libc.prctl(PR_CAPBSET_READ, capability, 0, 0, 0) == 1
    )
    if confinement["unprivileged"] and not privileged:
        _give_up_capabilities(libc, bounding)
        _require(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS")
    ruleset = _ruleset(libc, confinement["landlock"]) if confinement["landlock"] and landlock_version() else -1
    program, capabilities = bytes.fromhex(confinement["seccomp"]), bounding if privileged else None
    return PreparedLockdown(
        libc,
        confinement["limits"],
        ruleset,
        program,
        confinement["own_process"],
        capabilities,
        confinement["unprivileged"],
    )


def confine(how: PreparedLockdown) -> None:
    """Apply a prepared confinement to this process; raise ``OSError`` if the kernel refuses."""
    if how.capabilities is not None:
        _give_up_capabilities(how.libc, how.capabilities)
    for name, amount in how.limits.items():
        _limit(getattr(resource, name), amount)
    if how.unprivileged:
        _require(how.libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "PR_SET_DUMPABLE")
        _require(how.libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS")
    if how.ruleset >= 0:
        _require(how.libc.syscall(_number("landlock_create_ruleset") + 2, how.ruleset, 0), "landlock_restrict_self")
        os.close(how.ruleset)
    if how.filter:
        stand_in, own = (struct.pack("<I", number) for number in (how.own_process, os.getpid()))
        _filter_system_calls(how.libc, how.filter.replace(stand_in, own) if how.own_process else how.filter)


def _give_up_capabilities(libc: ctypes.CDLL, bounding: Sequence[int]) -> None:
    """Empty all five sets; the bounding set first, since dropping from it needs a capability.

    A process without that capability keeps the bounding set, which has no effect under no_new_privs.
    """
    for capability in bounding:
        dropped = libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        if dropped < 0 and ctypes.get_errno() == errno.EPERM:
            break
        _require(dropped, "PR_CAPBSET_DROP")
    _require(libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "PR_CAP_AMBIENT")
    _require(libc.capset(*CAPABILITY_SETS), "capset")


def _limit(kind: int, amount: int) -> None:
    """Set a limit, unless the current one is stricter.

    At the hard limit of processor time the kernel sends SIGKILL, as anybody from outside may; at the soft one, SIGXCPU.
    """
    _, hard = resource.getrlimit(kind)
    limit = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
    resource.setrlimit(kind, (limit, hard if kind == resource.RLIMIT_CPU else limit))


def die_with_parent(prepared: PreparedLockdown) -> None:
    """Have the kernel kill this process when the zygote ends; which nothing else does without namespaces."""
    _require(prepared.libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "PR_SET_PDEATHSIG")


def landlock_version() -> int:
    """Return the kernel's Landlock ABI version; 0 for none."""
    version = ctypes.CDLL(None, use_errno=True).syscall(_number("landlock_create_ruleset"), None, 0, 1)
    return max(0, int(version))


def _ruleset(libc: ctypes.CDLL, readable: Sequence[str]) -> int:
    """Return a ruleset that allows only reading below the paths, without TCP and without signals to other processes."""
    version = landlock_version()
    rights = (1 << LANDLOCK_FS_RIGHTS.get(version, 16)) - 1
    network = 3 if version >= 4 else 0  # noqa: PLR2004 - the ABI that brought TCP rules: bind and connect
    scoped = 3 if version >= 6 else 0  # noqa: PLR2004 - the ABI that brought scopes: abstract sockets and signals
    attributes = struct.pack("<QQQ", rights, network, scoped)[: 24 if scoped else 16 if network else 8]
    first = _number("landlock_create_ruleset")
    ruleset = int(libc.syscall(first, attributes, len(attributes), 0))
    _require(ruleset, "landlock_create_ruleset")
    for path in readable:
        _allow_reading(libc, first + 1, ruleset, path)
    return ruleset


def allow_reading(prepared: PreparedLockdown, path: str) -> None:
    """Let children also read below a path, if there is a ruleset; raise ``OSError`` if the kernel refuses."""
    if prepared.ruleset >= 0:
        _allow_reading(prepared.libc, _number("landlock_create_ruleset") + 1, prepared.ruleset, path)


def _allow_reading(libc: ctypes.CDLL, add_rule: int, ruleset: int, path: str) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    allowed = LANDLOCK_READ if os.path.isdir(path) else LANDLOCK_READ & ~(1 << 3)  # noqa: PTH112 - pathlib loads late
    rule = struct.pack("<Qi", allowed, descriptor)
    _require(libc.syscall(add_rule, ruleset, 1, rule, 0), f"landlock_add_rule {path}")
    os.close(descriptor)


def _filter_system_calls(libc: ctypes.CDLL, program: bytes) -> None:
    """Install a compiled BPF program for all threads of this process."""
    instructions = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(instructions))
    arguments = (_number("seccomp"), SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, header)
    _require(libc.syscall(*arguments), "seccomp")


def _number(name: str) -> int:
    return SYSTEM_CALLS.get(os.uname().machine, SYSTEM_CALLS["x86_64"])[name]


def _require(result: int, what: str) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
