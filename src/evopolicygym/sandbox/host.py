"""What of this machine a Python needs to run: its standard library, its program, the shared libraries that files name.

Named piece by piece, so that a sandbox shows these and nothing else: no site-packages, no other program or library.
Libraries that a program names only while it runs, by ``dlopen``, are not found, but for the ones of ``ALSO``.
"""

import os
import struct
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE_DIRECTORIES = {"site-packages", "dist-packages", "test", "idlelib", "ensurepip", "__pycache__"}
"""Parts of a standard library's directory that a policy has no business with."""
METADATA = ".dist-info"
ALSO = ("libgcc_s.so.1", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1")
"""What the C library and Python load by name, and what programs name that were built for older ones."""
DYNAMIC, STRINGS, NEEDED, LOADED = 2, 5, 1, 1
"""Kinds of segments and entries: the dynamic table, its strings, a library by name, a part of the file."""
MAGIC = b"\x7fELF\x02\x01"
"""Of files for machines of 64 bits whose lowest byte comes first; of others nothing is read."""


@dataclass(frozen=True, slots=True)
class PolicyPython:
    """The Python that policies run on, and where its files lie."""

    program: str
    """The real path of its program."""
    version: str
    """Major and minor, such as ``3.11``."""
    standard_library: tuple[str, ...]
    """The entries of the standard library's directories."""
    bundled_libraries: tuple[str, ...]
    """Shared libraries that it brings along outside the system's directories."""


@dataclass(frozen=True, slots=True)
class PolicyLibrary:
    """Distributions that a policy may import, and where their files lie; the Python that they are made for."""

    paths: Mapping[str, Path]
    """Top-level names in site-packages (packages and their bundled libraries), and where they lie."""
    versions: tuple[str, ...]
    """As ``name==version``."""
    python: PolicyPython


@cache
def standard_library() -> tuple[str, ...]:
    """Return the entries of the standard library's directories, site-packages left out."""
    roots = dict.fromkeys((sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib", vars=_base())))
    return tuple(
        str(entry)
        for root in map(Path, roots)
        if root.is_dir()
        for entry in sorted(root.iterdir())
        if entry.name not in PACKAGE_DIRECTORIES
    )


@cache
def library_directories() -> tuple[str, ...]:
    """Return the directories of the system's shared libraries, real paths, outermost first."""
    triplet = sysconfig.get_config_var("MULTIARCH") or ""
    known = [f"/usr/lib/{triplet}", f"/lib/{triplet}"] if triplet and Path(f"/usr/lib/{triplet}").is_dir() else []
    candidates = [*known, "/usr/lib64", "/lib64", *([] if known else ["/usr/lib", "/lib"])]
    return tuple(dict.fromkeys(os.path.realpath(path) for path in candidates if Path(path).is_dir()))


@cache
def bundled_libraries() -> tuple[str, ...]:
    """Return shared libraries that this Python brings along outside the system's directories."""
    root = Path(sys.base_prefix) / "lib"
    if str(root) in {"/usr/lib", "/lib"}:
        return ()
    return tuple(str(path) for path in sorted(root.glob("*.so*")))


def python_program() -> str:
    """Return the real path of this Python's program, that of the environment's base."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def this_python() -> PolicyPython:
    """Return this Python as one that policies run on."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return PolicyPython(python_program(), version, standard_library(), bundled_libraries())


def library(distributions: Iterable[str], described: Collection[str] = ()) -> PolicyLibrary:
    """Return where the named distributions lie, as far as they are installed; of those ``described``, metadata too."""
    from importlib import metadata  # loads late: only a worker needs it

    paths: dict[str, Path] = {}
    versions: list[str] = []
    for name in distributions:
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        versions.append(f"{found.metadata['Name']}=={found.version}")
        left_out = (".pth",) if name in described else (".pth", METADATA)
        for file in found.files or ():
            top = file.parts[0]
            if top not in {"..", "__pycache__"} and not top.endswith(left_out):
                paths.setdefault(top, Path(str(found.locate_file(top))))
    return PolicyLibrary(paths, tuple(versions), this_python())


def _base() -> dict[str, str]:
    return {"base": sys.base_prefix, "platbase": sys.base_exec_prefix, "installed_platbase": sys.base_exec_prefix}


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
            base = next(part for part in segments if part[0] == LOADED and part[3] <= address < part[3] + part[5])
            names = []
            for place in (value for kind, value in entries if kind == NEEDED):
                read.seek(base[2] + address - base[3] + place)
                names.append(read.read(256).partition(b"\0")[0].decode())
            return tuple(names)
    except (OSError, struct.error, StopIteration, UnicodeDecodeError):
        return ()
