"""Interruption of the program: at once while it starts, with clean-up while it works.

Imports only the standard library, so that Ctrl-C is handled before anything slow is imported.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""The exit code after an interruption, by the convention of shells."""


def exit_on_interrupt() -> None:
    """Make Ctrl-C end the program at once without a traceback, because a half-done import can't be undone."""
    signal.signal(signal.SIGINT, lambda _signal, _frame: os._exit(INTERRUPTED))


@contextmanager
def interruptible() -> Iterator[None]:
    """Make Ctrl-C, SIGTERM and SIGHUP raise ``KeyboardInterrupt`` in the body, so that it can clean up."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
