"""No mark that a policy leaves by any system call it may make is found by another, later or at the same time."""

import decimal
import fcntl
import json
import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

import wider_filters
from evopolicygym.checks.channel_search.search import SearchResult, search
from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox.confinement.allowed import allowed
from evopolicygym.sandbox.confinement.permitted import permissions
from evopolicygym.sandbox.confinement.seccomp import call_name, policy_filter
from evopolicygym.specs.catalog import load
from ordinary_user import run

F_SET_RW_HINT = 1036
PROGRAM = """
import json, sys
from evopolicygym.specs.catalog import load
from evopolicygym.checks.channel_search.search import search
found = search(sys.argv[1], load("cartpole"))
print(json.dumps([len(found.calls), sorted(found.unsteady), list(map(str, found.channels))]))
"""


@pytest.fixture(autouse=True)
def _filtered() -> None:
    if policy_filter() is None:
        pytest.skip("libseccomp is not installed")


def searched(level: str, calls: tuple[str, ...] = (), library: str = "json") -> SearchResult:
    """Search a level, or one of ``wider_filters`` whose filter lets through these calls besides."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", wider_filters.__file__.rpartition("/")[0])
        program = wider_filters.wider(*calls) if calls else None
        try:
            return search(level, load("cartpole"), program=program, library=library, only=calls)
        except SandboxError as error:
            if "can't make a sandbox here" in str(error):
                pytest.skip(str(error))
            raise


@pytest.mark.nightly
@pytest.mark.parametrize("level", ["bubblewrap", "process"])
def test_no_mark_survives(level: str) -> None:
    """Whatever the filter lets through, no later policy finds a mark of it, and none that plays at the same time."""
    found = searched(level)

    assert (found.unsteady, found.channels) == (frozenset(), ())
    assert {name.partition("#")[0] for name in found.calls} >= {"fcntl", "futex", "mmap", "openat", "clone", "write"}


@pytest.mark.nightly
@pytest.mark.parametrize("level", ["bubblewrap", "process"])
def test_no_mark_survives_for_an_ordinary_user(level: str, ordinary: list[str]) -> None:
    """The same holds where the judge has no right of root's."""
    done = run(ordinary, "-c", PROGRAM, level)
    if "bubblewrap can't make a sandbox here" in done.stderr:
        pytest.skip(done.stderr.strip()[-300:])

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[1:] == [[], []]


@pytest.fixture
def _no_hint() -> Iterator[None]:
    """Have no write hint on the file that writers have open: it outlives everything but the machine's memory."""
    with Path(decimal.__file__).open("rb") as file:
        try:
            fcntl.fcntl(file, F_SET_RW_HINT, bytes(8))
        except OSError as error:
            pytest.skip(f"this user can't set write hints of the standard library's files: {error}")
        yield
        fcntl.fcntl(file, F_SET_RW_HINT, bytes(8))


@pytest.mark.usefixtures("_no_hint")
def test_commands_that_leave_marks_are_noticed() -> None:
    """Were all commands of fcntl allowed, the search would find a write hint on the standard library's file."""
    found = searched("wider_filters:EveryCommand", ("fcntl",), library="decimal")

    assert "its write hint" in {channel.found_by for channel in found.channels}


def test_locks_are_noticed() -> None:
    """Were locks allowed, the search would find that one policy's hold up another's."""
    found = searched("wider_filters:Locks", ("flock",))

    assert "flock#1" in {channel.found_by for channel in found.channels if "flock" in channel.written_by}


def test_what_counts_is_noticed() -> None:
    """Were a policy to see its pipes' inode numbers, which count the machine's, the search would call them unsteady."""
    assert "fstat" in searched("wider_filters:EveryDescriptor", ("fstat",)).unsteady


def test_the_filter_lets_through_what_is_listed() -> None:
    """Read from its instructions, the compiled filter allows the calls of the list and no others."""
    program = policy_filter() or b""
    found = {call_name(way.number) for way in allowed(program, platform.machine())}

    assert found <= {permission.call for permission in permissions()}
    assert {"socket", "fork", "prctl", "getrusage", "openat2", "pipe2", "io_setup", "listmount"}.isdisjoint(found)


@pytest.mark.parametrize("value", [1036 | 1 << 32, 1 << 63, 1036])
def test_stray_upper_bits_are_refused(value: int) -> None:
    """A command whose upper half the kernel would not look at is no way around the list."""
    ways = [way for way in allowed(policy_filter() or b"", platform.machine()) if call_name(way.number) == "fcntl"]

    assert ways
    assert not any(value in way.values(1, [value]) for way in ways)
