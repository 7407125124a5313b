"""P21: acts with values that are not numbers: None, strings, sets, odd arrays

submission: ok
episodes: invalid_action
played: 18
"""

import numpy as np

VALUES = [
    *(None, "1", b"\1", {"action": 0}, [[0.0]] * 3, [], 1 + 2j, True, object(), lambda: 0, range(3), {1, 2}),
    *(np.array("x"), np.zeros(0), np.array([None]), np.zeros((2, 2)), np.bool_(1), "x" * 1_000_000),
]


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass

    def reset(self, episode_index):
        self.value = VALUES[episode_index % len(VALUES)]

    def act(self, obs):
        return self.value
