"""Time limits: a monitor thread for each policy process, and a watchdog for the simulator.

The monitor drains the policy's output and kills the policy at its time limits.

The worker's loop reads no clock and polls nothing. It only increments ``beat``, which is odd while the policy's answer
is awaited. The monitor reads that number twenty times a second.

Limits count the policy's own processor time, so that load on the machine costs it nothing. A policy that sleeps or
blocks uses none: a second limit counts elapsed time without the time in which it was runnable and waited for a
processor. A policy that gets hardly any processor time is killed as starved, which is not a failure of the policy. The
kernel counts both times, so that no policy can change them.
"""

import fcntl
import os
import select
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Protocol

from evopolicygym.core.task import Limits
from evopolicygym.sandbox.backends.process import THREADS

HANG_S = 300.0
"""Seconds without progress after which a worker is killed."""


class Watchdog:
    """Kills this worker process unless reset in time.

    It uses the kernel's alarm: a simulator that hangs in native code blocks all Python threads, but can't block the
    signal. The executor then retries the episode.
    """

    def __init__(self, hang_s: float) -> None:
        self._hang_s = hang_s
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def reset(self) -> None:
        """Restart the countdown; thread-safe."""
        signal.setitimer(signal.ITIMER_REAL, self._hang_s)

    def disarm(self) -> None:
        """Stop the countdown until the next reset."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)


PROCESS_CLOCK = 2
"""CPUCLOCK_SCHED: the kernel's clock of the processor time of all threads of a process."""
NANOSECONDS = 1e-9


class ProcessorTime:
    """Reads the processor time and the waiting time of one process."""

    def __init__(self, process: int) -> None:
        self._clock = (~process << 3) | PROCESS_CLOCK
        self.threads = Path("/proc", str(process), "task")
        """Directory with an entry for each thread."""
        self._delays: dict[str, int] = {}
        """Total waiting time of each thread, in nanoseconds."""

    def used_s(self) -> float:
        """Return the processor time of all threads in seconds; raise ``OSError`` if it has ended."""
        return time.clock_gettime(self._clock)

    def waited_s(self) -> float:
        """Return the seconds that its longest waiting thread waited for a processor since the last call.

        0 if the kernel has no scheduler statistics.
        """
        before, self._delays = self._delays, {}
        with suppress(OSError):  # it has ended
            for thread in self.threads.iterdir():
                with suppress(OSError, IndexError, ValueError):  # this thread has ended
                    self._delays[thread.name] = int((thread / "schedstat").read_bytes().split()[1])
        return max((delay - before.get(name, 0) for name, delay in self._delays.items()), default=0) * NANOSECONDS


TICK_S = 0.05
ELAPSED = 3
"""Limit of elapsed time, without waiting for a processor, in multiples of the limit of processor time."""
STARVED = 100
"""Limit of a turn's total time in multiples of the limit of processor time; beyond, the machine is overloaded."""
LATE_S = 4 * TICK_S
"""Most time that one tick counts: a later tick means that the machine delayed the monitor, too."""
KILL_GRACE_S = 1.0
"""Seconds after a kill until the whole sandbox is killed."""
CHUNK = 1 << 16
CUT_MARK = b"\n[output cut here: more than the limit was printed]\n"


class WatchedProcess(Protocol):
    """The worker's side of a policy process, as the monitor reads it."""

    beat: int
    """Odd while the policy's answer is awaited; incremented at each change."""
    patience_s: float
    """Limit of processor time of the current answer, in seconds."""


