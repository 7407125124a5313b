"""Reads and writes files of the workspace without following links.

The client also runs with more rights than who writes the workspace, as behind MCP tools. So every name below the
workspace is opened beneath its directory's descriptor, part by part, and a link, pipe, device or socket is refused.
"""

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
EXISTING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MOST_BYTES = 4 << 30
"""The largest file that is read."""


class NotThere(Exception):
    """The requested part is not in the workspace."""


class Workspace:
    """A workspace, by its path; whatever is above the directory itself is trusted."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self, name: str) -> bytes:
        """Return a file's content; raise ``FileNotFoundError``, or ``NotThere`` for anything but a regular file."""
        *parents, last = _parts(name)
        with self._directory(parents) as at:
            try:
                descriptor = os.open(last, EXISTING, dir_fd=at)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise NotThere(f"{name} can't be read: it is not a regular file.") from error
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
                    raise NotThere(f"{name} can't be read: it is not a regular file of at most {MOST_BYTES:,} bytes.")
                return file.read()

    def write(self, name: str, content: bytes) -> None:
        """Write a file, with its directories; whatever had its name is replaced, a link itself too."""
        *parents, last = _parts(name)
        with self._directory(parents, create=True) as at:
            remove(last, at)
            with os.fdopen(os.open(last, NEW_FILE, 0o644, dir_fd=at), "wb") as file:
                file.write(content)

    def clear(self, name: str) -> None:
        """Remove everything in a directory, and create it if needed."""
        with self._directory(_parts(name), create=True) as at:
            for entry in os.listdir(at):  # noqa: PTH208 - of a descriptor
                remove(entry, at)

    def names(self, name: str) -> "list[str]":
        """Return the names in a directory, sorted; none if it doesn't exist."""
        try:
            with self._directory(_parts(name)) as at:
                return sorted(os.listdir(at))  # noqa: PTH208 - as above
        except FileNotFoundError:
            return []

    def walk(self, name: str, left_out: "tuple[str, ...]") -> Iterator[str]:
        """Yield the regular files below a directory by their paths in it, except those in directories left out."""
        with self._directory(_parts(name)) as top:
            for directory, directories, files, here in os.fwalk(".", dir_fd=top, follow_symlinks=False):
                directories[:] = sorted(part for part in directories if part not in left_out)
                for file in sorted(files):
                    if stat.S_ISREG(os.stat(file, dir_fd=here, follow_symlinks=False).st_mode):
                        yield os.path.normpath(f"{directory}/{file}")

    @contextlib.contextmanager
    def _directory(self, parts: "list[str]", *, create: bool = False) -> Iterator[int]:
        """Yield the descriptor of a directory below the workspace."""
        try:
            at, so_far = os.open(self._path, DIRECTORY), ""
        except NotADirectoryError as error:
            raise NotThere(f"{self._path} is not a directory, and links are not followed.") from error
        try:
            for part in parts:
                so_far = f"{so_far}{part}/"
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=at)
                try:
                    below = os.open(part, DIRECTORY, dir_fd=at)
                except FileNotFoundError:
                    raise
                except OSError as error:
                    raise NotThere(f"{so_far} is not a directory, and links are not followed.") from error
                os.close(at)
                at = below
            yield at
        finally:
            os.close(at)


def _parts(name: str) -> "list[str]":
    """Return the parts of a path below the workspace."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or not parts:
        raise NotThere(f"Invalid path {name!r}: expected a path below the workspace, such as notes.")
    return parts


def remove(name: str, at: int) -> None:
    """Remove what has a name in a directory, if anything has: a file, a link itself, a directory with its content."""
    try:
        os.unlink(name, dir_fd=at)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        shutil.rmtree(name, dir_fd=at)
