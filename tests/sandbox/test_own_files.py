"""What sandboxed code opens is no file of the host, of another run or of another role."""

import fcntl
import json
import mmap
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from ctypes import CDLL, c_size_t, c_ubyte, c_void_p, get_errno
from pathlib import Path
from subprocess import PIPE, Popen

import numpy as np
import pytest

from enclosed import needs_bubblewrap, python, turn
from evopolicygym.sandbox.host import standard_library
from evopolicygym.sandbox.overlays import PREFIX, Layers, remove_abandoned_layers, why_shared
from evopolicygym.sandbox.packages import policy_library
from fakes import RunMaker
from playground import one_worker, policy
from simulators import spec

pytestmark = [needs_bubblewrap, pytest.mark.skipif(bool(why_shared()), reason=why_shared())]

SHARED = json.__file__
LOOK = """
import ctypes, errno, fcntl, json, os, struct, sys
path, marked = sys.argv[1], sys.argv[2].split(",")
libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init1(os.O_NONBLOCK)
assert libc.inotify_add_watch(watch, path.encode(), 0xFFF) >= 0
file = os.open(path, os.O_RDONLY)
found = {"locked": [], "device": os.stat(path).st_dev}
for place in (path, "/dev/null"):
    try:
        fcntl.flock(os.open(place, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        found["locked"].append(place)
os.close(file)
os.read(watch, 65536)
print("watching", flush=True)
open("system/watching", "w").close()
while not os.path.exists("system/touched"):
    pass
try:
    found["seen"] = len(os.read(watch, 65536))
except BlockingIOError:
    found["seen"] = 0
file, vector = os.open(path, os.O_RDONLY), [bytearray(1)]
def refused(call):
    try:
        return call() == -1 and ctypes.get_errno() == errno.EPERM
    except PermissionError:
        return True
found["asked"] = [
    name for name, call in {
        "preadv2": lambda: os.preadv(file, vector, 0, os.RWF_NOWAIT),
        "fadvise": lambda: os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED),
        "mincore": lambda: libc.mincore(ctypes.c_void_p(4096), 4096, None),
        "cachestat": lambda: libc.syscall(451, file, None, None, 0),
    }.items() if not refused(call)
]
print(json.dumps(found))
"""


def test_a_program_shares_no_file_with_the_host(new_run: RunMaker) -> None:
    """A26: a program sees no lock or access of the host on the files that both have, nor what is resident."""
    from threading import Thread

    run = new_run()

    def touch() -> None:
        while not (run.paths.system / "watching").exists():
            pass
        Path(SHARED).read_bytes()
        (run.paths.system / "touched").touch()

    with Path(SHARED).open("rb") as file, Path(os.devnull).open("rb") as null:
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.flock(null, fcntl.LOCK_EX)
        toucher = Thread(target=touch, daemon=True)
        toucher.start()
        printed = python(run, LOOK.replace('print("watching", flush=True)\n', ""), SHARED, "")
        toucher.join()

    assert (printed["seen"], printed["asked"]) == (0, [])
    assert printed["device"] != Path(SHARED).stat().st_dev
    assert printed["locked"] == ([] if os.geteuid() == 0 else ["/dev/null"])


def test_findings_name_what_is_the_machines(new_run: RunMaker, tmp_path: Path) -> None:
    """The findings name those files of the machine that a program and a policy see as they are, and no others."""
    run = new_run()
    look = "import json, os\nprint([os.stat(path).st_dev for path in ('/dev/null', '/dev/zero', json.__file__)])"
    ended = turn(run, "python3", "-c", look)
    seen = json.loads(run.paths.transcript.read_text(encoding="utf-8"))
    here = [Path(path).stat().st_dev for path in ("/dev/null", "/dev/zero", SHARED)]
    named = machines(ended.findings["program's files"])

    assert ("/dev/null" in named, "/dev/zero" in named, SHARED in named) == tuple(
        there == other for there, other in zip(seen, here, strict=True)
    )
    with one_worker("bubblewrap", spec("Plain"), tmp_path) as yard:
        played = yard.play_one(policy(init="print(os.stat(os.devnull).st_dev)"))
        named = machines(yard.executor.info.findings["files"])
        assert ("/dev/null" in named) == (int(played.read()) == here[0])


