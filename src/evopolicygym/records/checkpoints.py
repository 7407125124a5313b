"""How a checkpoint is named: by the SHA-256 over the paths, sizes and contents of its files."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

TAKING = ".taking-"
"""How the name of a checkpoint begins that is being taken."""


def checkpoint_name(files: Mapping[str, tuple[int, str]]) -> str:
    """Return the name of a checkpoint from its files' sizes and SHA-256s, by POSIX path; in hexadecimal."""
    total = hashlib.sha256(b"evopolicygym checkpoint 1\n")
    for path, (size, digest) in sorted(files.items()):
        total.update(f"{path}\0{size}\0{digest}\n".encode())
    return total.hexdigest()


def name_of(checkpoint: Path) -> str:
    """Return the name that a stored checkpoint's content gives it now."""
    files = {}
    for path in checkpoint.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            files[path.relative_to(checkpoint).as_posix()] = len(content), hashlib.sha256(content).hexdigest()
    return checkpoint_name(files)
