"""How the program is interrupted: at once where there is nothing to lose, in good order where something is at work.

It imports next to nothing, as it is needed before anything else is imported.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""The exit code of whoever was interrupted, as shells have it."""


def leave_when_interrupted() -> None:
    """From now on have Ctrl-C end the program at once, without a word: an import can't be undone in good order."""
    signal.signal(signal.SIGINT, lambda _signal, _frame: os._exit(INTERRUPTED))


@contextmanager
def interruptible() -> Iterator[None]:
    """Have Ctrl-C, SIGTERM and SIGHUP raise ``KeyboardInterrupt`` in what is going on, which ends it in good order."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