def machines(finding: str) -> list[str]:
    """Return which files are the machine's, by a finding."""
    return finding.partition("of the machine: ")[2].split(", ")


def test_a_policy_shares_no_file_with_the_host(tmp_path: Path) -> None:
    """P70: what a policy can open lies on devices that the host doesn't have; two workers' are two."""
    look = "import json, subprocess\nprint(*(os.stat(m.__file__).st_dev for m in (json, np, subprocess)))"
    with one_worker("bubblewrap", spec("Plain"), tmp_path) as yard:
        played = yard.play(policy(init=look), 0)
        devices = set(map(int, played[0].read().split()))

    assert devices.isdisjoint({Path(module.__file__ or "").stat().st_dev for module in (json, np)})


def resident(path: Path) -> int:
    """Return how many pages of a file are in memory."""
    libc = CDLL(None, use_errno=True)
    libc.mmap.restype = c_void_p
    size = path.stat().st_size
    pages = (c_ubyte * (-(-size // mmap.PAGESIZE)))()
    with path.open("rb") as file:
        place = c_void_p(libc.mmap(None, c_size_t(size), mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0))
        assert libc.mincore(place, c_size_t(size), pages) == 0, get_errno()
        libc.munmap(place, c_size_t(size))
    return sum(page & 1 for page in pages)


def given_back(path: Path) -> None:
    """Ask for a file's pages to be given back, as anybody may who can read it."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.mark.needs_root
def test_pages_of_policies_stay_in_memory(tmp_path: Path) -> None:
    """P70: where policies see overlays, all that they can read is in memory while a run plays, read or not.

    So a policy that reads leaves no mark there for the next, be it of another role or run.
    """
    files = [path for path in below(policy_library().paths.values()) if path.stat().st_size]
    files += [path for path in below(map(Path, standard_library())) if path.stat().st_size]
    for path in files:
        given_back(path)
    with one_worker("bubblewrap", spec("Plain"), tmp_path, change="without_room") as yard:
        assert yard.executor.info.findings["files"]
        for path in files:
            given_back(path)
        assert [path for path in files if resident(path) != -(-path.stat().st_size // mmap.PAGESIZE)] == []


def below(places: Iterable[Path]) -> Iterator[Path]:
    """Yield the files at and below places."""
    for place in places:
        yield from (path for path in ([place] if place.is_file() else place.rglob("*")) if path.is_file())


def layers_of(process: int) -> list[Path]:
    """Return the directories that a process holds for the layers of its sandboxes."""
    held = (path.readlink() for path in Path(f"/proc/{process}/fd").iterdir())
    return [path for path in held if path.name.startswith(PREFIX)]


def test_layers_go_with_their_worker(tmp_path: Path) -> None:
    """The layers of a worker's overlays are removed when it is closed, or when its executor sees that it was killed."""
    with one_worker("bubblewrap", spec("Plain"), tmp_path) as yard:
        yard.play_one(policy())
        [seat] = yard.executor._slots  # type: ignore[attr-defined]
        layers = layers_of(seat.process.pid)
        assert [path.is_dir() for path in layers] == [True]
        os.kill(seat.process.pid, signal.SIGKILL)
        yard.play_one(policy())
        closed = layers_of(seat.process.pid)

        assert [path.exists() for path in (*layers, *closed)] == [False, True]
    assert not closed[0].exists()


def test_layers_of_a_killed_judge_go() -> None:
    """Layers of any process that was killed are removed when somebody makes new ones; those of others stay."""
    make = "from evopolicygym.sandbox.overlays import Layers\nprint(Layers().directory, flush=True)\ninput()"
    with (
        Popen([sys.executable, "-c", make], stdin=PIPE, stdout=PIPE, text=True) as kept,
        Popen([sys.executable, "-c", make], stdin=PIPE, stdout=PIPE, text=True) as killed,
    ):
        assert kept.stdout
        assert killed.stdout
        standing, abandoned = (Path(process.stdout.readline().strip()) for process in (kept, killed))  # type: ignore[union-attr]
        killed.kill()
        killed.wait()
        with closing(Layers()):
            assert standing.is_dir()
            assert not abandoned.exists()
        kept.kill()
    remove_abandoned_layers()
    assert not standing.exists()
