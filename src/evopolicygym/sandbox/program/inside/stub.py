# ruff: noqa: INP001 - run by itself inside a workplace
"""Opens the endpoints' ports inside the sandbox's network, hands the sockets out, becomes the agent's program.

Arguments: a JSON object, then the program with its arguments. The object holds ``channel`` (the descriptor of a socket
pair), ``ports``, ``limits`` (names of ``resource`` limits with what is soft and hard), ``nice``, ``sizes`` (paths of
file systems), and, where no bwrap has done it, ``confinement`` (what is given up) by the module at ``lockdown``. Out go
the sockets with a JSON object of what holds in here; the environment comes back as a line of JSON, once somebody
answers on the ports.
"""

import array
import contextlib
import json
import os
import resource
import runpy
import socket
import sys
from pathlib import Path

RIGHTS = ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp")
DIE_FIRST = "500"
"""How much sooner than others the kernel ends this program where memory runs out."""


def give_up(limits: dict[str, list[int]], nice: int) -> dict[str, list[int]]:
    """Set limits and come last at the processor; return the limits that hold."""
    os.nice(nice)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(DIE_FIRST, encoding="utf-8")
    held = {}
    for name, (soft, hard) in limits.items():
        number = getattr(resource, name)
        most = resource.getrlimit(number)[1]
        lower = hard if most == resource.RLIM_INFINITY else min(hard, most)
        resource.setrlimit(number, (min(soft, lower), lower))
        held[name] = list(resource.getrlimit(number))
    return held


def confine(lockdown: str, confinement: dict[str, object]) -> None:
    """Give up rights as a policy does, and end when the process ends that started this one."""
    done = runpy.run_path(lockdown, run_name="lockdown")
    how = done["prepare"](confinement, privileged=False)
    done["die_with_parent"](how)
    done["confine"](how)


def privileges() -> dict[str, str]:
    """Return what the kernel says that this process may do."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {name: fields[name].strip() for name in RIGHTS if name in fields}


def sizes(places: list[str]) -> dict[str, int]:
    """Return the most bytes that file systems take."""
    found = {place: os.statvfs(place) for place in places}
    return {place: status.f_blocks * status.f_frsize for place, status in found.items()}


def main() -> None:
    """Hand the endpoints out, wait for the environment, and go."""
    given = json.loads(sys.argv[1])
    held: dict[str, object] = {"limits": give_up(given["limits"], given["nice"]), "sizes": sizes(given["sizes"])}
    if given["confinement"]:
        confine(given["lockdown"], given["confinement"])
    held |= privileges()
    host = socket.socket(fileno=given["channel"])
    listeners = [socket.create_server(("127.0.0.1", port), backlog=128) for port in given["ports"]]
    descriptors = array.array("i", [listener.fileno() for listener in listeners])
    host.sendmsg([json.dumps(held).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
    for listener in listeners:
        listener.close()
    with host, host.makefile() as answers:
        os.environ.update(json.loads(answers.readline()))
    program = sys.argv[2:]
    try:
        os.execvp(program[0], program)  # noqa: S606 - the agent's own program
    except OSError as error:
        sys.exit(f"{program[0]} can't be started: {error.strerror}")


main()
