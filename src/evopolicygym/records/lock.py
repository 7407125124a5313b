"""A lock that the system gives back when the last process that holds it is gone."""

import fcntl
import os
import struct
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


def locked_byte(path: Path, place: int, what: str) -> int:
    """Lock one byte of a file, which need not have it, and return the descriptor; raise as ``locked`` does.

    The lock is the open file's: it conflicts within one process, and the system gives it back when that is gone.
    """
    descriptor = regular_file.descriptor(path, flags=os.O_RDWR | os.O_CREAT)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0))
    except BlockingIOError as error:
        os.close(descriptor)
        raise RecordError(f"{what} is being played by another process; wait for it or stop it.") from error
    return descriptor
