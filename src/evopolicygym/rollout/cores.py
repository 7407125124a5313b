"""Claims of processors, so that programs that use this module don't share one.

A claim is a name in the kernel's abstract socket namespace: it ends with its process and leaves no file. The worker
pins itself to the claimed processor.
"""

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Claim:
    """A claimed processor, until ``release``; ``core`` is None if all were taken."""

    core: int | None
    _holder: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Give the processor back."""
        if self._holder:
            self._holder.close()


def claim() -> Claim:
    """Claim the first free processor that this process may use."""
    for core in sorted(os.sched_getaffinity(0)):
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with suppress(OSError):
            holder.bind(f"\0evopolicygym-core-{os.getuid()}-{core}")
            return Claim(core, holder)
        holder.close()
    return Claim(None)
