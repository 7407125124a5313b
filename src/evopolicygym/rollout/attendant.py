"""The attendant of one policy process: a thread that drains what it prints and kills it when its time is up.

The worker's own loop holds no clock and polls nothing. It only counts: ``beat`` is odd while the policy's answer is
awaited, even while the environment has the turn. Twenty times a second the attendant looks at that number. What becomes
of a simulator that hangs is told in ``rollout/watchdog.py``.
"""

import fcntl
import os
import select
import signal
import sys
import termios
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Protocol

from evopolicygym.core.task import Limits
from evopolicygym.rollout.watchdog import Watchdog
from evopolicygym.sandbox.process import THREADS

TICK_S = 0.05
KILL_GRACE_S = 1.0
"""Seconds after a kill until the whole sandbox is killed."""
CHUNK = 1 << 16
CUT_MARK = b"\n[output cut here: more than the limit was printed]\n"


class Awaited(Protocol):
    """What an attendant watches."""

    beat: int
    """Odd while the policy's answer is awaited; grows by one at each change."""
    patience_s: float
    """Seconds that the present answer may take."""


class Attendant:
    """Watches one policy process from fork to end."""

    def __init__(
        self,
        awaited: Awaited,
        handle: int,
        channel: tuple[int, int],
        outputs: tuple[int, int],
        limits: Limits,
        watchdog: Watchdog,
        last_resort: Callable[[], None],
    ) -> None:
        """Begin to watch; ``channel`` is this side's ends of the pipes for questions and for answers.

        ``last_resort`` kills all that may keep the process from ending.
        """
        self._awaited = awaited
        self._handle = handle
        self._questions, self._answers = channel
        self._left_s = limits.episode_s
        self._outputs = outputs
        self._kept = {one: Kept(limits.output_kb * 1024) for one in outputs}
        self._watchdog = watchdog
        self._last_resort = last_resort
        self._killed_at = 0.0
        self.timed_out = ""
        """In words, which limit was reached; empty while none was."""
        self.crowded = ""
        """In words, that it ran more threads than it may; empty while it doesn't."""
        self._tasks: Path | None = None
        for output in outputs:
            os.set_blocking(output, False)
        self._thread = threading.Thread(target=self._watch, name="attendant", daemon=True)
        self._thread.start()

    def dismiss(self, grace_s: float) -> tuple[bytes, bytes]:
        """Wait for the process to end, kill it after ``grace_s``; return what it printed on stdout and stderr."""
        self._thread.join(grace_s)
        self.kill()
        self._thread.join()
        out, err = (self._kept[one].content() for one in self._outputs)
        return out, err

    def kill(self) -> None:
        """Kill the process; a signal to its handle never hits another."""
        self._killed_at = self._killed_at or monotonic()
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def _watch(self) -> None:
        """Watch until the process has ended, whoever may still hold its outputs then."""
        poll = select.poll()
        for descriptor in (self._handle, *self._outputs):
            poll.register(descriptor, select.POLLIN)
        last_beat, since, last_tick = -1, monotonic(), monotonic()
        while True:
            for descriptor, _ in poll.poll(TICK_S * 1000):
                if descriptor == self._handle:
                    self._drain()
                    return
                if not self._kept[descriptor].take(_read(descriptor)):
                    poll.unregister(descriptor)
            now, beat = monotonic(), self._awaited.beat
            if now - last_tick < TICK_S:
                continue
            self._count_threads()
            self._look(beat, now - last_tick, now - since if beat == last_beat else 0.0)
            if beat != last_beat:
                last_beat, since = beat, last_tick
            last_tick = now

    def _count_threads(self) -> None:
        """Kill a process of too many threads, where no kernel refuses them to it."""
        with suppress(OSError, ValueError):  # it has ended
            self._tasks = self._tasks or Path("/proc", _number(self._handle), "task")
            if self._tasks.stat().st_nlink - 2 > THREADS:
                self.crowded = f"it ran more than the {THREADS} threads allowed"
                self.kill()

    def _look(self, beat: int, passed_s: float, waited_s: float) -> None:
        """Judge by whose turn it is: ``passed_s`` since the last look, ``waited_s`` within this turn."""
        if self._killed_at:
            if monotonic() - self._killed_at > KILL_GRACE_S:
                self._last_resort()
            return
        if beat % 2 and not self._has_answered():
            self._watchdog.rest()
            self._left_s -= passed_s
            self._judge(waited_s)
        elif not waited_s:
            self._watchdog.rest()

    def _judge(self, waited_s: float) -> None:
        if waited_s > self._awaited.patience_s:
            self.timed_out = f"it took more than the {self._awaited.patience_s:g} s allowed"
        elif self._left_s < 0:
            self.timed_out = "it took more time over the whole episode than is allowed"
        if self.timed_out:
            self.kill()

    def _has_answered(self) -> bool:
        """Return whether an answer lies in its pipe, to a question that was read: then the worker has the turn.

        An answer to what was never read is none: the worker may be waiting for room to ask in.
        """
        return bool(select.select([self._answers], [], [], 0)[0]) and not _unread(self._questions)

    def _drain(self) -> None:
        """Take what lies in the pipes, and no more than fits in them: a child of the process may go on printing."""
        for output in self._outputs:
            for _ in range(2):
                self._kept[output].take(_read(output))


def _number(handle: int) -> str:
    """Return the process number of a pidfd; raise ``OSError`` or ``ValueError`` where it has ended."""
    lines = Path(f"/proc/self/fdinfo/{handle}").read_text(encoding="utf-8").splitlines()
    return str(next(int(line[4:]) for line in lines if line.startswith("Pid:")))


def _unread(pipe: int) -> int:
    """Return how many bytes lie in a pipe, seen from the end that writes."""
    count = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
    return int.from_bytes(count, sys.byteorder)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, CHUNK)
    except BlockingIOError:
        return b""


class Kept:
    """The beginning of an output, up to a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._content = bytearray()
        self._cut = False

    def take(self, chunk: bytes) -> bool:
        """Keep what there is room for; return whether there was anything."""
        room = self._limit - len(self._content)
        self._content += chunk[:room]
        self._cut |= len(chunk) > room
        return bool(chunk)

    def content(self) -> bytes:
        """Return what was kept, with a mark where it was cut."""
        return bytes(self._content) + (CUT_MARK if self._cut else b"")
