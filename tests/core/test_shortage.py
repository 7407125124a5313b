"""What a machine ran out of is known by its errors, and what can be raised is raised."""

import errno
import os
import resource
from collections.abc import Iterator

import pytest

from evopolicygym.core.errors import SandboxError
from evopolicygym.core.shortage import NO_THREAD, Shortage, need_descriptors, shortage_as_error, shortage_of

SHORT = [
    (OSError(errno.EMFILE, ""), Shortage.DESCRIPTORS),
    (OSError(errno.ENFILE, ""), Shortage.DESCRIPTORS),
    (BlockingIOError(errno.EAGAIN, ""), Shortage.THREADS),
    (RuntimeError(NO_THREAD), Shortage.THREADS),
    (ImportError(os.strerror(errno.EMFILE)), None),
    (OSError(f"libm.so: {os.strerror(errno.EMFILE)}"), Shortage.DESCRIPTORS),  # as the loader of libraries says it
    (OSError(errno.ENOSPC, os.strerror(errno.EMFILE)), None),
    (OSError("libm.so: no such file"), None),
    (RuntimeError("no running event loop"), None),
]


@pytest.mark.parametrize(("error", "short"), SHORT, ids=[repr(error) for error, _ in SHORT])
def test_a_shortage_is_known_by_its_error(error: Exception, short: Shortage | None) -> None:
    """An error says what ran out, or one that caused it does; all others stay what they are."""
    later = ValueError("it failed")
    later.__cause__ = error

    assert shortage_of(error) == shortage_of(later) == short
    if isinstance(error, OSError | RuntimeError):
        with pytest.raises(SandboxError if short else type(error)), shortage_as_error():
            raise error


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    """Have a limit of descriptors that can be raised; return it with the highest."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    hard = before[1] if before[1] != resource.RLIM_INFINITY else 1 << 20
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard - 2, before[1]))
    yield hard - 2, before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_limit_of_descriptors_is_raised_as_far_as_is_needed(limits: tuple[int, int]) -> None:
    """It is raised to what is needed, never lowered, and where it can't be, that is said."""
    soft, hard = limits
    found = []
    for count in (soft - 1, soft, soft + 1, soft + 2):
        need_descriptors(count)
        found.append(resource.getrlimit(resource.RLIMIT_NOFILE))

    assert found == [(soft, hard), (soft, hard), (soft + 1, hard), (soft + 2, hard)]
    if hard != resource.RLIM_INFINITY:
        with pytest.raises(SandboxError, match=f"{hard}.*ulimit -n"):
            need_descriptors(hard + 1)
