"""Decoys: things of this machine whose addresses every attack is given, so that none can be said to look elsewhere.

A file, a process, a listening TCP port, an abstract socket. What is reached of them without a word from the policy is
found here too. What the attacks do with them is described in ``checks/attacks/``.
"""

import json
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evopolicygym.checks.attack_suite.attack import DECOYS_FILE
from evopolicygym.packs.installation import packs_directory

MARK = "evopolicygym-attack"
"""Begins the name of whatever an attack tries to leave."""
PLACES = ("/", "/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", "/run/lock")  # noqa: S108 - looked at, not used
"""Where attacks try to leave files, beside their own directory and the user's home."""


@dataclass(frozen=True, slots=True)
class Decoys:
    """What attacks are given, and the traps behind it."""

    addresses: dict[str, Any]
    _listeners: tuple[socket.socket, ...]

    def lay(self, checkpoint: Path) -> None:
        """Write the addresses beside a policy."""
        (checkpoint / DECOYS_FILE).write_text(json.dumps(self.addresses), encoding="utf-8")

    def taken(self) -> list[str]:
        """Return which of the sockets somebody reached since they were last asked after."""
        return [name for name, one in zip(("tcp", "unix"), self._listeners, strict=True) if _was_reached(one)]


@contextmanager
def decoys_laid(directory: Path, /, **more: Any) -> Iterator[Decoys]:  # noqa: ANN401 - values of JSON
    """Lay out decoys below a directory of the host, and give ``more`` besides or instead."""
    file = directory / "secret.txt"
    file.write_text(secrets.token_hex(16), encoding="utf-8")
    name = f"{MARK}-{secrets.token_hex(4)}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind("\0" + name)
        unix.listen()
        for listener in (tcp, unix):
            listener.settimeout(0)
        port = tcp.getsockname()[1]
        addresses = {
            "file": str(file),
            "directory": str(directory),
            "process": os.getpid(),
            "port": port,
            "socket": name,
            "url": f"http://127.0.0.1:{port}",
            "packs": str(packs_directory()),
        }
        yield Decoys({**addresses, **more}, (tcp, unix))


def marks() -> set[str]:
    """Return what attacks left outside of a sandbox: files in the usual places, and System V objects."""
    found = set()
    for place in (*PLACES, str(Path.home())):
        with suppress(OSError):
            found |= {entry.path for entry in os.scandir(place) if entry.name.startswith(MARK)}
    for kind in ("shm", "msg", "sem"):
        with suppress(OSError):
            lines = Path("/proc/sysvipc", kind).read_text(encoding="utf-8").splitlines()[1:]
            found |= {f"System V {kind}" for line in lines if int(line.split()[0]) == SYSTEM_V_KEY}
    return found


SYSTEM_V_KEY = 0x45504741
"""The key of whatever System V object an attack makes."""


def _was_reached(listener: socket.socket) -> bool:
    reached = False
    with suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            reached = True
    return reached
