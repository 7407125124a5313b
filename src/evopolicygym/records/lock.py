"""A lock that the system gives back when the last process that holds it is gone."""

import fcntl
import os
from pathlib import Path

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError


def is_held(path: Path) -> bool:
    """Return whether a process has a file locked; what is no file, or can't be read, is locked by nobody."""
    try:
        descriptor = regular_file.descriptor(path)
    except (OSError, RecordError):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def locked(path: Path, what: str) -> int:
    """Lock a file and return its descriptor; raise ``RecordError`` where another process has it, or it is no file."""
    descriptor = regular_file.descriptor(path, flags=os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise RecordError(f"{what} is being played by another process; wait for it or stop it.") from error
    return descriptor
