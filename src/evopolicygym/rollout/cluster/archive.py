"""An archive: a small directory as bytes, to be sent between machines; unpacked, it is the same, byte for byte.

Checkpoints are sent to nodes, and files of episodes are returned, as archives.
"""

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError
from evopolicygym.records import atomic
from evopolicygym.records.checkpoints import checkpoint_name

Archive = Mapping[str, bytes | None]
"""Contents by POSIX path, parents first; None for a directory."""


def pack(directory: Path) -> dict[str, bytes | None]:
    """Return a directory's files and directories; raise ``RecordError`` if it contains anything else."""
    return {path.relative_to(directory).as_posix(): _content(path, directory) for path in sorted(directory.rglob("*"))}


def _content(path: Path, directory: Path) -> bytes | None:
    is_directory = path.is_dir() and not path.is_symlink()
    return None if is_directory else regular_file.read(path, regular_file.MOST_FILE, directory)


def name_of(archive: Archive) -> str:
    """Return the content-based name of a checkpoint (``records/checkpoints.py``)."""
    files = {path: content for path, content in archive.items() if content is not None}
    return checkpoint_name(
        {path: (len(content), hashlib.sha256(content).hexdigest()) for path, content in files.items()}
    )


def unpack(archive: Archive, directory: Path) -> None:
    """Replace a directory with the content of an archive, atomically.

    Raises ``RecordError`` where a path would lead out of it.
    """
    temporary = directory.with_name(f"{directory.name}.{atomic.TEMP_SUFFIX}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    for path, content in archive.items():
        relative = PurePosixPath(path)
        if relative.is_absolute() or ".." in relative.parts:
            raise RecordError(f"An archive holds the path {path!r}, which leads out of it.")
        target = temporary / relative
        if content is None:
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    shutil.rmtree(directory, ignore_errors=True)
    atomic.disk.rename(temporary, directory)
