"""Bundles that tests take apart and put together again, as a stranger could."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evopolicygym.records.bundle import INDEX

Files = dict[str, bytes]


def files_of(bundle: Path) -> Files:
    """Return the content of each file of a bundle by its path."""
    with tarfile.open(bundle) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]


def write(file: Path, files: Files) -> Path:
    """Write an archive of files in the order in which they are given, and return it."""
    with tarfile.open(file, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file


def with_index(files: Files, change: Callable[[dict[str, Any]], object]) -> Files:
    """Return a bundle's files with its index changed."""
    index = json.loads(files[INDEX])
    change(index)
    return {**files, INDEX: json.dumps(index).encode()}
