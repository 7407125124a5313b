"""The zygote: a Python process with numpy loaded that runs no untrusted code and forks a process for every episode.

It is started once in the sandbox, as ``python -m guest.zygote DESCRIPTOR`` or by ``isolated_zygote``, and serves the
worker over one socket (``REQUEST``):

- ``FORK`` carries the descriptors of the child's pipes; the child's setup follows as JSON. The child answers with its
  PID and a pidfd.
- ``REAP`` waits for a child that is dead or dying; the answer is its exit code.
- ``COPY`` carries a descriptor of a checkpoint's directory, which is copied to a new tmpfs, so that its files have the
  same inode numbers whatever was played before, and compiled.

A child inherits this process's memory, and addresses in it decide the order in which a policy's sets iterate over
objects. So memory here is the same before every fork: the greeting fixes which libraries are loaded, messages are
received in a permanent buffer that the child decodes, and requests free memory in the reverse order of allocation. The
buffer is cleared after every fork, so that no child sees the setup of an earlier one.
"""

import ctypes
import fcntl
import gc
import json
import os
import resource
import signal
import socket
import sys
import traceback
from dataclasses import replace
from functools import partial
from importlib import import_module
from io import TextIOWrapper
from stat import S_ISDIR
from struct import Struct
from typing import cast

from . import bytecode, episode, lockdown, pid_namespace

MESSAGE_LIMIT = 1 << 20
FORK, REAP, COPY = 1, 2, 3
REQUEST = Struct("<BI")
"""The start of a message: a kind, and for ``REAP`` a child's PID."""
FORKED, REAPED = Struct("<I"), Struct("<i")
"""Answers: a child's PID, with its pidfd; an exit code, negative for a signal, also for ``COPY``."""
ADDR_NO_RANDOMIZE, PERSONALITY_ONLY_ASK = 0x0040000, 0xFFFFFFFF
CHUNK = 1 << 20
FILE_TIMES = (float(2**31 - 1), 0.0)
"""Access and modification time of a policy's files, in seconds since 1970. The access time is in the future, so that
the kernel doesn't update it when a file is read."""
CLEARED = bytes(MESSAGE_LIMIT)
COMMON = ("cmath", "heapq", "pathlib", "statistics", "string")
"""Modules that policies commonly import and numpy doesn't, so that no child spends milliseconds on them."""
MOST_DESCRIPTORS = 4096
"""Limit of this process, below which ``_arrange_descriptors`` closes all that a child inherits."""
NOTHING = b"{}"
"""The setup of a child that exits at once."""
PIPES = 5
"""Descriptors below this are a policy's null device and pipes (``episode``); this one is its ruleset's."""
DESCRIPTORS, DESCRIPTOR = Struct("=4i"), Struct("=i")
"""The descriptors of ``FORK`` (questions, answers, stdout, stderr), and the pidfd of its answer."""


def main(descriptor: int, last: int = -1) -> None:
    """Serve requests until the worker closes the socket.

    ``last`` is the descriptor of ns_last_pid; -1 without a PID namespace. An error of the start is the first answer.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=descriptor)
    try:
        confinement, setup, checkpoint = _get_ready(control, last)
    except Exception as error:
        number = error.errno if isinstance(error, OSError) else 0
        control.send(json.dumps({"error": f"{type(error).__name__}: {error}", "errno": number}).encode())
        raise
    ready = {"landlock": lockdown.landlock_version(), "addresses": _describe_addresses()}
    try:
        control.send(json.dumps(ready).encode())
    except BrokenPipeError:  # a worker whose environment can't be made has ended, and said why
        return
    while _serve(control, confinement, setup, last, checkpoint):
        pass


def _get_ready(control: socket.socket, last: int) -> tuple[lockdown.PreparedLockdown, bytearray, str]:
    """Receive the greeting and load what it names; return what all requests need."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_DESCRIPTORS if most == resource.RLIM_INFINITY else min(MOST_DESCRIPTORS, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    greeting = json.loads(control.recv(MESSAGE_LIMIT))
    confinement = lockdown.prepare(greeting["confinement"], privileged=last >= 0)
    checkpoint = greeting["checkpoint"]
    if checkpoint:
        _pin_directories([path for path in sys.path if path.startswith("/usr/")])
    for name in greeting["preload"]:
        _preload(name)
    known = set(sys.modules)
    for name in COMMON:
        _preload(name)
    episode.replaceable_modules = frozenset(sys.modules) - known
    for stream in (sys.stdout, sys.stderr):  # here, since it costs half a millisecond in a child
        cast("TextIOWrapper", stream).reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    del greeting, stream
    # A collection in a child would write to, and so copy, every page with an object of the zygote.
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection would depend on the number of requests; children enable it
    setup = bytearray(MESSAGE_LIMIT)
    if checkpoint:
        pid_namespace.mount_tmpfs(checkpoint, replace=False)
    for _ in range(2):
        _rehearse(confinement, setup, last, checkpoint)
    return confinement, setup, checkpoint


