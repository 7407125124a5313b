"""P43: fills disks: scratch, shared memory, its own directory

submission: ok
episodes: ok
guarantees: nothing-left
"""

import os

MEGABYTE, ENOUGH = bytes(1 << 20), 20


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.steps = 0

    def reset(self, episode_index):
        pass

    def act(self, obs):
        self.steps += 1
        if self.steps == 2:
            for place in (".", "/", "/tmp", "/var/tmp", "/dev/shm", "/run", os.path.expanduser("~")):
                path = os.path.join(place, "evopolicygym-attack-fill")
                try:
                    with open(path, "wb", 0) as file:
                        for _ in range(ENOUGH):
                            file.write(MEGABYTE)
                    print(f"LEAK: {ENOUGH} MiB in {place}")
                except OSError:
                    pass
                try:
                    os.remove(path)
                except OSError:
                    pass
        return 0
