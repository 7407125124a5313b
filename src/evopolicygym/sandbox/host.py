"""The files of this machine that a Python needs to run: its executable, standard library and shared libraries.

They are listed one by one, so that a sandbox shows nothing else: no site-packages, no other program or library. Of the
libraries that are loaded by ``dlopen``, only those of ``DLOPENED`` are known.
"""

import os
import stat
import struct
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE_DIRECTORIES = {"site-packages", "dist-packages", "test", "idlelib", "ensurepip", "__pycache__"}
"""Entries of a standard library's directory that are hidden from policies."""
METADATA = ".dist-info"
DLOPENED = ("libgcc_s.so.1", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1")
"""Libraries that the C library and Python load by name, and that programs built for older ones need."""
DYNAMIC, STRINGS, NEEDED, LOADED = 2, 5, 1, 1
"""ELF: PT_DYNAMIC, DT_STRTAB, DT_NEEDED, PT_LOAD."""
MAGIC = b"\x7fELF\x02\x01"
"""Start of 64-bit little-endian ELF files; no others are read."""


@dataclass(frozen=True, slots=True)
class PolicyPython:
    """The files of the Python that runs policies."""

    program: str
    """The real path of its executable."""
    version: str
    """Major and minor, such as ``3.11``."""
    standard_library: tuple[str, ...]
    """The entries of the standard library's directories."""
    bundled_libraries: tuple[str, ...]
    """Shared libraries of its own, outside of the system's directories."""


@dataclass(frozen=True, slots=True)
class PolicyLibrary:
    """The distributions that a policy may import, and their Python."""

    paths: Mapping[str, Path]
    """Paths by top-level names in site-packages (packages and their bundled libraries)."""
    versions: tuple[str, ...]
    """Each as ``name==version``."""
    python: PolicyPython


@cache
def standard_library() -> tuple[str, ...]:
    """Return the entries of the standard library's directories, without site-packages."""
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
    """Return the real paths of the system's directories of shared libraries, outermost first."""
    triplet = sysconfig.get_config_var("MULTIARCH") or ""
    known = [f"/usr/lib/{triplet}", f"/lib/{triplet}"] if triplet and Path(f"/usr/lib/{triplet}").is_dir() else []
    candidates = [*known, "/usr/lib64", "/lib64", *([] if known else ["/usr/lib", "/lib"])]
    return tuple(dict.fromkeys(os.path.realpath(path) for path in candidates if Path(path).is_dir()))


@cache
def bundled_libraries() -> tuple[str, ...]:
    """Return this Python's own shared libraries, outside of the system's directories."""
    root = Path(sys.base_prefix) / "lib"
    if str(root) in {"/usr/lib", "/lib"}:
        return ()
    return tuple(str(path) for path in sorted(root.glob("*.so*")))


def python_program() -> str:
    """Return the real path of this Python's executable, that behind a virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def this_python() -> PolicyPython:
    """Return this Python as a Python for policies."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return PolicyPython(python_program(), version, standard_library(), bundled_libraries())


def library(distributions: Iterable[str], described: Collection[str] = ()) -> PolicyLibrary:
    """Return the installed ones of the named distributions; for those in ``described``, with their metadata."""
    from importlib import metadata  # imported late: only a worker needs it

    paths: dict[str, Path] = {}
    versions: list[str] = []
    for name in distributions:
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        versions.append(f"{distribution.metadata['Name']}=={distribution.version}")
        excluded = (".pth",) if name in described else (".pth", METADATA)
        for top in dict.fromkeys(file.parts[0] for file in distribution.files or ()):
            if top not in {"..", "__pycache__"} and not top.endswith(excluded):
                paths.setdefault(top, Path(str(distribution.locate_file(top))))
    return PolicyLibrary(paths, tuple(versions), this_python())


def unreadable(library: PolicyLibrary, user: int = -1) -> str:
    """Return a path of a library that a user without groups and privileges can't read; empty if there is none.

    The default user owns nothing. A strict umask of the installation closes whole packages, so only entries and what
    lies directly in them are looked at.
    """
    python = library.python
    for entry in (*map(str, library.paths.values()), *python.standard_library, python.program):
        try:
            below = [item.path for item in os.scandir(entry)] if os.path.isdir(entry) else []  # noqa: PTH112 - faster
            for path in (entry, *below):
                status = os.stat(path)  # noqa: PTH116 - faster
                needed = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(status.st_mode) else 0)
                needed <<= 6 if status.st_uid == user else 0
                if status.st_mode & needed != needed:
                    return path
        except OSError:
            return entry
    return ""


def _base() -> dict[str, str]:
    return {"base": sys.base_prefix, "platbase": sys.base_exec_prefix, "installed_platbase": sys.base_exec_prefix}


def needed_libraries(files: Iterable[Path], directories: Iterable[str]) -> frozenset[str]:
    """Return the names of the libraries in directories that files need, directly or not."""
    folders = [Path(directory) for directory in directories]
    waiting, names = [name for file in files for name in needed(str(file))], set[str]()
    waiting += DLOPENED
    while waiting:
        name = waiting.pop()
        for path in (folder / name for folder in folders if name not in names):
            if path.is_file():
                real = path.resolve()
                names |= {name, real.name} | ({Path(path.readlink()).name} if path.is_symlink() else set())
                waiting += needed(str(real))
    return frozenset(names)


def libraries_of(path: Path) -> Iterator[Path]:
    """Yield the shared libraries at or in a path."""
    if path.is_dir():
        for directory, _, names in os.walk(path):
            yield from (Path(directory, name) for name in names if ".so" in name)
    elif ".so" in path.name:
        yield path


@cache
def needed(file: str) -> tuple[str, ...]:
    """Return the names of the libraries that a program or library needs directly; empty for other files."""
    try:
        with open(file, "rb") as elf:  # noqa: PTH123 - faster for hundreds of files
            head = elf.read(64)
            if head[:6] != MAGIC:
                return ()
            offset, size, count = *struct.unpack_from("<Q", head, 32), *struct.unpack_from("<HH", head, 54)
            elf.seek(offset)
            segments = [struct.unpack_from("<IIQQQQQQ", elf.read(size)) for _ in range(count)]
            tables = [segment for segment in segments if segment[0] == DYNAMIC]
            if not tables:
                return ()
            elf.seek(tables[0][2])
            entries = list(struct.iter_unpack("<QQ", elf.read(tables[0][5] // 16 * 16)))
            address = next(value for kind, value in entries if kind == STRINGS)
            base = next(part for part in segments if part[0] == LOADED and part[3] <= address < part[3] + part[5])
            names = []
            for name_offset in (value for kind, value in entries if kind == NEEDED):
                elf.seek(base[2] + address - base[3] + name_offset)
                names.append(elf.read(256).partition(b"\0")[0].decode())
            return tuple(names)
    except (OSError, struct.error, StopIteration, UnicodeDecodeError):
        return ()
