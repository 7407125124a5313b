"""Who a sandbox's programs are on the host: a user of their own where the judge is root, else the judge's own user.

A program whose user is root on the host reads whatever asks for its owner and not for a capability, such as files of
``/proc``. So root makes each sandbox a namespace of users in which the user inside is a number that nobody on the host
has. While the sandbox is laid out, root's files can be reached from in there too; its programs have no capability to do
that. How a sandbox is laid out is not described here.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, cast
from zlib import crc32

from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox.confinement.bwrap import INSIDE, NAMESPACES, USER_NAMESPACE, bwrap
from evopolicygym.sandbox.host import python_program

FIRST_USER, USERS = 1_900_000_000, 200_000_000
"""Numbers that neither people, services nor containers have, as systemd deals them out."""
ROOT_INSIDE = INSIDE + 1
"""What root is called in such a namespace, while the sandbox is laid out."""
MAKE = """
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


def user_of(place: Path) -> int | None:
    """Return the number on the host of the user of a sandbox that belongs to a directory; None for our own user."""
    return None if why_our_own() else _number(place)


def users_finding() -> str:
    """Return in words who a sandbox's programs are on the host."""
    why = why_our_own()
    return f"this user's, {why}" if why else "of a number that no other program has, and never root's"


@cache
def why_our_own() -> str:
    """Try whether a sandbox can have a user of its own here; return why not, nothing where it can."""
    if os.geteuid():
        return "as an ordinary user has no other"
    try:
        with namespaces(_number(Path(os.devnull))) as (words, inherited):
            shown = [word for place in ("/usr", "/lib", "/lib64", "/bin") for word in ("--ro-bind-try", place, place)]
            line = [bwrap(), *words, *shown, "--", "/bin/true"]
            tried = subprocess.run(line, capture_output=True, check=False, text=True, env={}, pass_fds=inherited)
    except (SandboxError, OSError) as error:
        return f"as no namespace with another can be made: {error}"
    return f"as bwrap can't use another: {tried.stderr.strip()[:200]}" if tried.returncode else ""


def give(directory: Path, user: int) -> None:
    """Make a user of the host the owner of a directory and all that is in it; no link is followed."""
    os.chown(directory, user, user)
    for _, directories, files, here in os.fwalk(directory):
        for name in (*directories, *files):
            with suppress(FileNotFoundError):
                os.chown(name, user, user, dir_fd=here, follow_symlinks=False)


def _number(place: Path) -> int:
    """Return a number for a directory: the same each time, and another's only by chance."""
    first, count = _most_numbers()
    if first <= FIRST_USER < first + count:
        first, count = FIRST_USER, min(USERS, first + count - FIRST_USER)
    else:  # this is a container, and has few
        first, count = first + count // 2, count - count // 2
    return first + crc32(os.fsencode(place.absolute())) % count


def _most_numbers() -> tuple[int, int]:
    """Return the largest range of users that this process may name: its first, and how many there are."""
    lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    ranges = (tuple(map(int, line.split())) for line in lines)
    return max(((first, count) for first, _, count in ranges), key=lambda one: one[1])


def _user_namespace(user: int) -> int:
    """Return a descriptor of a new namespace of users, whose user inside is one of the host's; raises as above."""
    with subprocess.Popen(
        [python_program(), "-I", "-S", "-c", MAKE],
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
