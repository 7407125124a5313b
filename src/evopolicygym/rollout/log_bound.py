"""The bound of the log that simulators print into: whatever they print, a disk stays as good as free of it."""

from contextlib import suppress
from pathlib import Path

from evopolicygym.core import regular_file

MOST = 16 << 20
"""Bytes from which on a log is cut; what one episode prints may be more until it has ended."""
KEPT = 8 << 20
"""Bytes that are kept of its beginning; what is printed later comes after them."""
MARK = b"\n[log cut here: simulators printed more than is kept]\n"


def bound(log: Path) -> None:
    """Cut a log that has grown too long. Processes that append to it go on doing so."""
    with suppress(OSError):
        if log.stat().st_size > MOST:
            with regular_file.appender(log) as file:
                file.truncate(KEPT)
                file.write(MARK)