def _pin_directories(roots: list[str]) -> None:
    """Keep all directories below ``roots`` open if their inode numbers last only as long as they are in use.

    An overlay with layers on two disks assigns such numbers, which would show the order in which policies used them.
    """
    for path in roots:
        for directory, directories, files in os.walk(path):
            directories.sort()
            number = os.stat(directory).st_dev  # noqa: PTH116 - pathlib loads late
            of_a_file = os.lstat(f"{directory}/{files[0]}").st_dev if files else None
            if of_a_file != number:
                os.open(directory, os.O_PATH)


def _rehearse(confinement: lockdown.PreparedLockdown, setup: bytearray, last: int, checkpoint: str) -> None:
    """Fork a child that exits at once: side effects of the first request stay out of policies."""
    worker, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with worker, control, open(os.devnull, "rb") as null:  # noqa: PTH123 - pathlib loads late
        if checkpoint:
            empty = os.open(checkpoint, os.O_RDONLY)
            socket.send_fds(worker, [REQUEST.pack(COPY, 0)], [empty])
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
    control: socket.socket, confinement: lockdown.PreparedLockdown, setup: bytearray, last: int, checkpoint: str
) -> bool:
    """Handle the next request; return False if the worker has closed the socket."""
    message, ancillary, _, _ = control.recvmsg(REQUEST.size, socket.CMSG_LEN(DESCRIPTORS.size))
    if not message:
        return False
    kind, child = REQUEST.unpack(message)
    if kind == REAP:
        _reap(control, child, last)
    elif kind == COPY:
        _copy_checkpoint(control, confinement, checkpoint, *DESCRIPTOR.unpack(ancillary[0][2]))
    else:
        _fork(control, confinement, setup, control.recv_into(setup), DESCRIPTORS.unpack(ancillary[0][2]), last)
    return True


def _copy_checkpoint(
    control: socket.socket, confinement: lockdown.PreparedLockdown, checkpoint: str, source: int
) -> None:
    """Copy a checkpoint to the policies' import root and compile it, in a child, so that our memory doesn't change."""
    pid_namespace.mount_tmpfs(checkpoint, replace=True)
    copier = os.fork()
    if copier == 0:
        try:
            _copy(source, checkpoint)
            bytecode.compile_modules(checkpoint, FILE_TIMES, partial(_confine_compiler, confinement))
            os._exit(0)
        except BaseException:  # noqa: BLE001 - the child must never continue as a second zygote
            traceback.print_exc()
        finally:
            os._exit(70)
    os.close(source)
    _, status = os.waitpid(copier, 0)
    pid_namespace.make_read_only(checkpoint)
    lockdown.allow_reading(confinement, checkpoint)
    control.send(REAPED.pack(os.waitstatus_to_exitcode(status)))


def _confine_compiler(confinement: lockdown.PreparedLockdown, answers: int) -> int:
    """Confine this process as a policy's; return the descriptor of its answers, the only one that it keeps."""
    lockdown.die_with_parent(confinement)
    null = os.open(os.devnull, os.O_RDWR)
    ruleset = _arrange_descriptors((null, answers, null, null), confinement.ruleset)
    lockdown.confine(replace(confinement, ruleset=ruleset))
    return episode.ANSWERS


