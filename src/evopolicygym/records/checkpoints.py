"""Names of checkpoints: the SHA-256 over the paths, sizes and contents of their files."""

import hashlib
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import as_file, files
from pathlib import Path

from evopolicygym.core import regular_file

STARTER = ("runs", "workspace_template", "system")
"""The path of the starter policy in the package."""
PARTIAL_PREFIX = ".taking-"
"""The prefix of a checkpoint that is being copied."""


def checkpoint_name(files: Mapping[str, tuple[int, str]]) -> str:
    """Return a checkpoint's name in hexadecimal, from its files' sizes and SHA-256s by POSIX path."""
    total = hashlib.sha256(b"evopolicygym checkpoint 1\n")
    for path, (size, digest) in sorted(files.items()):
        total.update(f"{path}\0{size}\0{digest}\n".encode())
    return total.hexdigest()


def name_of(checkpoint: Path, root: Path | None = None) -> str:
    """Return the name that a stored checkpoint should have, by its present content; raise as ``hash_files`` does."""
    return checkpoint_name(hash_files(checkpoint, root))


def hash_files(
    directory: Path, root: Path | None = None, most: int = regular_file.MOST_TREE
) -> dict[str, tuple[int, str]]:
    """Return the size and the SHA-256 of each file below a directory, by POSIX path; together at most ``most`` bytes.

    Raises ``RecordError`` if it has anything but regular files and directories, or if a link below ``root`` leads to
    it: nothing that isn't hashed can be used.
    """
    files = {}
    for path, _ in regular_file.below(directory, root, most):
        with regular_file.reader(path, directory) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            files[path.relative_to(directory).as_posix()] = file.tell(), digest
    return files


@cache
def starter_checkpoint() -> str:
    """Return the name of the checkpoint that the starter policy is where nobody edits it: it plays at random."""
    with as_file(files("evopolicygym").joinpath(*STARTER)) as policy:
        contents = {path.name: path.read_bytes() for path in policy.glob("*.py")}
    return checkpoint_name({name: (len(text), sha256(text).hexdigest()) for name, text in contents.items()})
