"""Policies see a copy in memory of what they may open: the run's own, and gone with it."""

import heapq
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from select import POLLIN, poll
from shutil import rmtree
from subprocess import PIPE, Popen

import pytest

from enclosed import needs_bubblewrap
from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox import private_copy
from evopolicygym.sandbox.overlays import PREFIX, why_shared
from places import SUPPORT
from playground import local_executor, one_worker, policy
from simulators import spec

PLACE, WHY_NONE = private_copy._memory_directory()
pytestmark = [needs_bubblewrap, pytest.mark.skipif(bool(WHY_NONE), reason=WHY_NONE)]

LOOK = """
import heapq, json, sys
seen = [json.__file__, np.__file__, sys.executable, "/usr/lib/packages/scipy", "/usr/lib/runtime/guest/zygote.py"]
print(json.dumps([[os.stat(path).st_dev for path in seen], os.stat(seen[0]).st_ino, os.path.exists(heapq.__cached__)]))
"""
JUDGE = """
import sys
from pathlib import Path
from playground import one_worker
from simulators import spec
with one_worker("bubblewrap", spec("Plain"), Path(sys.argv[1])) as yard:
    yard.executor.info
    print(yard.executor._in_memory.directory, flush=True)
    input()
"""


def descendants(process: int) -> Iterator[int]:
    """Yield the processes below a process."""
    for child in map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()):
        yield child
        yield from descendants(child)


def test_policies_see_a_copy_in_memory(tmp_path: Path) -> None:
    """P70: all that policies see lies in a file system in memory, without an overlay of a disk's, for all workers once.

    It has the machine's bytecode, and is removed with the run.
    """
    with local_executor("bubblewrap", spec("Plain"), tmp_path, workers=2) as yard:
        played = [json.loads(one.read()) for one in yard.play(policy(init=LOOK), *range(4))]
        seats = yard.executor._slots  # type: ignore[attr-defined]
        views = [
            mounts
            for seat in seats
            for process in descendants(seat.process.pid)
            if PREFIX in (mounts := Path(f"/proc/{process}/mountinfo").read_text())
        ]
        copies = {line.split()[3].split("/")[1] for mounts in views for line in mounts.splitlines() if "/copy/" in line}

        assert yard.executor.info.findings["files"].startswith("a copy of each run's own, ")
    assert {device for devices, _, _ in played for device in devices} == {Path(PLACE).stat().st_dev}
    assert len({number for _, number, _ in played}) == len(copies) == 1
    assert len(views) >= len(seats)
    assert not [line for mounts in views for line in mounts.splitlines() if " - overlay " in line]
    assert {has_bytecode for _, _, has_bytecode in played} == {Path(heapq.__cached__).exists()}
    assert not Path(PLACE, *copies).exists()


@pytest.mark.skipif(bool(why_shared()), reason=why_shared())
def test_without_room_there_are_overlays(tmp_path: Path) -> None:
    """Where memory is too small for a copy, policies see overlays, and the finding says so and why."""
    with one_worker("bubblewrap", spec("Plain"), tmp_path, change="without_room") as yard:
        played = yard.play_one(policy(init=LOOK))
        finding = yard.executor.info.findings["files"]

    assert finding.startswith("an overlay of each sandbox's own")
    assert "no copy in memory: it takes" in finding
    assert Path(PLACE).stat().st_dev not in json.loads(played.read())[0][:2]


def test_no_policy_fails_by_a_copy_that_was_removed(tmp_path: Path) -> None:
    """F33: where somebody removes the copy while a run plays, as logind does, the run stops with what helps."""
    with one_worker("bubblewrap", spec("Plain"), tmp_path) as yard:
        yard.play_one(policy())
        rmtree(yard.executor._in_memory.directory)  # type: ignore[attr-defined]
        with pytest.raises(SandboxError, match="RemoveIPC=no"):
            yard.play_one(policy(init="import smtplib"))


def test_the_copy_of_a_killed_judge_goes(tmp_path: Path) -> None:
    """A copy is removed by the workers of a judge that was killed."""
    paths = os.pathsep.join([str(SUPPORT), *filter(None, [os.environ.get("PYTHONPATH")])])
    line = [sys.executable, "-c", JUDGE, str(tmp_path)]
    with Popen(line, stdin=PIPE, stdout=PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}) as judge:
        assert judge.stdout
        directory = Path(judge.stdout.readline().strip())
        assert (directory / "copy").is_dir()
        [worker] = map(int, Path(f"/proc/{judge.pid}/task/{judge.pid}/children").read_text().split())
        ended = poll()
        ended.register(os.pidfd_open(worker), POLLIN)
        judge.send_signal(signal.SIGKILL)
        assert ended.poll(60_000)
    assert not directory.exists()