def _copy(source: int, target: str) -> None:
    """Copy the content of an open directory, in the order of names."""
    for name in sorted(os.listdir(source)):
        path = f"{target}/{name}"
        if S_ISDIR(os.stat(name, dir_fd=source, follow_symlinks=False).st_mode):
            os.mkdir(path, 0o755)  # noqa: PTH102 - pathlib loads late
            child = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=source)
            _copy(child, path)
            os.close(child)
        else:
            with (
                os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=source), "rb") as source_file,
                open(path, "xb") as target_file,  # noqa: PTH123 - pathlib loads late
            ):
                while chunk := source_file.read(CHUNK):
                    target_file.write(chunk)
            os.utime(path, FILE_TIMES)
    os.utime(target, FILE_TIMES)


def _reap(control: socket.socket, child: int, last: int) -> None:
    _, status = os.waitpid(child, 0)
    if last >= 0:
        pid_namespace.kill_all_others()
    control.send(REAPED.pack(os.waitstatus_to_exitcode(status)))


def _fork(
    control: socket.socket,
    confinement: lockdown.PreparedLockdown,
    setup: bytearray,
    size: int,
    descriptors: tuple[int, ...],
    last: int,
) -> None:
    if last >= 0:
        pid_namespace.reset_pid_counter(last)
    if os.fork() == 0:
        _become_policy(control, setup[:size], confinement, descriptors)
    with memoryview(setup) as whole, memoryview(CLEARED) as cleared:  # a temporary copy would vary in size
        whole[:size] = cleared[:size]
    for descriptor in descriptors:
        os.close(descriptor)


def _become_policy(
    control: socket.socket, setup: bytearray, confinement: lockdown.PreparedLockdown, descriptors: tuple[int, ...]
) -> None:
    try:
        gc.enable()
        lockdown.die_with_parent(confinement)
        _send_pid(control)
        if setup == NOTHING:
            return
        ruleset = _arrange_descriptors(descriptors, confinement.ruleset)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # an exception would be taken for the policy's own
        episode.run_policy(json.loads(setup), replace(confinement, ruleset=ruleset))
    except BaseException as error:  # noqa: BLE001 - the child must never continue as a second zygote
        traceback.print_exc()
        if setup != NOTHING:
            episode.report_not_started(error, json.loads(setup), descriptors[1])
    finally:
        os._exit(70)


def _send_pid(control: socket.socket) -> None:
    """Send this child's PID and a pidfd to the worker."""
    handle = os.pidfd_open(os.getpid())
    control.sendmsg([FORKED.pack(os.getpid())], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, DESCRIPTOR.pack(handle))])
    os.close(handle)
    control.close()


def _arrange_descriptors(descriptors: tuple[int, ...], ruleset: int) -> int:
    """Move the child's pipes to the descriptors of ``episode``, close all others; return the ruleset's descriptor.

    All are copied above their targets first, so that none is overwritten before it is moved.
    """
    null = os.open("/dev/null", os.O_RDONLY)
    questions, answers, out, err = descriptors
    sources = (null, out, err, questions, answers, *([ruleset] if ruleset >= 0 else ()))
    copies = [fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, len(sources)) for source in sources]
    for target, source in enumerate(copies):
        os.dup2(source, target, inheritable=target < PIPES)
    os.closerange(len(sources), MOST_DESCRIPTORS)
    return PIPES if ruleset >= 0 else -1


def _describe_addresses() -> str:
    """Return as text whether the kernel randomises this process's addresses, which its children inherit."""
    fixed = ctypes.CDLL(None).personality(PERSONALITY_ONLY_ASK) & ADDR_NO_RANDOMIZE
    return "the same in every process" if fixed else "by chance: the kernel did not take ADDR_NO_RANDOMIZE"


def _preload(name: str) -> None:
    try:
        import_module(name)
    except ImportError:
        return


if __name__ == "__main__":
    main(int(sys.argv[1]))
