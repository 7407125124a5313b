"""Playing a suite: several runs at once, each in a process of its own on cores of its own.

What such a process does is described in ``worker.py``. The loop here belongs to the program's main thread, as signals
do: the first one has all runs stopped in good order, a second one kills them.
"""

import os
import selectors
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType

from evopolicygym.core import regular_file
from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.runs.suites.messages import Message, PlannedRunStopped, RecordOpened, decode
from evopolicygym.runs.suites.records import PlannedRunResult, PlannedRunVerdict, result_of_process
from evopolicygym.runs.suites.suite import PlannedRun
from evopolicygym.runs.suites.worker import WorkerOrder

LINES = 1 << 16
"""Bytes that are read of a process at once."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Observer = Callable[[PlannedRun, Message | PlannedRunResult], None]
"""Called with every message of a run's process, and at its end with what has come of it."""


@dataclass(slots=True)
class Job:
    """One run that is being played."""

    run: PlannedRun
    place: int
    process: "subprocess.Popen[bytes]"
    connection: socket.socket
    ending: int
    """A descriptor that is readable once the process has ended."""
    root: Path | None
    opened: bool = False
    stopped: PlannedRunStopped | None = None
    rest: bytearray = field(default_factory=bytearray)
    """The beginning of a line whose end has not come yet."""


class Interruptions:
    """Counts the signals that ask for an end, and wakes a waiting selector."""

    def __init__(self) -> None:
        self.count = 0
        self.reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Have signals counted instead of raised."""
        before = {one: signal.signal(one, self._heed) for one in SIGNALS}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
            os.close(self.reader)
            os.close(self._writer)

    def _heed(self, _signal: int, _frame: FrameType | None) -> None:
        self.count += 1
        with suppress(BlockingIOError):
            os.write(self._writer, b"!")


class Suite:
    """The runs of a suite that are waiting and those that are being played."""

    def __init__(self, results: Mapping[int, PlannedRunResult], shares: Sequence[tuple[int, ...]], lock: int) -> None:
        """Play what ``results`` says is not finished, as many runs at once as there are shares of the cores."""
        self.results = dict(results)
        self._lock = lock
        self._shares = shares
        self._free = list(reversed(range(len(shares))))
        self._waiting = deque(one for one in results.values() if one.verdict is not PlannedRunVerdict.FINISHED)
        self._jobs: list[Job] = []
        self._selector = selectors.DefaultSelector()

    def play(self, log: Path, observe: Observer) -> bool:
        """Play all that is waiting, and return whether nobody interrupted it; what runs print goes into ``log``."""
        signals = Interruptions()
        heard = 0
        with signals.heeded(), self._selector, regular_file.appender(log) as output:
            self._selector.register(signals.reader, selectors.EVENT_READ)
            try:
                while self._jobs or (self._waiting and not signals.count):
                    while self._waiting and self._free and not signals.count:
                        self._start(self._waiting.popleft(), output.fileno())
                    if signals.count > heard:
                        heard = signals.count
                        self._put_down(signal.SIGINT if heard == 1 else signal.SIGKILL)
                    self._wait(signals.reader, observe)
            finally:
                self._put_down(signal.SIGKILL)
                for job in self._jobs:
                    job.process.wait()
        return not signals.count

    def _start(self, before: PlannedRunResult, output: int) -> None:
        ours, theirs = socket.socketpair()
        place = self._free.pop()
        order = WorkerOrder(before.planned.config, before.root, self._shares[place], tuple(sys.path), self._lock)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "evopolicygym.runs.suites.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno(), self._lock],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,  # so that Ctrl-C reaches this process alone, which then sees to the rest
            )
        connection = Connection(os.dup(ours.fileno()))
        connection.send(order)
        connection.close()
        ours.settimeout(0)
        job = Job(before.planned, place, process, ours, os.pidfd_open(process.pid), before.root)
        self._jobs.append(job)
        self._selector.register(ours, selectors.EVENT_READ, job)
        self._selector.register(job.ending, selectors.EVENT_READ, job)

    def _wait(self, wakening: int, observe: Observer) -> None:
        """Wait until a process says something or ends, or a signal comes."""
        for key, _ in self._selector.select():
            job: Job | None = key.data
            if job is None:
                os.read(wakening, LINES)
                continue
            if job not in self._jobs:
                continue
            if key.fileobj == job.ending:
                self._end(job, observe)
            else:
                self._hear(job, observe)

    def _hear(self, job: Job, observe: Observer) -> bool:
        """Take what a process has said; return whether there may be more."""
        try:
            said = job.connection.recv(LINES)
        except (BlockingIOError, ConnectionResetError):
            return False
        if not said:
            with suppress(KeyError):
                self._selector.unregister(job.connection)
            return False
        *lines, rest = (bytes(job.rest) + said).split(b"\n")
        job.rest[:] = rest
        for line in lines:
            message = decode(line)
            match message:
                case RecordOpened(run=run):
                    job.root, job.opened = Path(run), True
                case PlannedRunStopped():
                    job.stopped = message
            observe(job.run, message)
        return True

    def _end(self, job: Job, observe: Observer) -> None:
        while self._hear(job, observe):
            pass
        code = job.process.wait()
        with suppress(KeyError):
            self._selector.unregister(job.connection)
        self._selector.unregister(job.ending)
        job.connection.close()
        os.close(job.ending)
        self._jobs.remove(job)
        self._free.append(job.place)
        try:
            came = result_of_process(job.run, job.root, job.stopped, code, played=job.opened)
        except EvoPolicyGymError as error:
            came = PlannedRunResult(
                job.run, PlannedRunVerdict.FAILED, job.root, reason=type(error).__name__, message=str(error)
            )
        self.results[job.run.number] = came
        observe(job.run, came)

    def _put_down(self, how: signal.Signals) -> None:
        """Ask each run to put itself down, or kill it with all that it started."""
        for job in self._jobs:
            with suppress(ProcessLookupError):
                if how is signal.SIGKILL:
                    os.killpg(job.process.pid, how)
                else:
                    job.process.send_signal(how)


def shares(cores: Sequence[int], jobs: int) -> list[tuple[int, ...]]:
    """Return which cores each of so many jobs may use: parts of all, or one each in turn where there are more jobs."""
    count = len(cores)
    if jobs > count:
        return [(cores[job % count],) for job in range(jobs)]
    return [tuple(cores[job * count // jobs : (job + 1) * count // jobs]) for job in range(jobs)]


def jobs_by_default(cores: int) -> int:
    """Return how many runs are played at once where nobody says: half as many as there are cores."""
    return max(1, cores // 2)
