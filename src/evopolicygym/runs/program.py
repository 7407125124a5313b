"""Which program an agent's command is: a hash of the files that it names, so that two versions can be distinguished.

What its program sees of this machine is described in ``sandbox/program/view.py``.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

MOST_FILES, MOST_BYTES = 10_000, 256 << 20
"""What is read of a command's files and directories; a larger program has no hash."""


def program_sha256(command: Sequence[str]) -> str:
    """Return the SHA-256 of the files that a command names by absolute path, and of those in directories that it names.

    Empty where it names none, where they are too many or too large, or where one can't be read.
    """
    whole = hashlib.sha256()
    try:
        files = [(place, path) for word in command if Path(word).is_absolute() for place, path in _files(Path(word))]
        if not files or len(files) > MOST_FILES or sum(path.stat().st_size for _, path in files) > MOST_BYTES:
            return ""
        for place, path in files:
            content = path.read_bytes()
            whole.update(f"{place}\0{len(content)}\0".encode("utf-8", "surrogateescape") + content)
    except OSError:
        return ""
    return whole.hexdigest()


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield files in order, each with its place below the one that was named; not what Python compiled of them."""
    if root.is_file():
        yield root.name, root
    for path in sorted(root.rglob("*")) if root.is_dir() else ():
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(root).as_posix(), path
