"""P07: uses descriptors that it inherited

submission: ok
episodes: ok
promised: bubblewrap, process
"""

import os
import stat


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        for number in range(1024):
            try:
                mode = os.fstat(number).st_mode
            except OSError:
                continue
            pipe, device = stat.S_ISFIFO(mode), stat.S_ISCHR(mode)
            if number > 4 or not (device if number == 0 else pipe):
                print(f"LEAK: descriptor {number} of type {stat.S_IFMT(mode):o}")

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
