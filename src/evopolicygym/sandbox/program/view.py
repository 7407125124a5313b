"""What an agent's program sees of this machine: the words for bwrap that lay it out.

Its workspace, a system with a Python, what its command names by absolute path; no simulator, nothing else of the host.
``enclosed.py`` starts and stops it.
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
from evopolicygym.sandbox.simulators import SimulatorPlaces, first_of, hidden_modules, is_one, search

WORKSPACE, HOME = "/workspace", "/home/agent"
PYTHON = "/opt/policy"
"""Where the Python lies that policies have, with what they may import, as a virtual environment."""
PACKAGES = "packages"
"""The directory of a workspace that holds what policies may import, where a run names more than all may."""
PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
ROOT_DIRECTORIES = ("/bin", "/sbin", "/lib", "/lib64", "/lib32")
SYSTEM_PLACES = ("/usr", "/proc", "/dev", "/sys")
CONFIGURATION = (
    "os-release", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "ca-certificates", "ssl/certs",
    "ssl/cert.pem", "ssl/openssl.cnf", "pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf",
    "pki/ca-trust/extracted",
)  # fmt: skip
"""Of ``/etc``: what programs need to find libraries, each other, and certificates, and to know the system; no key."""
ACCOUNTS = {
    "passwd": f"agent:x:1000:1000:agent:{HOME}:/bin/sh\n",
    "group": "agent:x:1000:\n",
    "hosts": "127.0.0.1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
"""The rest of ``/etc``: nothing of the host's users and names."""
SCRATCH = ("/tmp", "/var/tmp", HOME)  # noqa: S108 - the sandbox's own
LARGEST_COPY = 64 << 20
"""Bytes of a file that a program is given a copy of; a larger one is shown as it is."""
MOST_LAID_OUT = 2000
"""Entries of directories that are laid out again; bwrap takes no more than 9000 words."""
SHARED_MEMORY, SHARED_MEMORY_BYTES = "/dev/shm", 256 << 20  # noqa: S108 - as above
MOST_FILES, MOST_BYTES = 500, 1 << 20
"""The most modules that are found beside a script, and the largest file whose imports are read."""


def words(
    workspace: Path,
    command: Sequence[str],
    scratch_bytes: int,
    home: Path | None = None,
    modules: Sequence[str] = hidden_modules(),
    packages: Sequence[str] = (),
    overlays: Overlays | None = None,
) -> Iterator[str]:
    """Yield the words that lay out what a command's program sees; its home and ``/tmp`` hold so many bytes each.

    Its home is a directory of this machine where one is given; no file of ``modules`` is seen. ``python3`` is the
    Python that policies have, with what they may import: numpy and scipy, and ``packages`` besides. What it sees are
    files of its own where there are ``overlays``, else the machine's.
    """
    trees = _trees(command, modules)
    shown = _Shown(overlays, searched(command, modules))
    yield from _system(shown)
    for place in SCRATCH:
        yield from ("--size", str(scratch_bytes), "--tmpfs", place)
    if home is not None:
        yield from ("--bind", str(home.absolute()), HOME)
    yield from ("--perms", "1777", "--size", str(SHARED_MEMORY_BYTES), "--tmpfs", SHARED_MEMORY, "--remount-ro", "/dev")
    for tree in trees:
        yield from shown.words(tree, tree)
    yield from _without_hidden(shown.laid_out_again())
    yield from ("--ro-bind", str(workspace), WORKSPACE)
    for name in (SYSTEM, NOTES):
        if (workspace / name).is_dir():
            yield from ("--bind", str(workspace / name), f"{WORKSPACE}/{name}")
    yield from _python(packages, shown)
    yield from _packages(packages, shown)
    yield from ("--remount-ro", "/", "--chdir", WORKSPACE)
    path = dict.fromkeys((f"{PYTHON}/bin", *search_path()))
    for name, value in (("PATH", ":".join(path)), ("HOME", HOME), ("LANG", "C.UTF-8")):
        yield from ("--setenv", name, value)


