"""File numbers and the order of directories tell a policy nothing of what was played before it."""

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from enclosed import needs_bubblewrap
from playground import Playground, one_worker, policy
from simulators import spec

pytestmark = needs_bubblewrap

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


@pytest.mark.parametrize("count", [1, 3])
def test_numbers_of_a_checkpoint(in_memory: Path, count: int) -> None:
    """P72: a checkpoint's files have the same numbers and order in every episode, whatever was laid before."""
    with one_worker("bubblewrap", spec("Plain"), in_memory) as yard:
        if yard.executor.grounds.findings["checkpoint"].endswith("the checkpoints"):
            pytest.skip("this kernel lets nobody count again")
        first = numbers(yard, one="1", two="2")
        for _ in range(count):
            yard.play(policy(), 0, **{f"module{number}": "pass" for number in range(5)})
        assert numbers(yard, one="1", two="2") == first


def test_numbers_of_libraries(in_memory: Path) -> None:
    """P72: a library's directories have the same numbers, in whichever order policies look at them."""
    with one_worker("bubblewrap", spec("Plain"), in_memory) as yard:
        forwards, backwards = (
            yard.play(policy(init=LIBRARIES.format(order)), 0)[0].read() for order in ("", "places.reverse()")
        )

        assert forwards == backwards


def test_numbers_of_mounts(tmp_path: Path) -> None:
    """P72: no policy gets the number of a mount, which counts those that were made on the machine before."""
    with one_worker("bubblewrap", spec("Plain"), tmp_path) as yard:
        if yard.executor.grounds.findings["seccomp"] != "on":
            pytest.skip("nothing filters here")
        assert json.loads(yard.play_one(policy(init=MOUNTS)).read()) == [0, errno.EPERM]
