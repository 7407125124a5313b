"""P02: looks at other processes through /proc

submission: ok
episodes: ok
guarantees: other-processes-hidden
"""

import json
import os

DECOYS = json.load(open("decoys.json"))


def others():
    yield from {1, 2, os.getppid(), DECOYS["process"]} - {os.getpid()}
    if os.access("/proc", os.R_OK):
        try:
            yield from (int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid())
        except OSError:
            pass


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        for process in others():
            for name in ("cmdline", "environ", "maps", "status", "stat", "mem"):
                try:
                    open(f"/proc/{process}/{name}", "rb").read(1)
                    print(f"LEAK: read {name} of process {process}")
                except OSError:
                    pass
            for name in ("cwd", "root", "exe", "fd/0"):
                try:
                    print(f"LEAK: {name} of process {process} is {os.readlink(f'/proc/{process}/{name}')}")
                except OSError:
                    pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
