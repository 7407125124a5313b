"""A lock that the system gives back when the last process that holds it is gone."""

import fcntl
import os
from pathlib import Path

from evopolicygym.core.errors import RecordError


def locked(path: Path, what: str) -> int:
    """Lock a file and return its descriptor; raise ``RecordError`` where another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise RecordError(f"{what} is being played by another process; wait for it or stop it.") from error
    return descriptor
