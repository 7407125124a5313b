"""The zygote: a Python with numpy loaded that never runs untrusted code and forks a process for every episode.

It is started once in the sandbox, as ``python -m guest.zygote DESCRIPTOR`` or by ``isolated_zygote``, and obeys the
worker over one socket (``REQUEST``): ``FORK`` comes with the descriptors of the child's pipes, is followed by the
child's setup as JSON, and is answered, by the child, with its number and a pidfd; ``REAP`` waits for a child that is
dead or dying and is answered by how it ended; ``LAY`` comes with a descriptor of a checkpoint's directory, which is
copied into a new file system in memory, so that its files have the same numbers whatever was played before.

A child inherits this process's memory, and where things lie in it decides in which order a policy's sets iterate over
objects. So memory here is the same before every fork, whatever was played: what libraries are loaded is settled in the
greeting, a message lands in a buffer that is always there and is read by the child, and all that a request needs is
given back in the order in which it was taken. The buffer is cleared after every fork, so that no child finds what an
earlier one was given.
"""

import ctypes
import gc
import json
import os
import signal
import socket
import sys
import traceback
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from io import TextIOWrapper
from stat import S_ISDIR
from struct import Struct
from typing import cast

from . import episode, lockdown, pid_namespace

MESSAGE_LIMIT = 1 << 20
FORK, REAP, LAY = 1, 2, 3
REQUEST = Struct("<BI")
"""What a message begins with: a kind, and for ``REAP`` a child's number."""
FORKED, REAPED = Struct("<I"), Struct("<i")
"""Answers: a child's number, which comes with its pidfd; an exit code, negative for a signal, after ``LAY`` too."""
ADDR_NO_RANDOMIZE, PERSONALITY_ONLY_ASK = 0x0040000, 0xFFFFFFFF
CHUNK = 1 << 20
LAID_AT = (float(2**31 - 1), 0.0)
"""When the files of a policy were read and written, in seconds since 1970. The first lies ahead of every clock, so that
the kernel, which notes the first reading after a change, notes none."""
CLEARED = bytes(MESSAGE_LIMIT)
NOTHING = b"{}"
"""The setup of a child that ends at once."""
DESCRIPTORS, DESCRIPTOR = Struct("=4i"), Struct("=i")
"""Questions, answers, stdout, stderr: in this order they come with ``FORK``. And the pidfd that answers it."""


