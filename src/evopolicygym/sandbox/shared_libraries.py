"""Which of the system's shared libraries a Python and its packages need, read from the files themselves.

So a policy sees these and no other library of the machine. Those that a program names only while it runs, by
``dlopen``, are not among them, but for the ones of ``ALSO``.
"""

import os
import struct
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ALSO = ("libgcc_s.so.1", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1")
"""What the C library and Python load by name, and what programs name that were built for older ones."""
DYNAMIC, STRINGS, NEEDED, LOADED = 2, 5, 1, 1
"""Kinds of segments and entries: the dynamic table, its strings, a library by name, a part of the file."""
MAGIC = b"\x7fELF\x02\x01"
"""Of files for machines of 64 bits whose lowest byte comes first; of others nothing is read."""


def needed_libraries(files: Iterable[Path], directories: Iterable[str]) -> frozenset[str]:
    """Return the names of libraries in directories that files need, and what these need in turn."""
    places = [Path(directory) for directory in directories]
    waiting, found = [name for file in files for name in needed(str(file))], set[str]()
    waiting += ALSO
    while waiting:
        name = waiting.pop()
        for path in (place / name for place in places if name not in found):
            if path.is_file():
                real = path.resolve()
                found |= {name, real.name} | ({Path(path.readlink()).name} if path.is_symlink() else set())
                waiting += needed(str(real))
    return frozenset(found)


def libraries_of(path: Path) -> Iterator[Path]:
    """Yield the shared libraries at or in a path."""
    if path.is_dir():
        for directory, _, names in os.walk(path):
            yield from (Path(directory, name) for name in names if ".so" in name)
    elif ".so" in path.name:
        yield path


@cache
def needed(file: str) -> tuple[str, ...]:
    """Return the names of the libraries that a program or library says it needs; none where it is neither."""
    try:
        with open(file, "rb") as read:  # noqa: PTH123 - of hundreds
            head = read.read(64)
            if head[:6] != MAGIC:
                return ()
            offset, size, count = *struct.unpack_from("<Q", head, 32), *struct.unpack_from("<HH", head, 54)
            read.seek(offset)
            segments = [struct.unpack_from("<IIQQQQQQ", read.read(size)) for _ in range(count)]
            tables = [segment for segment in segments if segment[0] == DYNAMIC]
            if not tables:
                return ()
            read.seek(tables[0][2])
            entries = list(struct.iter_unpack("<QQ", read.read(tables[0][5] // 16 * 16)))
            address = next(value for kind, value in entries if kind == STRINGS)
            base = next(one for one in segments if one[0] == LOADED and one[3] <= address < one[3] + one[5])
            names = []
            for place in (value for kind, value in entries if kind == NEEDED):
                read.seek(base[2] + address - base[3] + place)
                names.append(read.read(256).partition(b"\0")[0].decode())
            return tuple(names)
    except (OSError, struct.error, StopIteration, UnicodeDecodeError):
        return ()
