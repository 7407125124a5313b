"""The attendant of one policy process: a thread that drains what it prints and kills it when its time is up.

The worker's own loop holds no clock and polls nothing. It only counts: ``beat`` is odd while the policy's answer is
awaited, even while the environment has the turn. Twenty times a second the attendant looks at that number.

A policy's limits are of its own processor time, so that what else the machine does costs it nothing. A policy that
sleeps or is blocked uses none: for it there is a second limit, of elapsed time without that in which it was ready to
run and waited for a processor. One that gets hardly any processor time at all, through no fault of its own, is ended as
starved, which is no failure of the policy. What becomes of a simulator that hangs is described in
``rollout/watchdog.py``.
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
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Protocol

from evopolicygym.core.task import Limits
from evopolicygym.rollout.processor_time import ProcessorTime
from evopolicygym.rollout.watchdog import Watchdog
from evopolicygym.sandbox.backends.process import THREADS

TICK_S = 0.05
ELAPSED = 3
"""How many times its limit of processor time a policy may take in elapsed time, waiting for a processor not counted."""
STARVED = 100
"""How many times its limit of processor time a turn may take at all; by then the machine is unfit to play on."""
LATE_S = 4 * TICK_S
"""The most that one look counts: where it comes later than this, the machine held up the attendant, too."""
KILL_GRACE_S = 1.0
"""Seconds after a kill until the whole sandbox is killed."""
CHUNK = 1 << 16
CUT_MARK = b"\n[output cut here: more than the limit was printed]\n"


class WatchedProcess(Protocol):
    """What an attendant watches."""

    beat: int
    """Odd while the policy's answer is awaited; grows by one at each change."""
    patience_s: float
    """Seconds of processor time that the present answer may take."""


class Attendant:
    """Watches one policy process from fork to end."""

    def __init__(
        self,
        awaited: WatchedProcess,
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
        self._episode_s = limits.episode_s
        self._elapsed_s = 0.0
        """In all turns of the policy, without waiting for a processor."""
        self._turn = TurnClock()
        self._outputs = outputs
        self._kept = {one: OutputBeginning(limits.output_kb * 1024) for one in outputs}
        self._watchdog = watchdog
        self._last_resort = last_resort
        self._killed_at = 0.0
        self.timed_out = ""
        """In words, which limit was reached; empty while none was."""
        self.crowded = ""
        """In words, that it ran more threads than it may; empty while it doesn't."""
        self.starved = ""
        """In words, that the machine gave it no processor; empty while it does."""
        self._time: ProcessorTime | None = None
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
        last_beat, last_tick = -1, monotonic()
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
            with suppress(OSError, ValueError):  # it has ended
                self._time = self._time or ProcessorTime(_number(self._handle))
                self._count_threads(self._time)
                self._look(self._time, beat, now - last_tick, is_new=beat != last_beat)
            last_beat, last_tick = beat, now

    def _count_threads(self, time: ProcessorTime) -> None:
        """Kill a process of too many threads, where no kernel refuses them to it."""
        if time.threads.stat().st_nlink - 2 > THREADS:
            self.crowded = f"it ran more than the {THREADS} threads allowed"
            self.kill()

    def _look(self, time: ProcessorTime, beat: int, passed_s: float, *, is_new: bool) -> None:
        """Judge by whose turn it is, ``passed_s`` after the last look; ``is_new`` where that saw another turn."""
        if self._killed_at:
            if monotonic() - self._killed_at > KILL_GRACE_S:
                self._last_resort()
            return
        used_s, counted_s = time.used_s(), min(passed_s, LATE_S) - time.waited_s()
        if is_new:
            self._turn = TurnClock(self._turn.used_s if passed_s <= LATE_S else used_s)
        turn = self._turn
        if beat % 2 and not self._has_answered():
            self._watchdog.rest()
            turn.counted_s = max(0.0, turn.counted_s + counted_s)
            turn.passed_s += passed_s
            self._elapsed_s = max(0.0, self._elapsed_s + counted_s)
            self._judge(used_s, turn)
        elif is_new:
            self._watchdog.rest()
        turn.used_s = used_s

    def _judge(self, used_s: float, turn: "TurnClock") -> None:
        patience_s, episode_s = self._awaited.patience_s, self._episode_s
        slept, whole = "it was asleep or blocked and took more than the", "over a whole episode"
        if used_s - turn.used_before_s > patience_s:
            self.timed_out = f"it took more than the {patience_s:g} s of processor time allowed"
        elif turn.counted_s > ELAPSED * patience_s:
            self.timed_out = f"{slept} {ELAPSED * patience_s:g} s allowed"
        elif used_s > episode_s:
            self.timed_out = f"it took more than the {episode_s:g} s of processor time allowed {whole}"
        elif self._elapsed_s > ELAPSED * episode_s:
            self.timed_out = f"{slept} {ELAPSED * episode_s:g} s allowed {whole}"
        elif turn.passed_s > STARVED * patience_s:
            self.starved = f"{used_s - turn.used_before_s:.3g} s of processor time within {turn.passed_s:.0f} s"
        if self.timed_out or self.starved:
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


@dataclass(slots=True)
class TurnClock:
    """How long the present turn has lasted, as far as the attendant has looked."""

    used_before_s: float = 0.0
    """Processor time that the process had used at the last look before it, or at its first where that came late."""
    used_s: float = 0.0
    """Processor time that the process had used at the last look."""
    counted_s: float = 0.0
    """Elapsed, without waiting for a processor."""
    passed_s: float = 0.0
    """Elapsed."""


def _number(handle: int) -> int:
    """Return the process number of a pidfd; raise ``OSError`` or ``ValueError`` where it has ended."""
    lines = Path(f"/proc/self/fdinfo/{handle}").read_text(encoding="utf-8").splitlines()
    return next(int(line[4:]) for line in lines if line.startswith("Pid:"))


def _unread(pipe: int) -> int:
    """Return how many bytes lie in a pipe, seen from the end that writes."""
    count = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
    return int.from_bytes(count, sys.byteorder)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, CHUNK)
    except BlockingIOError:
        return b""


class OutputBeginning:
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
