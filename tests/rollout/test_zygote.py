"""The process that policies are forked from, while its worker ends."""

import json
import socket
import subprocess
import sys

START = "import sys; from evopolicygym.rollout.guest import zygote; zygote.main(int(sys.argv[1]))"
CONFINEMENT = {"nice": 0, "unprivileged": False, "landlock": [], "seccomp": "", "limits": {}, "own_process": False}


def test_a_zygote_whose_worker_has_ended_ends_quietly() -> None:
    """What a worker says of an environment that can't be made is the last of its output."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        with ours:
            ours.send(json.dumps({"confinement": CONFINEMENT, "checkpoint": "", "preload": []}).encode())
        zygote = [sys.executable, "-c", START, str(theirs.fileno())]
        ended = subprocess.run(zygote, pass_fds=[theirs.fileno()], capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
