"""The processor time of a policy's process, and how long it was ready to run and had to wait for a processor.

Both are the kernel's own counts, read from outside, so that no policy can change them. What is made of them is in
``rollout/attendant.py``.
"""

import time
from contextlib import suppress
from pathlib import Path

PROCESS_CLOCK = 2
"""The kernel's number for the clock that adds up the processor time of all threads of a process (CPUCLOCK_SCHED)."""
NANOSECONDS = 1e-9


class ProcessorTime:
    """Reads both counts of one process, by its number."""

    def __init__(self, process: int) -> None:
        self._clock = (~process << 3) | PROCESS_CLOCK
        self.threads = Path("/proc", str(process), "task")
        """The directory with an entry for each of its threads."""
        self._delays: dict[str, int] = {}
        """How long each thread has waited for a processor since it began, in nanoseconds."""

    def used_s(self) -> float:
        """Return the seconds of processor time that all its threads have used; raise ``OSError`` where it has ended."""
        return time.clock_gettime(self._clock)

    def waited_s(self) -> float:
        """Return how long it waited for a processor since the last call: its longest waiting thread.

        0 where the kernel keeps no such count (a kernel built without scheduler statistics).
        """
        before, self._delays = self._delays, {}
        with suppress(OSError):  # it has ended
            for thread in self.threads.iterdir():
                with suppress(OSError, IndexError, ValueError):  # this thread has ended
                    self._delays[thread.name] = int((thread / "schedstat").read_bytes().split()[1])
        return max((delay - before.get(name, 0) for name, delay in self._delays.items()), default=0) * NANOSECONDS
