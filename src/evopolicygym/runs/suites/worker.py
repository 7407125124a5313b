"""The process of one run of a suite: plays what it is ordered, on the cores that it is given, and says how far it is.

Started as ``python -P -m evopolicygym.runs.suites.worker DESCRIPTOR``. Over the one socket comes a pickled
``WorkerOrder`` of ours; back go lines of ``progress.py``. SIGINT stops the run in good order, and so does the end of
whoever ordered it: nothing of a suite outlives it for long.
"""

import os
import signal
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock, Thread
from time import sleep
from types import FrameType

from evopolicygym.agents.base import warnings_passed_on
from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.core.event import Event, StopReason
from evopolicygym.core.run import RunState
from evopolicygym.records.paths import RunPaths
from evopolicygym.runs.config import RunConfig
from evopolicygym.runs.progress import progress_of
from evopolicygym.runs.suites.messages import Message, PlannedRunStopped, ProcessStarted, RecordOpened, encode
from evopolicygym.tracking.sink import attach_tracker

ORPHAN_PATIENCE_S = 90.0
"""Seconds that a run has to be stopped in once its suite is gone; then it is killed with all that it started."""


@dataclass(frozen=True, slots=True)
class WorkerOrder:
    """What one process is to play."""

    config: RunConfig
    root: Path | None
    """The record that is to be resumed; None to begin a run."""
    cores: tuple[int, ...]
    modules: tuple[str, ...]
    """Where the one who orders finds modules, such as an agent's from outside."""
    lock: int
    """A descriptor of the suite's lock: it is free again only when the last of its runs is gone."""


class SuiteReporter:
    """Sends messages to the suite, from any thread; where nobody listens any more, it says them to nobody."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = Lock()

    def say(self, message: Message) -> None:
        """Say a message."""
        rest = encode(message)
        with self._lock, suppress(OSError):
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]

    def opened(self, paths: RunPaths, state: RunState) -> None:
        """Say where the record lies."""
        self.say(RecordOpened(str(paths.root)))
        self.say(progress_of(state))

    def observe(self, _event: Event, state: RunState) -> None:
        """Say how far the run is after an event."""
        self.say(progress_of(state))


def log_note(note: str) -> None:
    """Print a note, which goes into the suite's log."""
    print(note, file=sys.stderr, flush=True)  # noqa: T201 - the suite's log is its standard error


def work(order: WorkerOrder, voice: SuiteReporter) -> int:
    """Play what was ordered to its end; return the exit code."""
    from evopolicygym.runs.run import play, resume

    config = order.config
    try:
        with (
            warnings_passed_on(log_note),
            attach_tracker(config.track, voice.opened, voice.observe, log_note) as (opened, observe),
        ):
            if order.root is None:
                play(config, opened, observe)
            else:
                resume(order.root, config.workers, opened, observe, config.executor, config.executor_address)
    except KeyboardInterrupt:
        voice.say(PlannedRunStopped(StopReason.INTERRUPTED.value))
    except EvoPolicyGymError as error:
        voice.say(PlannedRunStopped(type(error).__name__, str(error)))
    except BaseException as error:  # noqa: BLE001 - whatever an agent from outside raises
        traceback.print_exc()
        voice.say(PlannedRunStopped(type(error).__name__, str(error)))
    else:
        return 0
    return 1


def _interrupt_once(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _leave_with(connection: Connection) -> None:
    """Stop the run when the suite is gone."""
    with suppress(EOFError, OSError):
        connection.recv()
    os.kill(os.getpid(), signal.SIGINT)
    sleep(ORPHAN_PATIENCE_S)
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Play the order that comes over the socket."""
    descriptor = int(sys.argv[1])
    signal.signal(signal.SIGINT, _interrupt_once)
    connection = Connection(descriptor)
    order: WorkerOrder = connection.recv()
    for one in (descriptor, order.lock):
        os.set_inheritable(one, False)  # noqa: FBT003 - its only form
    sys.path[:] = order.modules
    os.sched_setaffinity(0, order.cores)
    voice = SuiteReporter(descriptor)
    Thread(target=_leave_with, args=(connection,), name="suite", daemon=True).start()
    voice.say(ProcessStarted(os.getpid(), tuple(sorted(os.sched_getaffinity(0)))))
    sys.exit(work(order, voice))


if __name__ == "__main__":
    main()