@dataclass(slots=True)
class _Shown:
    """Shows files of the machine, as overlays and copies where that works, less what is hidden in them."""

    overlays: Overlays | None
    found: Mapping[str, SimulatorPlaces]
    """What is hidden in each tree that was searched."""
    bound: list[str] = field(default_factory=list)
    """The trees that are shown as they are."""

    def words(self, source: str, target: str) -> Iterator[str]:
        """Yield the words that show a tree."""
        found = self.found.get(source)
        if self.overlays is None or not self._is_own(source):
            self.bound.append(source)
            yield from ("--ro-bind", source, target)
        elif found and Path(source).is_dir():
            hidden = {os.path.relpath(directory, source): names for directory, names in found.hidden.items()}
            yield from self.overlays.words(source, target, hidden)
        else:
            yield from self.overlays.shown(source, target)

    def laid_out_again(self) -> Iterator[SimulatorPlaces]:
        """Yield what is hidden in trees that are shown as they are."""
        return (self.found[tree] for tree in self.bound if tree in self.found)

    def _is_own(self, source: str) -> bool:
        """Return whether a tree can be an overlay, or a file is small enough to be copied."""
        path = Path(source)
        return not why_shared(source) if path.is_dir() else path.stat().st_size <= LARGEST_COPY


def search_path() -> tuple[str, ...]:
    """Return where programs are looked for; this Python's own directory where the system has no Python."""
    own = () if _system_has_python() else (f"{sys.base_prefix}/bin",)
    return (*own, *PATH)


def python_of(command: Sequence[str]) -> str | None:
    """Return the Python that a command starts by absolute path, itself or by its first line; None where none."""
    if not command or not Path(command[0]).is_absolute():
        return None
    if Path(command[0]).name.startswith("python"):
        return command[0]
    interpreter = _interpreter(Path(command[0]))
    return interpreter if Path(interpreter).name.startswith("python") else None


def launched(program: Path) -> tuple[str, ...]:
    """Return the words that start an installed program by where it really lies, so that its packages are seen with it.

    Where it needs Node, that is the one beside it, else the one on the PATH.
    """
    real = Path(os.path.realpath(program))
    if not node_packages(real):
        return (str(program.absolute()),)
    with real.open("rb") as file:
        by_node = file.readline(256).split()[-1:] == [b"node"]
    places = [str(program.absolute().parent), os.environ.get("PATH", "")]
    node = shutil.which("node", path=os.pathsep.join(places)) if by_node else None
    return (os.path.realpath(node), str(real)) if node else (str(real),)


def node_packages(program: Path) -> str:
    """Return the outermost ``node_modules`` in which a program lies; empty where it lies in none."""
    above = [parent for parent in program.parents if parent.name == "node_modules"]
    return str(above[-1]) if above else ""


def _trees(command: Sequence[str], modules: Sequence[str]) -> list[str]:
    """Return the paths to be seen as they are: those that the command names, and what its scripts and Python need.

    Of what its scripts import from beside them, none of ``modules``.
    """
    named = [word for word in command if Path(word).is_absolute() and Path(word).exists()]
    beside = modules_beside(command)
    named += [str(path) for path in beside if not (is_one(path, modules) or first_of(path, modules))]
    named += [packages for word in named if (packages := node_packages(Path(word)))]
    if command and (interpreter := _interpreter(Path(command[0]))):
        named.append(interpreter)
    if python := python_of(command):
        named += _prefixes(Path(python))
    named += dict.fromkeys((sys.base_prefix, os.path.realpath(sys.base_prefix)))
    shown = {os.path.normpath(path) for path in named}
    return sorted(path for path in shown if not _is_there(path) and not _is_within(path, shown))


def python_files() -> dict[str, str]:
    """Return the files, by their paths inside, that make a virtual environment of the Python that policies have."""
    configuration = {
        "home": os.path.dirname(python_program()),  # noqa: PTH120 - as text
        "include-system-site-packages": "true",
        "version": platform.python_version(),
    }
    return {f"{PYTHON}/pyvenv.cfg": "".join(f"{name} = {value}\n" for name, value in configuration.items())}


