"""Regular files in directories that untrusted code may have written: opened without following links or blocking.

All files of run directories are opened by these functions. A link, pipe, device or socket in place of a file or
directory is an error that names it.
"""

import errno
import os
import stat
from collections.abc import Iterator
from io import BufferedReader, BufferedWriter, FileIO
from pathlib import Path

from evopolicygym.core.errors import RecordError

MOST_FILE = 4 << 30
"""Largest file that is hashed or copied, in bytes; a sparse file may claim more."""
MOST_TREE = 32 << 30
"""Most bytes of all files below a directory."""
MOST_ENTRIES = 1_000_000
"""Most files and directories below a directory; a suite's largest run has some 10,000."""
OPENED = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
KINDS = {
    stat.S_IFLNK: "a link, and links are not followed",
    stat.S_IFDIR: "a directory",
    stat.S_IFREG: "a regular file",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def descriptor(path: Path, root: Path | None = None, flags: int = os.O_RDONLY) -> int:
    """Open a regular file and return its descriptor, which the caller closes.

    ``root`` is a trusted directory above it, by default the file's own; no name below it may be a link.

    Raises ``RecordError`` for anything but a regular file, and ``OSError`` such as ``FileNotFoundError``.
    """
    at, name = _directory_of(path, path.parent if root is None else root)
    try:
        if not flags & os.O_CREAT or _exists(name, at):
            _check(os.stat(name, dir_fd=at, follow_symlinks=False), path)  # before opening, which may have effects
        opened = os.open(name, flags | OPENED, 0o644, dir_fd=at)
    except OSError as error:
        raise _with_path(error, path) from error
    finally:
        os.close(at)
    try:
        _check(os.fstat(opened), path)
    except BaseException:
        os.close(opened)
        raise
    return opened


def reader(path: Path, root: Path | None = None) -> BufferedReader:
    """Open a regular file for reading; raise what ``descriptor`` raises."""
    return BufferedReader(FileIO(descriptor(path, root)))


def appender(path: Path, root: Path | None = None) -> BufferedWriter:
    """Open a regular file for appending, and create it if needed; raise what ``descriptor`` raises."""
    file = FileIO(descriptor(path, root, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab")
    file.seek(0, os.SEEK_END)
    return BufferedWriter(file)


def read(path: Path, most: int, root: Path | None = None) -> bytes:
    """Return the content of a regular file; raise ``RecordError`` if it has more than ``most`` bytes."""
    with reader(path, root) as file:
        size = os.fstat(file.fileno()).st_size
        content = b"" if size > most else file.read(most + 1)
        size = max(size, len(content))
        if size > most:
            raise RecordError(f"{path} has {size:,} bytes; expected at most {most:,}.")
        return content


def is_there(path: Path, root: Path | None = None) -> bool:
    """Return whether a regular file exists; raise ``RecordError`` for anything else in its place, or behind a link."""
    try:
        os.close(descriptor(path, root))
    except FileNotFoundError:
        return False
    except PermissionError:
        return True
    return True


def below(directory: Path, root: Path | None = None, most: int = MOST_TREE) -> Iterator[tuple[Path, int]]:
    """Yield all regular files below a directory with their sizes, in no order; together at most ``most`` bytes.

    Raises ``RecordError`` if it is not a directory, contains anything but files and directories, or exceeds a bound,
    and ``FileNotFoundError``.
    """
    check_directory(directory, root)
    entries = total = 0
    waiting = [directory]
    while waiting:
        with os.scandir(waiting.pop()) as listing:
            for entry in listing:
                path, status = Path(entry.path), entry.stat(follow_symlinks=False)
                is_directory = stat.S_ISDIR(status.st_mode)
                if not is_directory:
                    _check(status, path)
                entries, total = entries + 1, total + (0 if is_directory else status.st_size)
                if entries > MOST_ENTRIES or total > most or status.st_size > MOST_FILE:
                    raise RecordError(
                        f"{directory} is too large: expected at most {MOST_ENTRIES:,} files and directories, "
                        f"{most:,} bytes in all, {MOST_FILE:,} in a file; exceeded at {path}."
                    )
                if is_directory:
                    waiting.append(path)
                else:
                    yield path, status.st_size


def check_directory(directory: Path, root: Path | None = None) -> None:
    """Raise ``RecordError`` if a directory, or one between it and ``root``, is a link or not a directory.

    Raises ``FileNotFoundError`` if it doesn't exist.
    """
    at, name = _directory_of(directory, directory.parent if root is None else root)
    try:
        os.close(_open_directory(name, at, directory))
    finally:
        os.close(at)


def _directory_of(path: Path, root: Path) -> tuple[int, str]:
    """Open the directory of a path; return its descriptor and the path's last name."""
    *parents, name = path.relative_to(root).parts
    if ".." in (*parents, name):
        raise RecordError(f"{path} is not below {root}.")
    at, so_far = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), root
    for parent in parents:
        so_far /= parent
        try:
            entered = _open_directory(parent, at, so_far)
        finally:
            os.close(at)
        at = entered
    return at, name


def _open_directory(name: str, at: int, path: Path) -> int:
    try:
        return os.open(name, DIRECTORY, dir_fd=at)
    except OSError as error:
        if error.errno in {errno.ENOTDIR, errno.ELOOP}:
            mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
            raise RecordError(f"{path} is {_kind(mode)}; expected a directory.") from error
        raise _with_path(error, path) from error


def _exists(name: str, at: int) -> bool:
    try:
        os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _check(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise RecordError(f"{path} is {_kind(status.st_mode)}; expected a regular file.")


def _kind(mode: int) -> str:
    return KINDS.get(stat.S_IFMT(mode), "of an unknown kind")


def _with_path(error: OSError, path: Path) -> OSError | RecordError:
    """Return the error with the whole path."""
    if error.errno == errno.ELOOP:
        return RecordError(f"{path} is {KINDS[stat.S_IFLNK]}; expected a regular file.")
    return type(error)(error.errno, error.strerror, str(path))
