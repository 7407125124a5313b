"""Starting programs whose memory is laid out the same way every time, so that addresses tell and decide nothing.

Python hashes objects that define no hash of their own by their address: with addresses by chance, a policy that
iterates over a set of its objects would play differently every time.
"""

import ctypes
import resource
from collections.abc import Iterator
from contextlib import contextmanager

from evopolicygym.rollout.guest.zygote import ADDR_NO_RANDOMIZE, PERSONALITY_ONLY_ASK

STACK_BYTES = 8 << 20
"""The kernel lays libraries below the room that a stack may take."""


@contextmanager
def fixed_layout() -> Iterator[None]:
    """Have what this thread starts meanwhile laid out the same every time; by chance where the kernel refuses."""
    libc = ctypes.CDLL(None)
    before, (soft, hard) = libc.personality(PERSONALITY_ONLY_ASK), resource.getrlimit(resource.RLIMIT_STACK)
    stack = STACK_BYTES if hard == resource.RLIM_INFINITY else min(STACK_BYTES, hard)
    libc.personality(before | ADDR_NO_RANDOMIZE)
    resource.setrlimit(resource.RLIMIT_STACK, (stack, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
        libc.personality(before)
