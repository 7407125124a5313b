# ruff: noqa: INP001 - run by itself inside a workplace
"""Opens the judge's port inside the sandbox's network, hands the socket out, becomes the agent's program.

Arguments: the descriptor of a socket pair, the port, then the program with its arguments. The environment comes back
over the socket pair as one line of JSON, once the judge answers on the port.
"""

import array
import json
import os
import socket
import sys


def main() -> None:
    """Hand the door out, wait for the environment, and go."""
    host = socket.socket(fileno=int(sys.argv[1]))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", int(sys.argv[2])))
        listener.listen(128)
        host.sendmsg([b"\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener.fileno()]))])
    with host, host.makefile() as answers:
        os.environ.update(json.loads(answers.readline()))
    program = sys.argv[3:]
    try:
        os.execvp(program[0], program)  # noqa: S606 - the agent's own program
    except OSError as error:
        sys.exit(f"{program[0]} can't be started: {error.strerror}")


main()
