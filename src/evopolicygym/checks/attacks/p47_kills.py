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
JUST_ASKING = 0  # signal 0 shows a right to kill and harms nobody


def attempts():
    yield "its parent", lambda: os.kill(os.getppid(), signal.SIGKILL)
    yield "its parent's thread", lambda: demand(ctypes.CDLL(None).syscall(TGKILL, os.getppid(), os.getppid(), 9))
    yield "its group", lambda: os.kill(-os.getpgrp(), signal.SIGSTOP if os.getpgrp() != os.getpid() else JUST_ASKING)
    yield "the first process", lambda: os.kill(1, JUST_ASKING)
    yield "the judge", lambda: os.kill(DECOYS["process"], JUST_ASKING)
    yield (
        "the judge's thread",
        lambda: demand(ctypes.CDLL(None).syscall(TGKILL, DECOYS["process"], DECOYS["process"], JUST_ASKING)),
    )
    yield "all", lambda: os.kill(-1, JUST_ASKING)
    yield "its parent by a handle", lambda: signal.pidfd_send_signal(os.pidfd_open(os.getppid()), signal.SIGKILL)


def demand(result):
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
