"""P48: stops itself, so that only SIGKILL reaches it

submission: ok
episodes: timeout
played: 1
"""

import signal


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.steps = 0

    def reset(self, episode_index):
        pass

    def act(self, obs):
        self.steps += 1
        if self.steps == 2:
            signal.raise_signal(signal.SIGSTOP)
        return 0
