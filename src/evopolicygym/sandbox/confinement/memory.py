"""How much memory an agent's processes hold, counted from outside; for where no control group counts it.

Counted is what can't be given back to the disk: private pages, shared ones by each process's share of them, files that
were made in memory whether or not anybody has them mapped, and file systems in memory. Not counted is what lies in
pipes and in sockets. A page that is mapped and belongs to such a file counts twice.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

KIBIBYTE, BLOCK = 1 << 10, 512
SHARES = {"Pss_Anon", "Pss_Shmem", "SwapPss"}
RESIDENT = {"RssAnon", "RssShmem", "VmSwap"}
"""What older kernels, and processes that can't be looked into, say: pages that several share count once for each."""
MEMORY_FILE = "/memfd:"


def of_processes(processes: Iterable[str]) -> int:
    """Return the bytes that processes hold, named by their directories in ``/proc``."""
    mapped, files = 0, dict[tuple[int, int], int]()
    for process in processes:
        with suppress(OSError):  # it has ended
            mapped += _fields(process, "smaps_rollup", SHARES) or _fields(process, "status", RESIDENT)
            files |= dict(_files_in_memory(process))
    return mapped + sum(files.values())


def of_file_systems(process: str) -> int:
    """Return the bytes that lie in the file systems in memory that a process sees; only its own may be among them.

    One that another file system is mounted over has no path that leads to it, and isn't counted.
    """
    used: dict[int, int] = {}
    with suppress(OSError):  # it has ended
        for line in Path(process, "mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            fields = line.split()
            if fields[fields.index("-") + 1] == "tmpfs":
                with suppress(OSError):
                    place, device = f"{process}/root{fields[4]}", os.makedev(*map(int, fields[2].split(":")))
                    if Path(place).stat().st_dev == device:
                        status = os.statvfs(place)
                        used[device] = (status.f_blocks - status.f_bfree) * status.f_frsize
    return sum(used.values())


def _fields(process: str, file: str, names: set[str]) -> int:
    """Return the sum of some fields of a file that the kernel writes in KiB; 0 where it can't be read."""
    with suppress(PermissionError, FileNotFoundError):
        lines = Path(process, file).read_text(encoding="utf-8").splitlines()
        pairs = (line.split(":", 1) for line in lines if ":" in line)
        return sum(int(text.split()[0]) * KIBIBYTE for name, text in pairs if name in names)
    return 0


def _files_in_memory(process: str) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield each file in memory that a process has open, by device and number, with its bytes."""
    with suppress(PermissionError), os.scandir(f"{process}/fd") as descriptors:
        for descriptor in descriptors:
            with suppress(OSError):
                if os.readlink(descriptor.path).startswith(MEMORY_FILE):  # noqa: PTH115 - of thousands
                    status = descriptor.stat()
                    yield (status.st_dev, status.st_ino), status.st_blocks * BLOCK
