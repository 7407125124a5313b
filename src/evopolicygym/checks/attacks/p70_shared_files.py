"""P70: looks whether files that it can open are the host's own, of which others see locks, watches and pages in memory

submission: ok
episodes: ok
guarantees: files-private
"""

import json
import os
import random

import numpy as np

with open("decoys.json") as file:
    DEVICES = json.load(file)["devices"]


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        for path in (json.__file__, random.__file__, np.__file__, os.path.dirname(np.__file__)):
            if os.stat(path).st_dev in DEVICES:
                print(f"LEAK: {path} is the host's own")

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
