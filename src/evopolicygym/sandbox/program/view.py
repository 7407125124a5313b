"""The files that an agent's program sees of this machine, as bwrap's arguments.

They are its workspace, a system with a Python, and the files that its command names by absolute path, without
simulators.
"""

import ast
import os
import platform
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evopolicygym.core.agent import NOTES, SYSTEM
from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox.host import python_program
from evopolicygym.sandbox.overlays import DEVICES, Overlays, why_shared
from evopolicygym.sandbox.packages import policy_library
from evopolicygym.sandbox.simulators import SimulatorFiles, find_first, hidden_modules, is_module, search

WORKSPACE, HOME = "/workspace", "/home/agent"
PYTHON = "/opt/policy"
"""A virtual environment with the Python and the packages of policies."""
PACKAGES = "packages"
"""Directory of a workspace with the packages of policies, if the run names any."""
PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
ROOT_DIRECTORIES = ("/bin", "/sbin", "/lib", "/lib64", "/lib32")
SYSTEM_PLACES = ("/usr", "/proc", "/dev", "/sys")
CONFIGURATION = (
    "os-release", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "ca-certificates", "ssl/certs",
    "ssl/cert.pem", "ssl/openssl.cnf", "pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf",
    "pki/ca-trust/extracted",
)  # fmt: skip
"""Entries of ``/etc`` that programs need to find libraries, programs and certificates, without keys."""
ACCOUNTS = {
    "passwd": f"agent:x:1000:1000:agent:{HOME}:/bin/sh\n",
    "group": "agent:x:1000:\n",
    "hosts": "127.0.0.1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
"""Other files of ``/etc``, without users and names of the host."""
SCRATCH = ("/tmp", "/var/tmp", HOME)  # noqa: S108 - the sandbox's own
MAX_COPY = 64 << 20
"""Largest file that is copied for a program, in bytes; a larger one is mounted directly."""
MAX_REMOUNTED = 2000
"""Most entries of directories that are mounted one by one; bwrap accepts at most 9000 arguments."""
SHARED_MEMORY, SHARED_MEMORY_BYTES = "/dev/shm", 256 << 20  # noqa: S108 - as above
MOST_FILES, MOST_BYTES = 500, 1 << 20
"""Most modules beside a script, and the largest file whose imports are read."""


def words(
    workspace: Path,
    command: Sequence[str],
    scratch_bytes: int,
    home: Path | None = None,
    modules: Sequence[str] = hidden_modules(),
    packages: Sequence[str] = (),
    overlays: Overlays | None = None,
) -> Iterator[str]:
    """Yield bwrap's arguments for the files of a command's program; ``scratch_bytes`` limits its home and ``/tmp``.

    ``home`` is a directory of this machine; None: a temporary home. Files of ``modules`` are hidden. ``python3`` is the
    Python of policies, with numpy, scipy and ``packages``. With ``overlays`` the files are private.
    """
    _refuse_links(workspace)
    trees = _trees(command, modules)
    mounter = _Mounter(overlays, search_trees(command, modules))
    yield from _system(mounter)
    for path in SCRATCH:
        yield from ("--size", str(scratch_bytes), "--tmpfs", path)
    if home is not None:
        yield from ("--bind", str(home.absolute()), HOME)
    yield from ("--perms", "1777", "--size", str(SHARED_MEMORY_BYTES), "--tmpfs", SHARED_MEMORY, "--remount-ro", "/dev")
    for tree in trees:
        yield from mounter.words(tree, tree)
    yield from _remount_without_hidden(mounter.direct_trees())
    yield from ("--ro-bind", str(workspace), WORKSPACE)
    for name in (SYSTEM, NOTES):
        if (workspace / name).is_dir():
            yield from ("--bind", str(workspace / name), f"{WORKSPACE}/{name}")
    yield from _python(packages, mounter)
    yield from _packages(packages, mounter)
    yield from ("--remount-ro", "/", "--chdir", WORKSPACE)
    directories = dict.fromkeys((f"{PYTHON}/bin", *search_path()))
    for name, value in (("PATH", ":".join(directories)), ("HOME", HOME), ("LANG", "C.UTF-8")):
        yield from ("--setenv", name, value)


def _refuse_links(workspace: Path) -> None:
    """Raise ``SandboxError`` if a link lies in place of the workspace or of a directory in it that may be written."""
    for path in (workspace, workspace / SYSTEM, workspace / NOTES):
        if path.is_symlink():
            raise SandboxError(f"{path} is a link, and links are not followed. Put the directory back in its place.")


@dataclass(slots=True)
class _Mounter:
    """Mounts files of the machine without hidden ones: as overlays and copies if possible, else directly."""

    overlays: Overlays | None
    simulators: Mapping[str, SimulatorFiles]
    """Simulators in each tree that was searched."""
    direct: list[str] = field(default_factory=list)
    """Trees that are mounted directly."""

    def words(self, source: str, target: str) -> Iterator[str]:
        """Yield bwrap's arguments for a tree."""
        files = self.simulators.get(source)
        if self.overlays is None or not self._can_be_private(source):
            self.direct.append(source)
            yield from ("--ro-bind", source, target)
        elif files and Path(source).is_dir():
            hidden = {os.path.relpath(directory, source): names for directory, names in files.hidden.items()}
            yield from self.overlays.words(source, target, hidden)
        else:
            yield from self.overlays.show(source, target)

    def direct_trees(self) -> Iterator[SimulatorFiles]:
        """Yield the simulators in trees that are mounted directly."""
        return (self.simulators[tree] for tree in self.direct if tree in self.simulators)

    def _can_be_private(self, source: str) -> bool:
        """Return whether a directory can be an overlay, or a file is small enough for a copy."""
        path = Path(source)
        return not why_shared(source) if path.is_dir() else path.stat().st_size <= MAX_COPY


def search_path() -> tuple[str, ...]:
    """Return the directories of programs, including this Python's if the system has no Python."""
    own = () if _system_has_python() else (f"{sys.base_prefix}/bin",)
    return (*own, *PATH)


def python_of(command: Sequence[str]) -> str | None:
    """Return the Python that a command starts by absolute path, directly or by a script's first line, if any."""
    if not command or not Path(command[0]).is_absolute():
        return None
    if Path(command[0]).name.startswith("python"):
        return command[0]
    interpreter = _interpreter(Path(command[0]))
    return interpreter if Path(interpreter).name.startswith("python") else None


def launch_command(program: Path) -> tuple[str, ...]:
    """Return the command of an installed program by its real path, so that its packages are visible too.

    If it needs Node, that is the one beside it, else the one on the PATH.
    """
    real = Path(os.path.realpath(program))
    if not node_packages(real):
        return (str(program.absolute()),)
    with real.open("rb") as file:
        by_node = file.readline(256).split()[-1:] == [b"node"]
    directories = [str(program.absolute().parent), os.environ.get("PATH", "")]
    node = shutil.which("node", path=os.pathsep.join(directories)) if by_node else None
    return (os.path.realpath(node), str(real)) if node else (str(real),)


def node_packages(program: Path) -> str:
    """Return the outermost ``node_modules`` above a program; empty if there is none."""
    above = [parent for parent in program.parents if parent.name == "node_modules"]
    return str(above[-1]) if above else ""


def _trees(command: Sequence[str], modules: Sequence[str]) -> list[str]:
    """Return the paths that the command names, and those that its scripts and Python need, except ``modules``."""
    paths = [word for word in command if Path(word).is_absolute() and Path(word).exists()]
    siblings = modules_beside(command)
    paths += [str(path) for path in siblings if not (is_module(path, modules) or find_first(path, modules))]
    paths += [packages for word in paths if (packages := node_packages(Path(word)))]
    if command and (interpreter := _interpreter(Path(command[0]))):
        paths.append(interpreter)
    if python := python_of(command):
        paths += _prefixes(Path(python))
    paths += dict.fromkeys((sys.base_prefix, os.path.realpath(sys.base_prefix)))
    trees = {os.path.normpath(path) for path in paths}
    return sorted(path for path in trees if not _is_in_system(path) and not _is_within(path, trees))


def python_files() -> dict[str, str]:
    """Return the files, by path, that make the Python of policies a virtual environment."""
    configuration = {
        "home": os.path.dirname(python_program()),  # noqa: PTH120 - as text
        "include-system-site-packages": "true",
        "version": platform.python_version(),
    }
    return {f"{PYTHON}/pyvenv.cfg": "".join(f"{name} = {value}\n" for name, value in configuration.items())}


def _python(packages: Sequence[str], mounter: _Mounter) -> Iterator[str]:
    """Yield bwrap's arguments for the programs and packages of that virtual environment."""
    version = "{}.{}".format(*sys.version_info)
    for name in ("python", "python3", f"python{version}"):
        yield from ("--symlink", python_program(), f"{PYTHON}/bin/{name}")
    for name, path in policy_library(packages).paths.items():
        yield from mounter.words(str(path), f"{PYTHON}/lib/python{version}/site-packages/{name}")


def _packages(packages: Sequence[str], mounter: _Mounter) -> Iterator[str]:
    """Yield bwrap's arguments for the workspace's directory of packages, if the run names any."""
    if not packages:
        return
    directory = f"{WORKSPACE}/{PACKAGES}"
    yield from ("--tmpfs", directory)
    for name, path in policy_library(packages).paths.items():
        yield from mounter.words(str(path), f"{directory}/{name}")
    yield from ("--remount-ro", directory)


def _is_within(path: str, trees: Iterable[str]) -> bool:
    """Return whether a path is below one of the trees."""
    return any(path != tree and Path(path).is_relative_to(tree) for tree in trees)


def _is_in_system(path: str) -> bool:
    """Return whether a path is part of the system's directories, or the root, which is never mounted whole."""
    real = Path(os.path.realpath(Path(path).parent), Path(path).name)
    return path == "/" or any(real.is_relative_to(part) for part in (*SYSTEM_PLACES, *ROOT_DIRECTORIES))


def _interpreter(program: Path) -> str:
    """Return the absolute path in a script's first line, if any."""
    if not program.is_absolute() or not program.is_file():
        return ""
    with program.open("rb") as file:
        first = file.readline(256)
    if not first.startswith(b"#!"):
        return ""
    parts = first[2:].decode("utf-8", "replace").split()
    return parts[0] if parts and Path(parts[0]).exists() else ""


def _prefixes(python: Path) -> list[str]:
    """Return the directories that a Python needs: its virtual environment and the installation behind it."""
    prefix = python.parent.parent
    configuration = prefix / "pyvenv.cfg"
    if not configuration.is_file():
        base = Path(os.path.realpath(python)).parent.parent
        return [str(base)] if (base / "lib").is_dir() else []
    pairs = (line.partition("=") for line in configuration.read_text(encoding="utf-8").splitlines())
    home = next((value.strip() for name, _, value in pairs if name.strip() == "home"), "")
    bases = [str(Path(home).parent), os.path.dirname(os.path.realpath(home))] if home else []  # noqa: PTH120 - as text
    return [str(prefix), *bases, str(Path(os.path.realpath(python)).parent.parent)]


def _system(mounter: _Mounter) -> Iterator[str]:
    """Yield bwrap's arguments for programs, libraries and their configuration."""
    yield from mounter.words("/usr", "/usr")
    yield from ("--proc", "/proc", "--dev", "/dev")
    if mounter.overlays is not None:
        yield from mounter.overlays.devices(tuple(DEVICES))
    for path in _machine_directories():
        yield from ("--tmpfs", path, "--remount-ro", path)
    for directory in map(Path, ROOT_DIRECTORIES):
        if directory.is_symlink():
            yield from ("--symlink", str(directory.readlink()), str(directory))
        elif directory.is_dir():
            yield from mounter.words(str(directory), str(directory))
    for path in (f"/etc/{name}" for name in CONFIGURATION):
        if Path(path).exists():
            yield from mounter.words(os.path.realpath(path), path)


def machine_files() -> dict[str, str]:
    """Return replacements for the files of ``/proc`` that belong to no process, by path.

    Programs can read the number of processors and the size of the memory; other values are empty or constant.
    """
    with os.scandir("/proc") as entries:
        files = sorted(entry.path for entry in entries if entry.is_file(follow_symlinks=False))
    processors = range(len(os.sched_getaffinity(0)))
    memory = f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') >> 10} kB"
    texts = {
        "cpuinfo": "".join(
            f"processor\t: {number}\nmodel name\t: processor\ncpu MHz\t\t: 1000\n\n" for number in processors
        ),
        "loadavg": "0.00 0.00 0.00 1/1 1\n",
        "meminfo": "".join(f"{name}: {memory}\n" for name in ("MemTotal", "MemFree", "MemAvailable")),
        "stat": "".join(f"cpu{number} 0 0 0 0 0 0 0 0 0 0\n" for number in (" ", *processors)) + "btime 0\n",
        "uptime": "1.00 1.00\n",
        "version": f"{platform.system()} version {platform.release()}\n",
    }
    return {path: texts.get(os.path.basename(path), "") for path in files}  # noqa: PTH119 - as text


def _machine_directories() -> list[str]:
    """Return the directories of ``/proc`` that belong to no process."""
    with os.scandir("/proc") as entries:
        return sorted(
            entry.path for entry in entries if not entry.name.isdigit() and entry.is_dir(follow_symlinks=False)
        )


def search_trees(command: Sequence[str], modules: Sequence[str]) -> dict[str, SimulatorFiles]:
    """Return the files of modules in each tree that a command's program sees.

    Raises ``SandboxError`` if the command names one of the modules, or a tree is too large to be searched.
    """
    trees = _trees(command, modules)
    for tree in trees:
        if is_module(Path(tree), modules):
            raise SandboxError(f"The agent's command names {tree}, with which it could play uncounted episodes.")
    own = (root for root in ROOT_DIRECTORIES if Path(root).is_dir() and not Path(root).is_symlink())
    return {tree: search(tree, tuple(modules)) for tree in ("/usr", *own, *trees)}


def _remount_without_hidden(trees: Iterable[SimulatorFiles]) -> Iterator[str]:
    """Yield bwrap's arguments that mount directories again, entry by entry, without hidden ones.

    In directories with too many entries, hidden ones are replaced by empty ones.
    """
    room = MAX_REMOUNTED
    for directory, hidden in ((directory, hidden) for files in trees for directory, hidden in files.hidden.items()):
        with os.scandir(directory) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        room -= len(entries)
        if room < 0:
            room += len(entries)
            for entry in entries:
                if entry.name in hidden:
                    yield from _mask_entry(entry)
            continue
        yield from ("--tmpfs", directory)
        for entry in entries:
            if entry.name in hidden:
                continue
            if entry.is_symlink():
                yield from ("--symlink", os.readlink(entry.path), entry.path)  # noqa: PTH115 - of thousands
            else:
                yield from ("--ro-bind-try", entry.path, entry.path)
        yield from ("--remount-ro", directory)


def _mask_entry(entry: "os.DirEntry[str]") -> tuple[str, ...]:
    """Return bwrap's arguments that replace an entry by an empty one; the target of a link is hidden at its path."""
    if entry.is_symlink():
        return ()
    if entry.is_dir():
        return ("--tmpfs", entry.path, "--remount-ro", entry.path)
    return ("--ro-bind", "/dev/null", entry.path)


def _system_has_python() -> bool:
    return any(os.access(f"{directory}/python3", os.X_OK) for directory in PATH)


def modules_beside(command: Sequence[str]) -> tuple[Path, ...]:
    """Return the files and packages beside a command's Python scripts that these import, directly or not.

    Scripts are files ``*.py`` that the command names by absolute path. Imports inside functions count; those of
    computed names don't.
    """
    imported: dict[Path, None] = {}
    for script in (Path(word) for word in command if word.endswith(".py") and Path(word).is_absolute()):
        waiting = [script]
        while waiting and len(imported) < MOST_FILES:
            for name in _imported_names(waiting.pop()):
                for module in (script.with_name(f"{name}.py"), script.with_name(name)):
                    if module == script or module in imported:
                        continue
                    if module.is_file():
                        waiting.append(module)
                    elif (module / "__init__.py").is_file():
                        waiting += sorted(module.rglob("*.py"))[:MOST_FILES]
                    else:
                        continue
                    imported[module] = None
    return tuple(imported)


def _imported_names(file: Path) -> Iterator[str]:
    """Yield the top-level names that a file imports; none if it can't be read."""
    try:
        tree = ast.parse(file.read_bytes()) if file.stat().st_size <= MOST_BYTES else ast.Module([], [])
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
