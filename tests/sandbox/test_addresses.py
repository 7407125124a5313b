"""A policy that iterates over a set of its own objects plays the same every time: addresses are always the same."""

from pathlib import Path

import pytest

from evopolicygym.core.environment import EnvironmentSpec
from playground import one_worker, policy
from simulators import spec

LEVELS = ["bubblewrap", "process"]
WANDERS = policy(
    init="self.things = {Thing(number) for number in range(50)}; self.addresses = [id(self), id(obs_space), id([])]",
    reset="print([thing.number for thing in self.things], self.addresses, np.zeros(100_000).ctypes.data)",
    top="class Thing:\n    def __init__(self, number):\n        self.number = number\n",
)
"""Prints in which order it meets the objects of a set, and where some things lie."""
BETWEEN = (
    policy(init="raise ValueError"),
    policy(act="os._exit(3)"),
    policy(reset="print('x' * 100_000)"),
    "not Python",
)


def seen(level: str, root: Path, environment: EnvironmentSpec) -> list[str]:
    """Return what the policy prints in each episode of a worker that plays other policies between."""
    with one_worker(level, environment, root) as ground:
        found = [ground.play_one(WANDERS).read()]
        for other in BETWEEN:
            ground.load(other)
            ground.play(other, 1, 2_000_000_000)
            found += [one.read() for one in (ground.play_one(WANDERS), ground.play_one(WANDERS))]
    return found


@pytest.mark.parametrize("level", LEVELS)
def test_sets_are_met_in_one_order(level: str, tmp_path: Path) -> None:
    """Whatever a worker played before, where a policy's objects lie is the same in every episode."""
    found = seen(level, tmp_path, spec("Plain", 1))

    assert [found[0]] * 9 == found
    assert "0" in found[0]


def test_workers_are_alike(tmp_path: Path) -> None:
    """Another worker, which lies elsewhere, has a policy's objects at the same addresses."""
    first, second = (
        seen("bubblewrap", place, spec("Plain", 1)) for place in (tmp_path / "a", tmp_path / "another-place")
    )

    assert first == second


def test_the_record_says_so(tmp_path: Path) -> None:
    """What was found of addresses stands among a run's findings."""
    with one_worker("bubblewrap", spec("Plain", 1), tmp_path) as ground:
        assert ground.executor.grounds.findings["addresses"] == "the same in every process"
