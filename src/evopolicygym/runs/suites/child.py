"""The process of a suite's run: plays the run and prints its progress on stdout, a line of JSON for each event.

Started as ``python -P -m evopolicygym.runs.suites.child``. A pickled ``RunOrder`` comes over stdin. When stdin closes,
also because the suite was killed, the run is stopped cleanly. All other output of this process, such as an agent's,
goes into the suite's log and is not parsed.
"""

import json
import os
import pickle
import signal
import sys
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock, Thread
from time import sleep
from types import FrameType
from typing import BinaryIO

from evopolicygym.agents.base import forward_warnings
from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.core.event import Event, StopReason
from evopolicygym.core.run import RunState
from evopolicygym.records.paths import RunPaths
from evopolicygym.runs.config import RunConfig
from evopolicygym.runs.progress import progress_of
from evopolicygym.tracking.sink import attach_tracker

STOP_S = 90.0
"""Seconds that a run has to stop; then it is killed with its children."""


@dataclass(frozen=True, slots=True)
class RunOrder:
    """The run that a process plays."""

    config: RunConfig
    root: Path | None
    """The run directory to resume; None for a new run."""
    modules: tuple[str, ...]
    """The suite's module search path, for agents of other packages."""
    locks: tuple[int, ...]
    """Descriptors of the suite's locks, which stay locked until its last run ends."""


class ProgressPrinter:
    """Prints a run's progress from any thread; ignores a closed pipe."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = Lock()
        self._root = ""

    def print_line(self, **fields: object) -> None:
        """Print a line of JSON."""
        rest = json.dumps(fields).encode() + b"\n"
        with self._lock:
            try:
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
            except OSError:
                return

    def opened(self, paths: RunPaths, state: RunState) -> None:
        """Print the run directory and the run's progress."""
        self._root = str(paths.root)
        self.print_line(run=self._root, **asdict(progress_of(state)))

    def observe(self, _event: Event, state: RunState) -> None:
        """Print the run's progress after an event."""
        self.print_line(run=self._root, **asdict(progress_of(state)))


def log_note(note: str) -> None:
    """Print a note to the suite's log."""
    print(note, file=sys.stderr, flush=True)  # noqa: T201 - the suite's log is its standard error


def play_order(order: RunOrder, printer: ProgressPrinter) -> int:
    """Play a run to its end and return the exit code."""
    from evopolicygym.runs.run import play, resume

    config = order.config
    try:
        with (
            forward_warnings(log_note),
            attach_tracker(config.track, printer.opened, printer.observe, log_note) as (opened, observe),
        ):
            if order.root is None:
                play(config, opened, observe)
            else:
                resume(order.root, config.workers, opened, observe, config.executor, config.executor_address)
    except KeyboardInterrupt:
        printer.print_line(reason=StopReason.INTERRUPTED.value, message="")
    except EvoPolicyGymError as error:
        printer.print_line(reason=type(error).__name__, message=str(error))
    except BaseException as error:  # noqa: BLE001 - agents can raise anything
        traceback.print_exc()
        printer.print_line(reason=type(error).__name__, message=str(error))
    else:
        return 0
    return 1


def _interrupt_once(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _stop_with(orders: BinaryIO) -> None:
    """Stop the run when the pipe closes."""
    orders.read()
    os.kill(os.getpid(), signal.SIGINT)
    sleep(STOP_S)
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Play the order from stdin."""
    signal.signal(signal.SIGINT, _interrupt_once)
    orders, lines = os.fdopen(os.dup(0), "rb"), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    order: RunOrder = pickle.load(orders)  # noqa: S301 - written by the suite
    for lock in order.locks:
        os.set_inheritable(lock, False)  # noqa: FBT003 - its only form
    sys.path[:] = order.modules
    Thread(target=_stop_with, args=(orders,), name="suite", daemon=True).start()
    sys.exit(play_order(order, ProgressPrinter(lines)))


if __name__ == "__main__":
    main()
