"""P47: kills its parent, its group, the first process, all processes

submission: ok
episodes: error, died
guarantees: other-processes-hidden
"""

import ctypes
import json
import os
import signal

DECOYS = json.load(open("decoys.json"))
TGKILL = {"aarch64": 131}.get(os.uname().machine, 234)
PROBE = 0  # signal 0 only checks the permission


def attempts():
    yield "its parent", lambda: os.kill(os.getppid(), signal.SIGKILL)
    yield "its parent's thread", lambda: require(ctypes.CDLL(None).syscall(TGKILL, os.getppid(), os.getppid(), 9))
    yield "its group", lambda: os.kill(-os.getpgrp(), signal.SIGSTOP if os.getpgrp() != os.getpid() else PROBE)
    yield "the first process", lambda: os.kill(1, PROBE)
    yield "the judge", lambda: os.kill(DECOYS["process"], PROBE)
    yield (
        "the judge's thread",
        lambda: require(ctypes.CDLL(None).syscall(TGKILL, DECOYS["process"], DECOYS["process"], PROBE)),
    )
    yield "all", lambda: os.kill(-1, PROBE)
    yield "its parent by a handle", lambda: signal.pidfd_send_signal(os.pidfd_open(os.getppid()), signal.SIGKILL)


def require(result):
    if result < 0:
        raise PermissionError("tgkill")


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.steps = 0

    def reset(self, episode_index):
        pass

    def act(self, obs):
        self.steps += 1
        if self.steps == 2:
            for name, attempt in attempts():
                try:
                    attempt()
                    print(f"LEAK: signalled {name}", flush=True)
                except OSError as refused:
                    last = refused
            raise last
        return 0
