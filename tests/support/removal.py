"""Removing what can't be written to, as its owner can who is not root."""

import shutil
from pathlib import Path


def remove(root: Path) -> None:
    """Remove a directory and all below it, whatever the modes of the directories."""
    for directory in (root, *root.rglob("*")):
        if directory.is_dir() and not directory.is_symlink():
            directory.chmod(0o700)
    shutil.rmtree(root)
