"""Claims of processors among different programs: each processor is claimed by one program at a time.

A claim is a name in the kernel's abstract socket namespace, so it ends with its process and leaves no file. It binds
only programs that use this module; ``worker.py`` pins its process.
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
