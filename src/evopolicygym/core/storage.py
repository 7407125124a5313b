"""What a disk that is full, read-only or broken, or a limit of files' sizes means: one sentence, and what to do."""

import errno
import os
import re
import resource
import shutil
from pathlib import Path

NO_STORAGE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG})
"""Error numbers of storage that is full, read-only or broken, or of a file that became too large."""
NUMBER = re.compile(r"\[Errno (\d+)\]")


def storage_number(error: OSError) -> int:
    """Return the error number if an error is one of storage, that of the first file if it is of many; else 0."""
    match = NUMBER.search(str(error)) if isinstance(error, shutil.Error) else None
    number = int(match[1]) if match else error.errno or 0
    return number if number in NO_STORAGE else 0


def describe_storage(error: OSError, path: Path) -> str:
    """Return a sentence on an error of storage at a place, and what to do, unended; empty if it is none."""
    number = storage_number(error)
    match number:
        case 0:
            return ""
        case errno.EFBIG:
            return (
                f"No file here may be larger than {size_text(resource.getrlimit(resource.RLIMIT_FSIZE)[0])} "
                f"(ulimit -f). Start evopolicygym after: ulimit -f unlimited"
            )
        case errno.ENOSPC:
            return f"The disk at {_mount(path)} is full: {_free(_mount(path))}. Make room on it"
        case _:
            return f"The disk at {_mount(path)} can't be written: {os.strerror(number)}. Mend it"


def _mount(path: Path) -> Path:
    """Return where the disk of a place is mounted; the place itself may be gone."""
    return next((directory for directory in (path, *path.parents) if directory.is_mount()), Path("/"))


def _free(path: Path) -> str:
    """Return what is free on a disk."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return "nothing is free"
    return f"{size_text(disk.f_bavail * disk.f_frsize)} and {disk.f_favail:,} files are free"


def size_text(size: float) -> str:
    """Return a number of bytes in the largest unit of which there is at least one."""
    for unit, bytes_each in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= bytes_each:
            return f"{size / bytes_each:,.1f} {unit}"
    return f"{size:.0f} bytes"
