"""P18: announces messages that it never ends, then neither reads nor writes

submission: ok
episodes: timeout, died
"""

import os
import struct
import time

UNENDED = (b"\1", struct.pack("<II", 4, 32_768), b"\xff" * 4 + b"x" * 1000)


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.steps = 0

    def reset(self, episode_index):
        self.episode = episode_index

    def act(self, obs):
        self.steps += 1
        if self.steps == 2:
            os.write(4, UNENDED[self.episode % 3])
            if self.episode % 3 == 1:
                os.write(4, bytes(8))
            time.sleep(3600)
        return 0
