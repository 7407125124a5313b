"""P16: searches its process for data that a message carried besides the observation

submission: ok
episodes: ok
"""

import gc
import sys

SECRET_NAMES = {
    "reward",
    "seed",
    "pool",
    "case",
    "split",
    "total_episodes",
    "score",
    "terminated",
    "truncated",
    "info",
    "return",
}
PLAIN_TYPES = (int, float, str, list, dict, tuple)


def visible_dicts():
    frame = sys._getframe()
    while frame:
        yield frame.f_locals
        frame = frame.f_back
    yield from (value for value in gc.get_objects() if isinstance(value, dict) and len(value) < 40)


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.steps = 0

    def reset(self, episode_index):
        pass

    def act(self, obs):
        self.steps += 1
        if self.steps == 2:
            for names in visible_dicts():
                if "__name__" in names or "__module__" in names:
                    continue
                for name in SECRET_NAMES & {key for key in names if isinstance(key, str)}:
                    if isinstance(names[name], PLAIN_TYPES):
                        print(f"LEAK: {name} = {str(names[name])[:40]}")
        return 0
