"""The process that policies are forked from, while its worker ends."""

import json
import socket
import subprocess
import sys

import pytest

from evopolicygym.sandbox.seccomp import policy_filter

START = "import sys; from evopolicygym.rollout.guest import zygote; zygote.main(int(sys.argv[1]))"
CONFINEMENT = {"nice": 0, "unprivileged": False, "landlock": [], "seccomp": "", "limits": {}, "own_process": False}

COMPILER = """
import os
from dataclasses import asdict
from evopolicygym.core.task import Limits
from evopolicygym.rollout.guest import lockdown, zygote
from evopolicygym.sandbox.backends.process import confinement

prepared = lockdown.prepare(asdict(confinement(Limits(), ("/usr", "/dev/null"))), privileged=False)
os.dup2(os.open("/", os.O_RDONLY), 99)
answers = zygote._confine_compiler(prepared, os.dup(1))
for what in (lambda: os.listdir("/etc"), os.fork, lambda: os.kill(os.getppid(), 0), lambda: os.fstat(99)):
    try:
        what()
        os.write(answers, b"allowed ")
    except OSError:
        os.write(answers, b"refused ")
"""


def test_a_zygote_whose_worker_has_ended_ends_quietly() -> None:
    """What a worker says of an environment that can't be made is the last of its output."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        with ours:
            ours.send(json.dumps({"confinement": CONFINEMENT, "checkpoint": "", "preload": []}).encode())
        zygote = [sys.executable, "-c", START, str(theirs.fileno())]
        ended = subprocess.run(zygote, pass_fds=[theirs.fileno()], capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(policy_filter() is None, reason="libseccomp is missing")
def test_the_compiler_of_checkpoints_is_confined() -> None:
    """What compiles untrusted source reads no other file, starts and signals no process, and has one pipe alone."""
    ended = subprocess.run([sys.executable, "-c", COMPILER], capture_output=True, text=True, check=False)

    assert ended.stdout.split() == ["refused"] * 4