def _python(packages: Sequence[str], shown: _Shown) -> Iterator[str]:
    """Yield the words for the programs of that virtual environment, and for what policies may import in it."""
    version = "{}.{}".format(*sys.version_info)
    for name in ("python", "python3", f"python{version}"):
        yield from ("--symlink", python_program(), f"{PYTHON}/bin/{name}")
    for name, path in policy_library(packages).paths.items():
        yield from shown.words(str(path), f"{PYTHON}/lib/python{version}/site-packages/{name}")


def _packages(packages: Sequence[str], shown: _Shown) -> Iterator[str]:
    """Yield the words for what policies may import; nothing where that is what all may."""
    if not packages:
        return
    place = f"{WORKSPACE}/{PACKAGES}"
    yield from ("--tmpfs", place)
    for name, path in policy_library(packages).paths.items():
        yield from shown.words(str(path), f"{place}/{name}")
    yield from ("--remount-ro", place)


def _is_within(path: str, trees: Iterable[str]) -> bool:
    """Return whether a path comes with one of the trees."""
    return any(path != tree and Path(path).is_relative_to(tree) for tree in trees)


def _is_there(path: str) -> bool:
    """Return whether a path is part of the system's view, or is the root, which is never shown whole."""
    place = Path(os.path.realpath(Path(path).parent), Path(path).name)
    return path == "/" or any(place.is_relative_to(part) for part in (*SYSTEM_PLACES, *ROOT_DIRECTORIES))


def _interpreter(program: Path) -> str:
    """Return the absolute path in a script's first line; empty where there is none."""
    if not program.is_absolute() or not program.is_file():
        return ""
    with program.open("rb") as file:
        first = file.readline(256)
    if not first.startswith(b"#!"):
        return ""
    parts = first[2:].decode("utf-8", "replace").split()
    return parts[0] if parts and Path(parts[0]).exists() else ""


def _prefixes(python: Path) -> list[str]:
    """Return the directories that a Python needs: its environment, and the installation behind it."""
    prefix = python.parent.parent
    configuration = prefix / "pyvenv.cfg"
    if not configuration.is_file():
        base = Path(os.path.realpath(python)).parent.parent
        return [str(base)] if (base / "lib").is_dir() else []
    pairs = (line.partition("=") for line in configuration.read_text(encoding="utf-8").splitlines())
    home = next((value.strip() for name, _, value in pairs if name.strip() == "home"), "")
    bases = [str(Path(home).parent), os.path.dirname(os.path.realpath(home))] if home else []  # noqa: PTH120 - as text
    return [str(prefix), *bases, str(Path(os.path.realpath(python)).parent.parent)]


def _system(shown: _Shown) -> Iterator[str]:
    """Yield the words for programs, libraries and their configuration."""
    yield from shown.words("/usr", "/usr")
    yield from ("--proc", "/proc", "--dev", "/dev")
    if shown.overlays is not None:
        yield from shown.overlays.devices(tuple(DEVICES))
    for place in _machine_directories():
        yield from ("--tmpfs", place, "--remount-ro", place)
    for directory in map(Path, ROOT_DIRECTORIES):
        if directory.is_symlink():
            yield from ("--symlink", str(directory.readlink()), str(directory))
        elif directory.is_dir():
            yield from shown.words(str(directory), str(directory))
    for place in (f"/etc/{name}" for name in CONFIGURATION):
        if Path(place).exists():
            yield from shown.words(os.path.realpath(place), place)


