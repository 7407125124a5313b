"""The bound of memory of a process that plays a pack's simulator: one that leaks takes no other process along."""

import os
import resource

LEAST = 4 << 30
"""Bytes that a worker may have on any machine."""
MEBIBYTE = 1 << 20


def bound_memory(policy_mb: int = 0) -> None:
    """Have this process and its children refused more memory than half of this machine's; its policies have theirs."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most = max(machine // 2, LEAST, policy_mb * MEBIBYTE)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bounded = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (bounded, bounded))
