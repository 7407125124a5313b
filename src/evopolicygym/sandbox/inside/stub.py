# ruff: noqa: INP001 - run by itself inside a workplace
"""Opens the doors' ports inside the sandbox's network, hands the sockets out, becomes the agent's program.

Arguments: the descriptor of a socket pair, the ports joined by commas, then the program with its arguments. The
environment comes back over the socket pair as one line of JSON, once somebody answers on the ports.
"""

import array
import json
import os
import socket
import sys


def main() -> None:
    """Hand the doors out, wait for the environment, and go."""
    host = socket.socket(fileno=int(sys.argv[1]))
    listeners = [socket.create_server(("127.0.0.1", int(port)), backlog=128) for port in sys.argv[2].split(",")]
    descriptors = array.array("i", [listener.fileno() for listener in listeners])
    host.sendmsg([b"\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
    for listener in listeners:
        listener.close()
    with host, host.makefile() as answers:
        os.environ.update(json.loads(answers.readline()))
    program = sys.argv[3:]
    try:
        os.execvp(program[0], program)  # noqa: S606 - the agent's own program
    except OSError as error:
        sys.exit(f"{program[0]} can't be started: {error.strerror}")


main()