def machine_files() -> dict[str, str]:
    """Return what stands in the files of ``/proc`` that belong to no process, by their paths: nothing of this machine.

    Programs learn from it how many processors there are; everything else is empty or at rest.
    """
    with os.scandir("/proc") as entries:
        files = sorted(entry.path for entry in entries if entry.is_file(follow_symlinks=False))
    processors = range(len(os.sched_getaffinity(0)))
    memory = f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') >> 10} kB"
    known = {
        "cpuinfo": "".join(
            f"processor\t: {number}\nmodel name\t: processor\ncpu MHz\t\t: 1000\n\n" for number in processors
        ),
        "loadavg": "0.00 0.00 0.00 1/1 1\n",
        "meminfo": "".join(f"{name}: {memory}\n" for name in ("MemTotal", "MemFree", "MemAvailable")),
        "stat": "".join(f"cpu{number} 0 0 0 0 0 0 0 0 0 0\n" for number in (" ", *processors)) + "btime 0\n",
        "uptime": "1.00 1.00\n",
        "version": f"{platform.system()} version {platform.release()}\n",
    }
    return {path: known.get(os.path.basename(path), "") for path in files}  # noqa: PTH119 - as text


def _machine_directories() -> list[str]:
    """Return the directories of ``/proc`` that belong to no process."""
    with os.scandir("/proc") as entries:
        return sorted(
            entry.path for entry in entries if not entry.name.isdigit() and entry.is_dir(follow_symlinks=False)
        )


def searched(command: Sequence[str], modules: Sequence[str]) -> dict[str, SimulatorPlaces]:
    """Return what of modules lies in each tree that a command's program sees.

    Raises ``SandboxError`` where the command names one of them, or a tree is too large to be searched.
    """
    trees = _trees(command, modules)
    for tree in trees:
        if is_one(Path(tree), modules):
            raise SandboxError(f"The agent's command names {tree}, with which what nobody counts could be played.")
    own = (root for root in ROOT_DIRECTORIES if Path(root).is_dir() and not Path(root).is_symlink())
    return {tree: search(tree, tuple(modules)) for tree in ("/usr", *own, *trees)}


def _without_hidden(trees: Iterable[SimulatorPlaces]) -> Iterator[str]:
    """Yield the words that lay directories out again, less what is hidden in them.

    In those that hold too many entries for that, what is hidden is there, and empty.
    """
    room = MOST_LAID_OUT
    for directory, hidden in ((directory, hidden) for found in trees for directory, hidden in found.hidden.items()):
        with os.scandir(directory) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        room -= len(entries)
        if room < 0:
            room += len(entries)
            for entry in entries:
                if entry.name in hidden:
                    yield from _emptied(entry)
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


def _emptied(entry: "os.DirEntry[str]") -> tuple[str, ...]:
    """Return the words that show something as empty; of a link, what it leads to is hidden where it lies."""
    if entry.is_symlink():
        return ()
    if entry.is_dir():
        return ("--tmpfs", entry.path, "--remount-ro", entry.path)
    return ("--ro-bind", "/dev/null", entry.path)


def _system_has_python() -> bool:
    return any(os.access(f"{place}/python3", os.X_OK) for place in PATH)


def modules_beside(command: Sequence[str]) -> tuple[Path, ...]:
    """Return the files and packages beside a command's Python scripts that these import, by one another too.

    A script is a file that the command names by absolute path and that ends in ``.py``. Imports inside functions count;
    a module that is imported by a computed name does not.
    """
    found: dict[Path, None] = {}
    for script in (Path(word) for word in command if word.endswith(".py") and Path(word).is_absolute()):
        waiting = [script]
        while waiting and len(found) < MOST_FILES:
            for name in _imported_names(waiting.pop()):
                for module in (script.with_name(f"{name}.py"), script.with_name(name)):
                    if module == script or module in found:
                        continue
                    if module.is_file():
                        waiting.append(module)
                    elif (module / "__init__.py").is_file():
                        waiting += sorted(module.rglob("*.py"))[:MOST_FILES]
                    else:
                        continue
                    found[module] = None
    return tuple(found)


def _imported_names(file: Path) -> Iterator[str]:
    """Yield the top-level names that a file imports; none of one that can't be read."""
    try:
        tree = ast.parse(file.read_bytes()) if file.stat().st_size <= MOST_BYTES else ast.Module([], [])
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
