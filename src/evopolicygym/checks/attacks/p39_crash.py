"""P39: crashes: a wild pointer, an abort, an illegal instruction's signal

submission: ok
episodes: died
"""

import ctypes
import signal


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.steps = 0

    def reset(self, episode_index):
        self.episode = episode_index

    def act(self, obs):
        self.steps += 1
        if self.steps == 3:
            if self.episode == 0:
                ctypes.string_at(0)
            if self.episode == 1:
                ctypes.CDLL(None).abort()
            signal.raise_signal(signal.SIGILL)
        return 0