def main(descriptor: int, last: int = -1) -> None:
    """Serve requests until the worker closes the socket.

    ``last`` is what ``pid_namespace`` has the kernel count again by; -1 where this process has no namespace of its own.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=descriptor)
    greeting = json.loads(control.recv(MESSAGE_LIMIT))
    confinement = lockdown.prepare(greeting["confinement"], privileged=last >= 0)
    checkpoint = greeting["checkpoint"]
    if checkpoint:
        _pin_directories([place for place in sys.path if place.startswith("/usr/")])
    for name in greeting["preload"]:
        _load(name)
    for stream in (sys.stdout, sys.stderr):  # here, not in every child: to make them there costs half a millisecond
        cast("TextIOWrapper", stream).reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    del greeting, stream
    # A collection in a child would write to, and so copy, every page that holds an object of the zygote's.
    gc.collect()
    gc.freeze()
    gc.disable()  # here, where it would come after so many requests; children switch it on
    setup = bytearray(MESSAGE_LIMIT)
    if checkpoint:
        pid_namespace.mount_anew(checkpoint, again=False)
    for _ in range(2):
        _rehearse(confinement, setup, last, checkpoint)
    control.send(json.dumps({"landlock": lockdown.landlock_version(), "addresses": _addresses()}).encode())
    while _serve(control, confinement, setup, last, checkpoint):
        pass


def _pin_directories(places: list[str]) -> None:
    """Hold all directories in some open, where these have numbers only while somebody uses them.

    So it is in an overlay whose layers lie on two disks: the numbers would tell in which order policies came by.
    """
    for place in places:
        for directory, directories, files in os.walk(place):
            directories.sort()
            number = os.stat(directory).st_dev  # noqa: PTH116 - pathlib loads late
            of_a_file = os.lstat(f"{directory}/{files[0]}").st_dev if files else None
            if of_a_file != number:
                with suppress(OSError):  # there are more than may be open
                    os.open(directory, os.O_PATH)


def _rehearse(confinement: lockdown.Prepared, setup: bytearray, last: int, checkpoint: str) -> None:
    """Fork a child that ends at once: what is done for the first time leaves its traces here and not in a policy."""
    worker, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with worker, control, open(os.devnull, "rb") as null:  # noqa: PTH123 - pathlib loads late
        if checkpoint:
            empty = os.open(checkpoint, os.O_RDONLY)
            socket.send_fds(worker, [REQUEST.pack(LAY, 0)], [empty])
            os.close(empty)
            _serve(control, confinement, setup, last, checkpoint)
            worker.recv(MESSAGE_LIMIT)
        worker.sendmsg(
            [REQUEST.pack(FORK, 0)],
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, DESCRIPTORS.pack(*[null.fileno()] * 4))],
        )
        worker.send(NOTHING)
        _serve(control, confinement, setup, last, checkpoint)
        forked, handles, _, _ = socket.recv_fds(worker, FORKED.size, 1)
        os.close(handles[0])
        worker.send(REQUEST.pack(REAP, FORKED.unpack(forked)[0]))
        _serve(control, confinement, setup, last, checkpoint)


def _serve(
    control: socket.socket, confinement: lockdown.Prepared, setup: bytearray, last: int, checkpoint: str
) -> bool:
    """Do what the next message asks for; return False where the worker is gone."""
    message, ancillary, _, _ = control.recvmsg(REQUEST.size, socket.CMSG_LEN(DESCRIPTORS.size))
    if not message:
        return False
    kind, child = REQUEST.unpack(message)
    if kind == REAP:
        _reap(control, child, last)
    elif kind == LAY:
        _lay(control, confinement, checkpoint, *DESCRIPTOR.unpack(ancillary[0][2]))
    else:
        _fork(control, confinement, setup, control.recv_into(setup), DESCRIPTORS.unpack(ancillary[0][2]), last)
    return True


def _lay(control: socket.socket, confinement: lockdown.Prepared, checkpoint: str, source: int) -> None:
    """Copy a checkpoint to where policies find it. A child does it, so that nothing of it lies in memory here."""
    pid_namespace.mount_anew(checkpoint, again=True)
    copier = os.fork()
    if copier == 0:
        try:
            _copy(source, checkpoint)
            os._exit(0)
        except BaseException:  # noqa: BLE001 - the child must never go on as a second zygote
            traceback.print_exc()
        finally:
            os._exit(70)
    os.close(source)
    _, status = os.waitpid(copier, 0)
    pid_namespace.close_mount(checkpoint)
    lockdown.allow_reading(confinement, checkpoint)
    control.send(REAPED.pack(os.waitstatus_to_exitcode(status)))


def _copy(source: int, target: str) -> None:
    """Copy what is in an open directory, in the order of names."""
    for name in sorted(os.listdir(source)):
        place = f"{target}/{name}"
        if S_ISDIR(os.stat(name, dir_fd=source, follow_symlinks=False).st_mode):
            os.mkdir(place, 0o755)  # noqa: PTH102 - pathlib loads late
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=source)
            _copy(below, place)
            os.close(below)
        else:
            with (
                os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=source), "rb") as read,
                open(place, "xb") as written,  # noqa: PTH123 - pathlib loads late
            ):
                while chunk := read.read(CHUNK):
                    written.write(chunk)
            os.utime(place, LAID_AT)
    os.utime(target, LAID_AT)


def _reap(control: socket.socket, child: int, last: int) -> None:
    _, status = os.waitpid(child, 0)
    if last >= 0:
        pid_namespace.end_all_others()
    control.send(REAPED.pack(os.waitstatus_to_exitcode(status)))


def _fork(
    control: socket.socket,
    confinement: lockdown.Prepared,
    setup: bytearray,
    size: int,
    descriptors: tuple[int, ...],
    last: int,
) -> None:
    if last >= 0:
        pid_namespace.count_again(last)
    if os.fork() == 0:
        _become_policy(control, setup[:size], confinement, descriptors)
    with memoryview(setup) as whole, memoryview(CLEARED) as cleared:  # a copy would have a size that varies
        whole[:size] = cleared[:size]
    for descriptor in descriptors:
        os.close(descriptor)


def _become_policy(
    control: socket.socket, setup: bytearray, confinement: lockdown.Prepared, descriptors: tuple[int, ...]
) -> None:
    try:
        gc.enable()
        lockdown.die_with_parent(confinement)
        _introduce(control)
        if setup == NOTHING:
            return
        ruleset = _arrange(descriptors, confinement.ruleset)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        episode.live(json.loads(setup), replace(confinement, ruleset=ruleset))
    except BaseException:  # noqa: BLE001 - the child must never go on as a second zygote
        traceback.print_exc()
    finally:
        os._exit(70)


def _introduce(control: socket.socket) -> None:
    """Tell the worker this child's number, with a handle on it."""
    handle = os.pidfd_open(os.getpid())
    control.sendmsg([FORKED.pack(os.getpid())], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, DESCRIPTOR.pack(handle))])
    os.close(handle)
    control.close()


def _arrange(descriptors: tuple[int, ...], ruleset: int) -> int:
    """Put the child's pipes where ``episode`` expects them and close all else but the ruleset; return where it is."""
    high = [os.dup2(descriptor, 100 + place, inheritable=False) for place, descriptor in enumerate(descriptors)]
    kept = os.dup2(ruleset, 120, inheritable=False) if ruleset >= 0 else -1
    null = os.open("/dev/null", os.O_RDONLY)
    for source, target in zip((null, high[2], high[3], high[0], high[1]), range(5), strict=True):
        os.dup2(source, target)
    if kept >= 0:
        os.dup2(kept, 5, inheritable=False)
    os.closerange(6 if kept >= 0 else 5, 4096)
    return 5 if kept >= 0 else -1


def _addresses() -> str:
    """Return in words whether the kernel lays this process out by chance; a policy's is laid out as this one is."""
    fixed = ctypes.CDLL(None).personality(PERSONALITY_ONLY_ASK) & ADDR_NO_RANDOMIZE
    return "the same in every process" if fixed else "by chance: the kernel did not take ADDR_NO_RANDOMIZE"


def _load(name: str) -> None:
    try:
        import_module(name)
    except ImportError:
        return


if __name__ == "__main__":
    main(int(sys.argv[1]))
