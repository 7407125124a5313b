"""An agent's limits: which of them the kernel is given, and what was found to hold, in words for the record.

What is looked at from outside instead is described in ``watch.py``.
"""

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from evopolicygym.core.agent import AgentLimits
from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox.confinement.cgroup import ControlGroup
from evopolicygym.sandbox.confinement.seccomp import agent_filter, seccomp_finding
from evopolicygym.sandbox.confinement.watch import LOOK_EVERY_S, MEBIBYTE

OPEN_FILES = (1024, 16384)
"""Soft and hard: programs that wait with ``select`` take no more than the first, Node asks for the second."""
NICE = 10
"""Episodes are timed; what the agent computes at the same time comes last."""
MOST_OF_MEMORY = 0.75
NOT_COUNTED = "what lies in pipes and sockets is not counted, mapped files in memory are counted twice"
COUNTED_BY_NAMESPACE = (5, 14)
"""The first kernel on which RLIMIT_NPROC counts a namespace's processes and not all of a user."""


def of_this_machine(limits: AgentLimits) -> AgentLimits:
    """Return limits that this machine's memory bears."""
    present = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MEBIBYTE
    memory = min(limits.memory_mb, int(present * MOST_OF_MEMORY))
    return replace(limits, memory_mb=memory, scratch_mb=min(limits.scratch_mb, memory // 2))


def resource_limits(limits: AgentLimits, *, namespaced: bool = True) -> dict[str, tuple[int, int]]:
    """Return soft and hard resource limits by name.

    RLIMIT_AS is left alone: Node and whatever else reserves address space ends under it. So is RLIMIT_NPROC outside of
    a namespace of users: there it counts all that the user runs.
    """
    largest = limits.system_mb * MEBIBYTE
    found = {"RLIMIT_CORE": (0, 0), "RLIMIT_FSIZE": (largest, largest), "RLIMIT_NOFILE": OPEN_FILES}
    if namespaced and counts_by_namespace():
        found["RLIMIT_NPROC"] = (limits.processes, limits.processes)
    return found


def findings(
    held: Mapping[str, Any], limits: AgentLimits, group: ControlGroup | None, *, namespaced: bool = True
) -> dict[str, str]:
    """Return in words what a workplace's stub found to hold; raise ``SandboxError`` where it may what it must not."""
    bounding = int(held["CapBnd"], 16) if namespaced else 0  # an ordinary user can't give it up, nor have any of it
    if int(held["CapEff"], 16) or int(held["CapPrm"], 16) or bounding or held["NoNewPrivs"] != "1":
        raise SandboxError("The agent's workplace has privileges that it should not have.")
    if agent_filter() and held["Seccomp"] != "2":
        raise SandboxError("The agent's workplace filters no system calls although it should.")
    largest, files = held["limits"]["RLIMIT_FSIZE"][1] // MEBIBYTE, held["limits"]["RLIMIT_NOFILE"][1]
    sizes = "".join(f"{place} {size // MEBIBYTE} MiB; " for place, size in held["sizes"].items())
    looked = f"looked at every {LOOK_EVERY_S:g} s, as no control group could be made"
    how = "by a control group" if group else looked
    return {
        "privileges": "no capabilities, no new privileges",
        "seccomp": seccomp_finding(),
        "memory": f"{limits.memory_mb} MiB, {how}" + ("" if group else f"; {NOT_COUNTED}"),
        "processes": f"{limits.processes} with their threads, {how}{_by_resource_limit(held)}",
        "files": f"{largest} MiB each, {files} open; {sizes}no core files",
        "system": f"{limits.system_mb} MiB and {limits.system_files} entries, looked at from outside",
        **({} if namespaced else {"not kept in": _outside(group)}),
    }


def _outside(group: ControlGroup | None) -> str:
    """Return in words what a program may do where it has no namespaces."""
    root = "" if os.geteuid() else ", which is root's, so that it can change all that root owns"
    counted = "" if group else "; what drops its environment is neither counted nor ended with it"
    return (
        f"it reads and writes this user's files{root}, signals this user's processes, reaches the network, and what it "
        f"started outlives a judge that is killed{counted}"
    )


def _by_resource_limit(held: Mapping[str, Any]) -> str:
    # The kernel never refuses a process to root for its number, whatever root is called in a namespace.
    return "; RLIMIT_NPROC besides" if "RLIMIT_NPROC" in held["limits"] and os.geteuid() else ""


@cache
def counts_by_namespace() -> bool:
    """Return whether the kernel counts a user's processes in each user namespace, as from Linux 5.14 on.

    Before that it counts them on the whole machine, and one policy's threads would starve another's.
    """
    version = re.match(r"(\d+)\.(\d+)", platform.release())
    return version is not None and tuple(map(int, version.groups())) >= COUNTED_BY_NAMESPACE
