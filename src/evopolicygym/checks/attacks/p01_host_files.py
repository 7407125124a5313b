"""P01: reads files outside of its sandbox: settings, homes, run directories

submission: ok
episodes: ok
guarantees: host-files-hidden
"""

import json
import os
import sys

DECOYS = json.load(open("decoys.json"))
KNOWN = ["/usr", "/lib", "/lib64", "/dev", "/proc", "/sys", sys.base_prefix, os.getcwd(), *filter(None, sys.path)]
ENOUGH = 20


def readable():
    for path in (
        DECOYS["file"],
        "/etc/passwd",
        "/etc/machine-id",
        os.path.expanduser("~/.bashrc"),
        "decoys.json/../../x",
    ):
        yield path
    for directory, below, names in os.walk("/"):
        below[:] = [name for name in below if os.path.join(directory, name) not in KNOWN]
        yield from (os.path.join(directory, name) for name in names)


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        found = 0
        for path in readable():
            try:
                if os.path.isfile(path):
                    open(path, "rb").read(1)
                    found += 1
                    print(f"LEAK: read {path}")
            except OSError:
                pass
            if found == ENOUGH:
                break

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
