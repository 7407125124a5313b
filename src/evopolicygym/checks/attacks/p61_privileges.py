"""P61: uses the privileges of its user: asks for the block numbers of a file, which only root may know

submission: ok
episodes: ok
guarantees: no-privileges
"""

import fcntl
import os
from errno import EPERM

FIBMAP = 1


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.steps = 0

    def reset(self, episode_index):
        pass

    def act(self, obs):
        self.steps += 1
        if self.steps == 2:
            with open(os.__file__, "rb") as file:
                try:
                    fcntl.ioctl(file, FIBMAP, bytes(4))
                    print("LEAK: the place of a file on its disk")
                except OSError as error:
                    print(f"LEAK: privileged, {error}" if error.errno != EPERM else "refused")
        return 0