class PolicyMonitor:
    """Monitors one policy process from fork to end."""

    def __init__(
        self,
        process: WatchedProcess,
        handle: int,
        channel: tuple[int, int],
        outputs: tuple[int, int],
        limits: Limits,
        watchdog: Watchdog,
        last_resort: Callable[[], None],
        most_s: float = 0.0,
    ) -> None:
        """Start monitoring; ``channel`` holds the worker's ends of the pipes for questions and answers.

        ``last_resort`` kills the whole sandbox. ``most_s`` limits the elapsed time of the episode, if it isn't 0.
        """
        self._process = process
        self._handle = handle
        self._questions, self._answers = channel
        self._episode_s = limits.episode_s
        self._most_s = most_s
        self._elapsed_s = 0.0
        """Elapsed time in all turns of the policy, without waiting for a processor."""
        self._turn = TurnClock()
        self._outputs = outputs
        self._captured = {item: OutputHead(limits.output_kb * 1024) for item in outputs}
        self._watchdog = watchdog
        self._last_resort = last_resort
        self._killed_at = 0.0
        self.timed_out = ""
        """Message on the limit that was reached; empty otherwise."""
        self.over_most = False
        """Whether that limit is ``most_s``."""
        self.crowded = ""
        """Message on too many threads; empty otherwise."""
        self.starved = ""
        """Message on a lack of processor time; empty otherwise."""
        self._time: ProcessorTime | None = None
        for output in outputs:
            os.set_blocking(output, False)
        self._thread = threading.Thread(target=self._watch, name="policy monitor", daemon=True)
        self._thread.start()

    def finish(self, grace_s: float) -> tuple[bytes, bytes]:
        """Wait for the process to end, kill it after ``grace_s``; return what it printed on stdout and stderr."""
        self._thread.join(grace_s)
        self.kill()
        self._thread.join()
        out, err = (self._captured[output].content() for output in self._outputs)
        return out, err

    def wait_for_end(self, patience_s: float) -> bool:
        """Return whether the process ends in time although nobody here killed it."""
        self._thread.join(0 if self._killed_at else patience_s)
        return not self._thread.is_alive() and not self._killed_at

    def kill(self) -> None:
        """Kill the process; a signal to its handle never hits another."""
        self._killed_at = self._killed_at or monotonic()
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def _watch(self) -> None:
        """Monitor until the process has ended, even if others still hold its outputs."""
        poll = select.poll()
        for descriptor in (self._handle, *self._outputs):
            poll.register(descriptor, select.POLLIN)
        last_beat, last_tick = -1, monotonic()
        while True:
            for descriptor, _ in poll.poll(TICK_S * 1000):
                if descriptor == self._handle:
                    self._drain()
                    return
                if not self._captured[descriptor].take(_read(descriptor)):
                    poll.unregister(descriptor)
            now, beat = monotonic(), self._process.beat
            if now - last_tick < TICK_S:
                continue
            with suppress(OSError, ValueError):  # it has ended
                self._time = self._time or ProcessorTime(process_number(self._handle))
                self._count_threads(self._time)
                self._tick(self._time, beat, now - last_tick, is_new=beat != last_beat)
            last_beat, last_tick = beat, now

    def _count_threads(self, time: ProcessorTime) -> None:
        """Kill a process with too many threads, in case no cgroup limits them."""
        if time.threads.stat().st_nlink - 2 > THREADS:
            self.crowded = f"it ran more than the {THREADS} threads allowed"
            self.kill()

    def _tick(self, time: ProcessorTime, beat: int, passed_s: float, *, is_new: bool) -> None:
        """Update the clocks ``passed_s`` after the last tick; ``is_new`` if the turn has changed since."""
        if self._killed_at:
            if monotonic() - self._killed_at > KILL_GRACE_S:
                self._last_resort()
            return
        used_s, counted_s = time.used_s(), min(passed_s, LATE_S) - time.waited_s()
        if is_new:
            self._turn = TurnClock(self._turn.used_s if passed_s <= LATE_S else used_s)
        turn = self._turn
        if beat % 2 and not self._has_answered():
            self._watchdog.reset()
            turn.counted_s = max(0.0, turn.counted_s + counted_s)
            turn.passed_s += passed_s
            self._elapsed_s = max(0.0, self._elapsed_s + counted_s)
            self._check_limits(used_s, turn)
        elif is_new:
            self._watchdog.reset()
        turn.used_s = used_s

    def _check_limits(self, used_s: float, turn: "TurnClock") -> None:
        patience_s, episode_s = self._process.patience_s, self._episode_s
        slept, whole = "it was asleep or blocked and took more than the", "over a whole episode"
        if used_s - turn.used_before_s > patience_s:
            self.timed_out = f"it took more than the {patience_s:g} s of processor time allowed"
        elif turn.counted_s > ELAPSED * patience_s:
            self.timed_out = f"{slept} {ELAPSED * patience_s:g} s allowed"
        elif used_s > episode_s:
            self.timed_out = f"it took more than the {episode_s:g} s of processor time allowed {whole}"
        elif self._elapsed_s > ELAPSED * episode_s:
            self.timed_out = f"{slept} {ELAPSED * episode_s:g} s allowed {whole}"
        elif 0 < self._most_s < self._elapsed_s:
            self.over_most = True
            self.timed_out = f"it took more than the {self._most_s:g} s allowed for a hidden episode"
        elif turn.passed_s > STARVED * patience_s:
            self.starved = f"{used_s - turn.used_before_s:.3g} s of processor time within {turn.passed_s:.0f} s"
        if self.timed_out or self.starved:
            self.kill()

    def _has_answered(self) -> bool:
        """Return whether an answer to a question that was read is in the pipe: then it is the worker's turn.

        An answer to an unread question doesn't count: the worker may be blocked while it writes the question.
        """
        return bool(select.select([self._answers], [], [], 0)[0]) and not _unread(self._questions)

    def _drain(self) -> None:
        """Read at most a pipe's capacity from each output: a child of the process may go on printing."""
        for output in self._outputs:
            for _ in range(2):
                self._captured[output].take(_read(output))


@dataclass(slots=True)
class TurnClock:
    """The duration of the current turn, up to the last tick."""

    used_before_s: float = 0.0
    """Processor time at the last tick before the turn, or at its first tick if that was late."""
    used_s: float = 0.0
    """Processor time at the last tick."""
    counted_s: float = 0.0
    """Elapsed time without waiting for a processor."""
    passed_s: float = 0.0
    """Elapsed time."""


def process_number(handle: int) -> int:
    """Return the process number of a pidfd; raise ``OSError`` or ``ValueError`` if it has ended."""
    lines = Path(f"/proc/self/fdinfo/{handle}").read_text(encoding="utf-8").splitlines()
    return next(int(line[4:]) for line in lines if line.startswith("Pid:"))


def _unread(pipe: int) -> int:
    """Return the number of unread bytes in a pipe, from its write end."""
    count = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
    return int.from_bytes(count, sys.byteorder)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, CHUNK)
    except BlockingIOError:
        return b""


class OutputHead:
    """Keeps the beginning of an output, up to a limit in bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._content = bytearray()
        self._cut = False

    def take(self, chunk: bytes) -> bool:
        """Keep what fits; return whether the chunk was not empty."""
        room = self._limit - len(self._content)
        self._content += chunk[:room]
        self._cut |= len(chunk) > room
        return bool(chunk)

    def content(self) -> bytes:
        """Return the kept bytes, followed by a mark if they were cut."""
        return bytes(self._content) + (CUT_MARK if self._cut else b"")
