"""No mark of a policy is found by another: not by any allowed system call, nor by files that runs share."""

import json
import platform
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import benchmark_module
import wider_filters
from distributions import install_distribution
from enclosed import needs_bubblewrap
from evopolicygym.core.errors import SandboxError
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.sandbox.overlays import why_shared
from evopolicygym.sandbox.seccomp import permissions, policy_filter
from evopolicygym.specs.catalog import load
from ordinary_user import run

search, across, compiled_filter = (
    benchmark_module.load(f"channel_search.{name}") for name in ("search", "across", "compiled_filter")
)
POLICY, PROGRAM, OUTSIDE = across.POLICY, across.PROGRAM, across.OUTSIDE
SEARCH_PROGRAM = f"""
import json, sys
sys.path.append({benchmark_module.PLACE!r})
from evopolicygym.specs.catalog import load
from channel_search.search import search
found = search(sys.argv[1], load("cartpole"))
print(json.dumps([len(found.calls), sorted(found.unsteady), list(map(str, found.channels))]))
"""


@pytest.fixture(autouse=True)
def _filtered() -> None:
    if policy_filter() is None:
        pytest.skip("libseccomp is not installed")


@pytest.fixture
def own_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give policies a library that nothing else on this machine reads, and have a search use it."""
    install_distribution(tmp_path / "site", "own_library", own_library="")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "own_library", raising=False)  # that of the test before
    monkeypatch.setattr(search, "ExecutorConfig", partial(ExecutorConfig, policy_packages=("own_library",)))


def searched(level: str, calls: tuple[str, ...] = (), library: str = "json", only: tuple[str, ...] = ()) -> Any:
    """Search a level for some calls, or for all; one of ``wider_filters`` lets through some besides."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", wider_filters.__file__.rpartition("/")[0], prepend=":")
        program = wider_filters.wider(*calls) if calls else None
        try:
            return search.search(level, load("cartpole"), program=program, library=library, only=calls or only)
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
    done = run(ordinary, "-c", SEARCH_PROGRAM, level)
    if "bubblewrap can't make a sandbox here" in done.stderr:
        pytest.skip(done.stderr.strip()[-300:])

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[1:] == [[], []]


FEW = ("fcntl", "futex", "mmap")
"""Calls of which several once left marks, or may."""


def test_no_mark_of_a_few_calls_survives() -> None:
    """Of some calls that the filter lets through, no other policy finds a mark; all of them are searched nightly."""
    found = searched("bubblewrap", only=FEW)

    assert (found.unsteady, found.channels) == (frozenset(), ())
    assert {name.partition("#")[0] for name in found.calls} == set(FEW)


@pytest.mark.usefixtures("own_library")
def test_commands_that_leave_marks_are_noticed() -> None:
    """Were all commands of fcntl allowed, the search would find a write hint on a library's file."""
    found = searched("wider_filters:EveryCommand", ("fcntl",), library="own_library")

    assert "its write hint" in {channel.found_by for channel in found.channels}


@pytest.mark.usefixtures("own_library")
def test_locks_are_noticed() -> None:
    """Were locks allowed, the search would find that one policy's hold up another's."""
    found = searched("wider_filters:Locks", ("flock",), library="own_library")

    assert "flock#1" in {channel.found_by for channel in found.channels if "flock" in channel.written_by}


def test_what_counts_is_noticed() -> None:
    """Were a policy to see its pipes' inode numbers, which count the machine's, the search would call them unsteady."""
    assert "fstat" in searched("wider_filters:EveryDescriptor", ("fstat",)).unsteady


def test_the_filter_lets_through_what_is_listed() -> None:
    """Read from its instructions, the compiled filter allows the calls of the list and no others."""
    program = policy_filter() or b""
    found = {
        compiled_filter.call_name(way.number) for way in compiled_filter.allowed_calls(program, platform.machine())
    }

    assert found <= {permission.call for permission in permissions()}
    assert {"socket", "fork", "prctl", "getrusage", "openat2", "pipe2", "io_setup", "listmount"}.isdisjoint(found)


@pytest.mark.parametrize("value", [1036 | 1 << 32, 1 << 63, 1036])
def test_stray_upper_bits_are_refused(value: int) -> None:
    """A command whose upper half the kernel would not look at is no way around the list."""
    allowed = compiled_filter.allowed_calls(policy_filter() or b"", platform.machine())
    ways = [way for way in allowed if compiled_filter.call_name(way.number) == "fcntl"]

    assert ways
    assert not any(value in way.values(1, [value]) for way in ways)


needs_overlays = pytest.mark.skipif(bool(why_shared()), reason=why_shared())
QUICK = (
    ("watches", POLICY, PROGRAM), ("locks", PROGRAM, OUTSIDE), ("times", POLICY, PROGRAM), ("names", POLICY, POLICY),
    ("names", POLICY, PROGRAM),
)  # fmt: skip


def channels_of(level: str, *ways: tuple[str, str, str]) -> list[Any]:
    """Return the channels of a level."""
    return [trial for trial in across.search_across(level, load("cartpole"), ways) if trial.is_channel]


@needs_bubblewrap
@needs_overlays
def test_quick_carriers_carry_nothing() -> None:
    """P70, A26: watches, locks, times and names carry nothing from one run to another, nor outside."""
    assert channels_of("bubblewrap", *QUICK) == []


@pytest.mark.nightly
@needs_bubblewrap
@needs_overlays
def test_no_carrier_carries_anything() -> None:
    """P70, A26: pages, watches, locks, leases, times, numbers and names carry nothing across runs and roles."""
    assert channels_of("bubblewrap", *across.WAYS) == []


@needs_bubblewrap
@needs_overlays
def test_shared_files_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were files the machine's own, the search would find what a policy opens or looks up and a program locks."""
    monkeypatch.setenv("PYTHONPATH", wider_filters.__file__.rpartition("/")[0], prepend=":")
    ways = [("watches", POLICY, PROGRAM), ("locks", PROGRAM, OUTSIDE), ("names", POLICY, POLICY)]
    with wider_filters.shared_files():
        channels = channels_of("wider_filters:SharedFiles", *ways)

    assert [(trial.carrier, trial.sender, trial.reader) for trial in channels] == ways
