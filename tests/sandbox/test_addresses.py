"""A policy that iterates over a set of its own objects plays the same every time: addresses are always the same."""

from pathlib import Path

import pytest

from evopolicygym.core.task import EnvironmentSpec
from playground import one_worker, policy
from simulators import spec

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


@pytest.fixture(scope="module")
def behind_bubblewrap(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return what the policy prints at bubblewrap."""
    return seen("bubblewrap", tmp_path_factory.mktemp("a"), spec("Plain", 1))


def test_sets_are_met_in_one_order(behind_bubblewrap: list[str]) -> None:
    """Whatever a worker played before, where a policy's objects lie is the same in every episode."""
    assert [behind_bubblewrap[0]] * 9 == behind_bubblewrap
    assert "0" in behind_bubblewrap[0]


def test_sets_are_met_in_one_order_without_namespaces(tmp_path: Path) -> None:
    """So it is at level process."""
    found = seen("process", tmp_path, spec("Plain", 1))

    assert [found[0]] * 9 == found


def test_workers_are_alike(behind_bubblewrap: list[str], tmp_path: Path) -> None:
    """Another worker, which lies elsewhere, has a policy's objects at the same addresses, and the record says so."""
    with one_worker("bubblewrap", spec("Plain", 1), tmp_path / "another-place") as ground:
        findings = ground.executor.grounds.findings
        again = ground.play_one(WANDERS).read()

    assert again == behind_bubblewrap[0]
    assert "addresses" in findings
