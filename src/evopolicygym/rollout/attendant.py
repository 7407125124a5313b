"""The attendant of one policy process: a thread that drains what it prints and kills it when its time is up.

The worker's own loop holds no clock and polls nothing. It only counts: ``beat`` is odd while the policy's answer is
awaited, even while the environment has the turn. Twenty times a second the attendant looks at that number.
"""

import os
import select
import signal
import threading
from collections.abc import Callable
from time import monotonic
from typing import Protocol

from evopolicygym.core.task import Limits

TICK_S = 0.05
KILL_GRACE_S = 1.0
"""Seconds after a kill until the whole sandbox is killed: something else must be holding the policy's pipes."""
CUT_MARK = b"\n[output cut here: more than the limit was printed]\n"


class Awaited(Protocol):
    """What an attendant watches."""

    beat: int
    """Odd while the policy's answer is awaited; grows by one at each change."""
    patience_s: float
    """Seconds that the present answer may take."""


class Attendant:
    """Watches one policy process from fork to end."""

    def __init__(self, awaited: Awaited, handle: int, answers: int, outputs: tuple[int, int], limits: Limits) -> None:
        self._awaited = awaited
        self._handle = handle
        self._answers = answers
        self._left_s = limits.episode_s
        self._kept = {one: Kept(limits.output_kb * 1024) for one in outputs}
        self._outputs = outputs
        self.timed_out = ""
        """In words, which limit was reached; empty while none was."""
        self._killed_at = 0.0
        self._dismissed_at = 0.0
        self.last_resort: Callable[[], None] = lambda: None
        """Kills all that may still hold the policy's pipes."""
        self._thread = threading.Thread(target=self._watch, name="attendant", daemon=True)
        self._thread.start()

    def dismiss(self, grace_s: float) -> tuple[bytes, bytes]:
        """Wait for the process to end, kill it after ``grace_s``; return what it printed on stdout and stderr."""
        self._thread.join(grace_s)
        if self._thread.is_alive():
            self.kill()
            self._thread.join(KILL_GRACE_S)
        if self._thread.is_alive():
            self.last_resort()
            self._thread.join()
        out, err = (self._kept[one].content() for one in self._outputs)
        return out, err

    def kill(self) -> None:
        """Kill the process; a signal to its handle never hits another."""
        self._killed_at = self._killed_at or monotonic()
        try:
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        except ProcessLookupError:
            return

    def _watch(self) -> None:
        poll = select.poll()
        for output in self._outputs:
            poll.register(output, select.POLLIN)
        open_outputs, last_beat, since, last_tick = len(self._outputs), -1, monotonic(), monotonic()
        while open_outputs:
            for descriptor, _ in poll.poll(TICK_S * 1000):
                if not self._kept[descriptor].take(os.read(descriptor, 1 << 16)):
                    poll.unregister(descriptor)
                    open_outputs -= 1
            now, beat = monotonic(), self._awaited.beat
            if now - last_tick < TICK_S:
                continue
            if beat % 2 and not self._has_answered():
                self._left_s -= now - last_tick
                if beat == last_beat:
                    self._judge(now - since)
            if beat != last_beat:
                last_beat, since = beat, last_tick
            last_tick = now
            if self._killed_at and now - self._killed_at > KILL_GRACE_S:
                self.last_resort()

    def _judge(self, waited_s: float) -> None:
        if self._killed_at:
            return
        if waited_s > self._awaited.patience_s:
            self.timed_out = f"it took more than the {self._awaited.patience_s:g} s allowed"
        elif self._left_s < 0:
            self.timed_out = "it took more time over the whole episode than is allowed"
        if self.timed_out:
            self.kill()

    def _has_answered(self) -> bool:
        """Return whether an answer lies in the pipe: then it is the worker that hasn't come to read it."""
        return bool(select.select([self._answers], [], [], 0)[0])


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
