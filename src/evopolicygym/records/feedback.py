"""A submission's feedback as files: hashed, made read-only, renamed into place.

What stands in it is not decided here but in ``judge/feedback.py``.
"""

import hashlib
from pathlib import Path

from evopolicygym.core import regular_file
from evopolicygym.records import durable
from evopolicygym.records.paths import RunPaths

READ_ONLY_FILE, READ_ONLY_DIRECTORY = 0o444, 0o555


def feedback_sha256(directory: Path, root: Path | None = None) -> str:
    """Return the SHA-256 over the names and contents of all files, in the order of their paths, in hexadecimal.

    Raises ``RecordError`` where anything but regular files and directories lies there, or a link below ``root`` leads
    there.
    """
    total = hashlib.sha256(b"evopolicygym feedback 1\n")
    for path in sorted(path for path, _ in regular_file.below(directory, root)):
        with regular_file.reader(path, directory) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(f"{path.relative_to(directory).as_posix()}\0{digest}\n".encode())
    return total.hexdigest()


def seal(directory: Path) -> str:
    """Have all files of a feedback, or of the hidden episodes, on disk, and return their ``feedback_sha256``."""
    durable.flush_tree(directory)
    return feedback_sha256(directory)


def publish(paths: RunPaths, submit_index: int) -> None:
    """Move a submission's feedback from staging to where the agent reads it, read-only; harmless when done before."""
    staged, published = paths.staged(submit_index), paths.published(submit_index)
    if staged.is_dir():
        for path in sorted(staged.rglob("*"), reverse=True):
            path.chmod(READ_ONLY_DIRECTORY if path.is_dir() else READ_ONLY_FILE)
        durable.rename(staged, published)
    if published.is_dir() and not published.is_symlink():  # which is none of ours
        published.chmod(READ_ONLY_DIRECTORY)
