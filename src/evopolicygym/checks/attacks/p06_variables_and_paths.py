"""P06: looks for secrets and paths in variables, arguments and directories

submission: ok
episodes: ok
guarantees: host-names-hidden
"""

import json
import os
import sys

DECOYS = json.load(open("decoys.json"))
SECRET = ("TOKEN", "SECRET", "KEY", "PASSWORD", "PROXY", "EVOPOLICYGYM", "HOME", "USER", "SSH")
HOST = (DECOYS["directory"], os.path.dirname(DECOYS["directory"]), "http://", "/home/", "/root/", "/runs/", "worker")


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        for name, value in os.environ.items():
            if any(word in name for word in SECRET):
                print(f"LEAK: variable {name}")
            if any(word in value for word in HOST):
                print(f"LEAK: variable {name} holds {value}")
        places = [*sys.argv, *sys.orig_argv, *sys.path, sys.executable, sys.prefix, os.getcwd(), __file__]
        for place in places:
            if any(word in place for word in HOST):
                print(f"LEAK: {place}")

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
