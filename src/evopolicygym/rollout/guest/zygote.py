"""The zygote: a Python with numpy loaded that never runs a stranger's code and forks a process for every episode.

It is started once in the sandbox, as ``python -m guest.zygote DESCRIPTOR`` or by way of ``apart``, and obeys the worker
over one socket. A request is one JSON message: ``fork`` comes with the descriptors of the child's pipes and is answered
by the child's number with a pidfd; ``reap`` waits for a child that is dead or dying and is answered by how it ended.
What libraries its children find loaded is settled in the greeting, so that nothing of one episode can be read from that
in another.
"""

import gc
import json
import os
import signal
import socket
import sys
import traceback
from dataclasses import replace
from importlib import import_module
from io import TextIOWrapper
from typing import Any, cast

from . import episode, lockdown, numbering

MESSAGE_LIMIT = 1 << 20
CHILD_DESCRIPTORS = 4
"""Questions, answers, stdout, stderr; in this order they come with ``fork``."""


def main(descriptor: int, last: int = -1) -> None:
    """Serve requests until the worker closes the socket.

    ``last`` is what ``numbering`` has the kernel count again by; -1 where this process has no namespace of its own.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=descriptor)
    greeting = json.loads(control.recv(MESSAGE_LIMIT))
    confinement = lockdown.prepare(greeting["confinement"], privileged=last >= 0)
    for name in greeting["preload"]:
        _load(name)
    for stream in (sys.stdout, sys.stderr):  # here, not in every child: to make them there costs half a millisecond
        cast("TextIOWrapper", stream).reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    # A collection in a child would write to, and so copy, every page that holds an object of the zygote's.
    gc.collect()
    gc.freeze()
    control.send(json.dumps({"landlock": lockdown.landlock_version()}).encode())
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, MESSAGE_LIMIT, CHILD_DESCRIPTORS)
        if not message:
            return
        request = json.loads(message)
        if "reap" in request:
            _reap(control, request["reap"], last)
        else:
            _fork(control, confinement, request["fork"], descriptors, last)


def _reap(control: socket.socket, child: int, last: int) -> None:
    _, status = os.waitpid(child, 0)
    if last >= 0:
        numbering.end_all_others()
    control.send(json.dumps({"code": os.waitstatus_to_exitcode(status)}).encode())


def _fork(
    control: socket.socket, confinement: lockdown.Prepared, setup: dict[str, Any], descriptors: list[int], last: int
) -> None:
    if last >= 0:
        numbering.count_again(last)
    child = os.fork()
    if child == 0:
        control.close()
        _become_policy(setup, confinement, descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    handle = os.pidfd_open(child)
    socket.send_fds(control, [json.dumps({"pid": child}).encode()], [handle])
    os.close(handle)


def _become_policy(setup: dict[str, Any], confinement: lockdown.Prepared, descriptors: list[int]) -> None:
    try:
        lockdown.die_with_parent(confinement)
        ruleset = _arrange(descriptors, confinement.ruleset)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        episode.live(setup, replace(confinement, ruleset=ruleset))
    except BaseException:  # noqa: BLE001 - the child must never go on as a second zygote
        traceback.print_exc()
    finally:
        os._exit(70)


def _arrange(descriptors: list[int], ruleset: int) -> int:
    """Put the child's pipes where ``episode`` expects them and close all else but the ruleset; return where it is."""
    high = [os.dup2(one, 100 + place, inheritable=False) for place, one in enumerate(descriptors)]
    kept = os.dup2(ruleset, 120, inheritable=False) if ruleset >= 0 else -1
    null = os.open("/dev/null", os.O_RDONLY)
    for source, target in zip((null, high[2], high[3], high[0], high[1]), range(5), strict=True):
        os.dup2(source, target)
    if kept >= 0:
        os.dup2(kept, 5, inheritable=False)
    os.closerange(6 if kept >= 0 else 5, 4096)
    return 5 if kept >= 0 else -1


def _load(name: str) -> None:
    try:
        import_module(name)
    except ImportError:
        return


if __name__ == "__main__":
    main(int(sys.argv[1]))
