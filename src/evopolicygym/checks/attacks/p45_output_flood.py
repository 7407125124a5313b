"""P45: prints a hundred kilobytes a step, on both outputs

submission: ok
episodes: ok
"""

import sys


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        sys.stdout.write("x" * 100_000 + "\n")
        sys.stderr.write("y" * 100_000 + "\n")
        return 0
