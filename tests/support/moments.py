"""Every moment of a run at which it may die or its disk may fail: before and after each write that its record hangs on.

``python moments.py ROOT MOMENT[,MOMENT…] …`` plays the fake's run below ROOT once for each argument, in forked
processes: it is killed at the first moment, taken up, killed at the next moment of that, and so on, and at last played
to its end in peace. ``python moments.py --SIGTERM ROOT CALL …`` sends a signal at a call instead, then takes it up.
"""

import errno
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from time import sleep
from typing import Any

from dying import play_toy, play_whole_toy, take_up_toy
from evopolicygym.cli.interruption import INTERRUPTED, interruptible
from evopolicygym.records import atomic
from evopolicygym.records.atomic import Disk

KILLED, ALIVE = 9, 0
CALLS = {"write": 24, "flush": 138, "rename": 27, "commit": 10}
"""The writes of the fake's run. Whoever adds one adds it here, and so to the moments of the tests."""
PATIENCE_S = 120.0


class WatchedDisk(Disk):
    """A disk whose every call passes one place; flushing is left out, as no machine goes down here."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        """Names of the calls, in their order."""
        self.flushed: dict[str, int] = {}
        """How many bytes of a file are on disk, by its name."""
        self._lock = Lock()

    def write(self, descriptor: int, content: bytes, offset: int) -> int:
        return self.call("write", super().write, descriptor, content, offset)

    def truncate(self, descriptor: int, size: int) -> None:
        self.call("truncate", super().truncate, descriptor, size)

    def flush(self, descriptor: int) -> None:
        self.call("flush", self._note_flushed, descriptor)

    def commit(self, database: sqlite3.Connection) -> None:
        self.call("commit", super().commit, database)

    def rename(self, source: Path, target: Path) -> None:
        self.call("rename", super().rename, source, target)

    def link(self, source: Path, target: Path) -> None:
        self.call("link", super().link, source, target)

    def _note_flushed(self, descriptor: int) -> None:
        self.flushed[Path(f"/proc/self/fd/{descriptor}").readlink().name] = os.fstat(descriptor).st_size

    def call(self, name: str, really: Callable[..., Any], *arguments: Any) -> Any:
        """Do one call."""
        self.count(name)
        return really(*arguments)

    def count(self, name: str) -> int:
        """Return how many calls there were, this one included."""
        with self._lock:
            self.calls.append(name)
            return len(self.calls)


class DeadlyDisk(WatchedDisk):
    """Kills its process at a moment: the calls are numbered from 0, and each has a moment before and one after."""

    def __init__(self, moment: int) -> None:
        super().__init__()
        self._moment = moment

    def call(self, name: str, really: Callable[..., Any], *arguments: Any) -> Any:
        before = 2 * (self.count(name) - 1)
        if before == self._moment:
            os._exit(KILLED)
        result = really(*arguments)
        if before + 1 == self._moment:
            os._exit(KILLED)
        return result


class FailingDisk(WatchedDisk):
    """Fails from its n-th call on, until it is mended or for that one call; a write may leave a half of itself."""

    def __init__(self, first: int, code: int = errno.ENOSPC, *, lasting: bool = True) -> None:
        super().__init__()
        self.broken = True
        self._first, self._code, self._lasting = first, code, lasting

    def call(self, name: str, really: Callable[..., Any], *arguments: Any) -> Any:
        number = self.count(name) - 1
        if self.broken and (number >= self._first if self._lasting else number == self._first):
            if name == "write":
                descriptor, content, offset = arguments
                really(descriptor, content[: len(content) // 2], offset)
            raise OSError(self._code, os.strerror(self._code))
        return really(*arguments)


class SignallingDisk(WatchedDisk):
    """Sends its process a signal at its n-th call."""

    def __init__(self, number: int, one: signal.Signals) -> None:
        super().__init__()
        self._number = number
        self._signal = one

    def call(self, name: str, really: Callable[..., Any], *arguments: Any) -> Any:
        if self.count(name) - 1 == self._number:
            os.kill(os.getpid(), self._signal)
        return really(*arguments)


def in_a_fork(do: Callable[[], object]) -> int:
    """Do something in a process of its own that leaves by force; return its exit code."""
    child = os.fork()
    if not child:
        code = 1
        try:
            do()
            code = ALIVE
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def played_on(disk: Disk, play: Callable[[Path], object], root: Path) -> None:
    """Play with another disk."""
    before, atomic.disk = atomic.disk, disk
    try:
        play(root)
    finally:
        atomic.disk = before


def killed_and_taken_up(root: Path, moments: list[int]) -> None:
    """Kill a run at each of the moments in turn, and take it up to its end."""
    for place, moment in enumerate(moments):
        code = in_a_fork(lambda: played_on(DeadlyDisk(moment), take_up_toy if place else play_toy, root))  # noqa: B023
        if code != KILLED:
            raise SystemExit(f"{root}: there is no moment {moment}, or it was not survived: exit code {code}")
    if in_a_fork(lambda: played_on(WatchedDisk(), take_up_toy, root)) != ALIVE:
        raise SystemExit(f"{root}: it can't be resumed")


def signalled_and_taken_up(root: Path, number: int, one: signal.Signals) -> None:
    """Send a run a signal at a call of its disk, as the program would be sent it, and take it up to its end."""
    code = in_a_fork(lambda: _interrupted(SignallingDisk(number, one), root))
    if code != INTERRUPTED:
        raise SystemExit(f"{root}: it was not interrupted: exit code {code}")
    if in_a_fork(lambda: played_on(WatchedDisk(), play_whole_toy, root)) != ALIVE:
        raise SystemExit(f"{root}: it can't be resumed")


def _interrupted(disk: Disk, root: Path) -> None:
    try:
        with interruptible():
            played_on(disk, play_whole_toy, root)
            sleep(PATIENCE_S)  # the very last call may be over before its signal is
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)


def lived(place: Path, *lives: str, by: signal.Signals | None = None) -> None:
    """Have a program of its own play the fake's run below a new directory, once for each argument, as told above."""
    place.mkdir()
    options = [f"--{by.name}"] if by else []
    done = subprocess.run(
        [sys.executable, __file__, *options, str(place), *lives],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    if sys.argv[1].startswith("--"):
        for argument in sys.argv[3:]:
            kind = signal.Signals[sys.argv[1].removeprefix("--")]
            signalled_and_taken_up(Path(sys.argv[2]) / argument, int(argument), kind)
        sys.exit()
    for argument in sys.argv[2:]:
        killed_and_taken_up(Path(sys.argv[1]) / argument, [int(moment) for moment in argument.split(",")])
