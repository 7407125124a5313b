"""A policy learns nothing of earlier episodes from its setup's buffer, its addresses or its files' numbers."""

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from enclosed import needs_bubblewrap
from evopolicygym.checks.sandbox import attack
from evopolicygym.core.task import EnvironmentSpec
from playground import Playground, one_worker, policy
from simulators import spec

LONG, SHORT = 99_000, 0
"""Seeds whose setups differ in length: what follows the shorter one would be the longer one's rest."""
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
MEMORY = "/dev/shm"  # noqa: S108 - a private directory is made in it

NUMBERS = policy(
    init="""
    def below(place):
        for directory, _, files in os.walk(place):
            yield from (directory, *(f"{directory}/{name}" for name in files))
    print(*((path, os.stat(path).st_ino) for path in below("/policy")))
    print(os.listdir("/policy"), os.stat("/policy/policy.py").st_atime, os.stat("/policy/policy.py").st_mtime)
    """
)
"""Prints the number of each of a checkpoint's files, and in which order they are listed."""
LIBRARIES = """
    import numpy, json
    json, numpy = (os.path.dirname(module.__file__) for module in (json, numpy))
    places = [json, numpy + "/linalg", json + "/../xml"]
    {}
    print(*sorted((place, os.stat(place).st_ino) for place in places))
"""
MOUNTS = """
    import ctypes
    libc, found = ctypes.CDLL(None, use_errno=True), ctypes.create_string_buffer(256)
    print([libc.statx(-100, b"/policy", 0, mask, found) and ctypes.get_errno() for mask in (0x7FF, 0x4000)])
"""
"""Asks for what ``stat`` tells, and for the number of the mount that a checkpoint lies in."""


@pytest.mark.parametrize("level", ["bubblewrap", "process"])
def test_no_rest_of_a_longer_setup(tmp_path: Path, level: str) -> None:
    """P69: the buffer in which setups arrive holds nothing after an episode's own."""
    with one_worker(level, spec("Plain"), tmp_path) as yard:
        played = yard.play(attack("P69").source, LONG, SHORT)

        assert [one.read() for one in played] == ["", ""]


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
        findings = ground.executor.info.findings
        again = ground.play_one(WANDERS).read()

    assert again == behind_bubblewrap[0]
    assert "addresses" in findings


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """Return a directory in memory, where numbers count all files that anybody makes; skip the test without one."""
    if not os.access(MEMORY, os.W_OK):
        pytest.skip("there is no file system in memory")
    with TemporaryDirectory(dir=MEMORY) as place:
        yield Path(place)


def numbers(yard: Playground, **beside: str) -> str:
    """Return what a policy finds of its own files, which others lie beside."""
    return yard.play(NUMBERS, 0, **beside)[0].read()


@needs_bubblewrap
@pytest.mark.parametrize("count", [1, 3])
def test_numbers_of_a_checkpoint(in_memory: Path, count: int) -> None:
    """P72: a checkpoint's files have the same numbers and order in every episode, whatever was laid before."""
    with one_worker("bubblewrap", spec("Plain"), in_memory) as yard:
        if yard.executor.info.findings["checkpoint"].endswith("the checkpoints"):
            pytest.skip("this kernel lets nobody count again")
        first = numbers(yard, one="1", two="2")
        for _ in range(count):
            yard.play(policy(), 0, **{f"module{number}": "pass" for number in range(5)})
        assert numbers(yard, one="1", two="2") == first


@needs_bubblewrap
def test_numbers_of_libraries(in_memory: Path) -> None:
    """P72: a library's directories have the same numbers, in whichever order policies look at them."""
    with one_worker("bubblewrap", spec("Plain"), in_memory) as yard:
        forwards, backwards = (
            yard.play(policy(init=LIBRARIES.format(order)), 0)[0].read() for order in ("", "places.reverse()")
        )

        assert forwards == backwards


@needs_bubblewrap
def test_numbers_of_mounts(tmp_path: Path) -> None:
    """P72: no policy gets the number of a mount, which counts those that were made on the machine before."""
    with one_worker("bubblewrap", spec("Plain"), tmp_path) as yard:
        if yard.executor.info.findings["seccomp"] != "on":
            pytest.skip("nothing filters here")
        assert json.loads(yard.play_one(policy(init=MOUNTS)).read()) == [0, errno.EPERM]
