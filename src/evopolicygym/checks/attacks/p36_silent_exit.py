"""P36: exits its process silently

submission: ok
episodes: died
"""

import os


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.steps = 0

    def reset(self, episode_index):
        pass

    def act(self, obs):
        self.steps += 1
        if self.steps == 5:
            os._exit(0)
        return 0
