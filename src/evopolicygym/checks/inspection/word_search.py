"""Looks for words that must not be in a record: in every file, in what is compressed, and in names.

What must not be there is named by whoever looks.
"""

import gzip
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

CHUNK_BYTES = 1 << 20
GZIP = b"\x1f\x8b"


def holding(directory: Path, words: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Yield every file below a directory that holds a word, with the name that the word goes by."""
    sought = {name: word.encode() for name, word in words.items() if word}
    for place, directories, files in os.walk(directory):
        for entry in (*directories, *files):
            path = Path(place, entry)
            link = str(path.readlink()) if path.is_symlink() else ""
            held = {name for name, word in sought.items() if word in f"{entry}\n{link}".encode("utf-8", "replace")}
            if path.is_file() and not path.is_symlink():
                held |= _held(path, sought)
            yield from ((path, name) for name in sorted(held))


def _held(path: Path, sought: Mapping[str, bytes]) -> set[str]:
    with path.open("rb") as file:
        held = _read(file, sought)
        file.seek(0)
        begins = file.read(len(GZIP))
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    with archive.open(name) as part:
                        held |= _read(part, sought)
        elif begins == GZIP:
            with gzip.open(path) as unpacked:
                held |= _read(unpacked, sought)
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return held  # it only looks compressed
    return held


def _read(file: "IO[bytes] | gzip.GzipFile", sought: Mapping[str, bytes]) -> set[str]:
    longest = max((len(word) for word in sought.values()), default=1)
    held, rest = set(), b""
    while data := file.read(CHUNK_BYTES):
        text = rest + data
        held |= {name for name, word in sought.items() if word in text}
        rest = text[1 - longest :] if longest > 1 else b""
    return held
