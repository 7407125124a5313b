"""Processors that processes of different programs share out: each is claimed by one at a time.

A claim is a name in the kernel's abstract socket space, so it ends with the process that made it, however that ends,
and leaves no file. It binds only those who ask here; how a process is pinned is described in ``worker.py``.
"""

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Claim:
    """A processor of one's own, for as long as this is held; None where all were taken."""

    core: int | None
    _holder: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Let others have it."""
        if self._holder:
            self._holder.close()


def claim() -> Claim:
    """Claim the first processor that this process may use and that nobody else has claimed."""
    for core in sorted(os.sched_getaffinity(0)):
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with suppress(OSError):
            holder.bind(f"\0evopolicygym-core-{os.getuid()}-{core}")
            return Claim(core, holder)
        holder.close()
    return Claim(None)
