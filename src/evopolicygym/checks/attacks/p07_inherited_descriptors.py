"""P07: uses descriptors that it inherited

submission: ok
episodes: ok
guarantees: system-calls-filtered
"""

import fcntl
import os

EXPECTED = (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)
"""Access modes of the null device, the two outputs, and the pipes of observations and actions."""


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        for number in range(1024):
            try:
                access = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE
            except OSError:
                continue
            if number >= len(EXPECTED) or access != EXPECTED[number]:
                print(f"LEAK: descriptor {number}, open for {access}")
            try:
                print(f"LEAK: descriptor {number} is file {os.fstat(number).st_ino}")
            except OSError:
                pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
