# ruff: noqa: INP001 - run by itself inside a workplace
"""Opens the endpoints' ports in the sandbox's network, passes the sockets out, and becomes the agent's program.

In a PID namespace it is the first process: it starts the program, reaps all others, and tells on the channel how the
program ended: its exit code, negative for a signal. Nothing inside can kill it. It ends with whoever started it, whose
death closes the channel; a signal of root's sandboxes to it would be refused, since its user is another.

Arguments: a JSON object, then the program with its arguments. The object has ``channel`` (the descriptor of a socket
pair), ``ports``, ``limits`` (soft and hard ``resource`` limits by name), ``nice``, ``sizes`` (paths of file systems),
``first`` (whether it is a namespace's first process) and, without bwrap, a ``confinement`` and the path of its module
``lockdown``. The stub sends the sockets with a JSON object of its limits and rights, and receives the environment as a
line of JSON when the endpoints are served.
"""

import array
import contextlib
import json
import os
import resource
import runpy
import signal
import socket
import sys
from pathlib import Path

RIGHTS = ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp")
DIE_FIRST = "500"
"""Preference of the kernel for killing this program when memory runs out."""


def die_first() -> None:
    """Have the kernel kill this process before others when memory runs out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(DIE_FIRST, encoding="utf-8")


def give_up(limits: dict[str, list[int]], nice: int) -> dict[str, list[int]]:
    """Set limits and niceness; return the limits that are in force."""
    os.nice(nice)
    in_force = {}
    for name, (soft, hard) in limits.items():
        number = getattr(resource, name)
        present = resource.getrlimit(number)[1]
        lower = hard if present == resource.RLIM_INFINITY else min(hard, present)
        resource.setrlimit(number, (min(soft, lower), lower))
        in_force[name] = list(resource.getrlimit(number))
    return in_force


def confine(lockdown: str, confinement: dict[str, object]) -> None:
    """Drop rights like a policy, and end with the parent process."""
    module = runpy.run_path(lockdown, run_name="lockdown")
    plan = module["prepare"](confinement, privileged=False)
    module["die_with_parent"](plan)
    module["confine"](plan)


def privileges() -> dict[str, str]:
    """Return this process's rights according to the kernel."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {name: fields[name].strip() for name in RIGHTS if name in fields}


def sizes(paths: list[str]) -> dict[str, int]:
    """Return the sizes of file systems in bytes."""
    statuses = {path: os.statvfs(path) for path in paths}
    return {path: status.f_blocks * status.f_frsize for path, status in statuses.items()}


def wait_for_end(host: socket.socket, child: int) -> None:
    """Reap processes until the program ends; tell how, and exit as a shell does. Exit when the host is gone."""

    def reap(*_: object) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == child:
                    code = os.waitstatus_to_exitcode(ended[1])
                    with contextlib.suppress(OSError):
                        host.sendall(str(code).encode())
                    os._exit(code if code >= 0 else 128 - code)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, reap)
    reap()
    with contextlib.suppress(OSError):
        host.recv(1)
    os._exit(1)


def main() -> None:
    """Pass the endpoints out, wait for the environment, and become the program."""
    orders = json.loads(sys.argv[1])
    if not orders["first"]:
        die_first()  # here, since a confined process can't
    report: dict[str, object] = {"limits": give_up(orders["limits"], orders["nice"]), "sizes": sizes(orders["sizes"])}
    if orders["confinement"]:
        confine(orders["lockdown"], orders["confinement"])
    report |= privileges()
    host = socket.socket(fileno=orders["channel"])
    listeners = [socket.create_server(("127.0.0.1", port), backlog=128) for port in orders["ports"]]
    descriptors = array.array("i", [listener.fileno() for listener in listeners])
    host.sendmsg([json.dumps(report).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
    for listener in listeners:
        listener.close()
    with host.makefile() as answers:
        os.environ.update(json.loads(answers.readline()))
    if orders["first"] and (child := os.fork()):
        wait_for_end(host, child)
    host.close()
    if orders["first"]:
        die_first()
    program = sys.argv[2:]
    try:
        os.execvp(program[0], program)  # noqa: S606 - the agent's own program
    except OSError as error:
        sys.exit(f"{program[0]} can't be started: {error.strerror}")


main()
