"""P20: acts with invalid numbers: NaN, infinities, far too large ones

submission: ok
episodes: invalid_action
played: 9
"""

NUMBERS = [float("nan"), float("inf"), -float("inf"), 1e308, 5e-324, -1, 2, 2**63, 10**30]


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass

    def reset(self, episode_index):
        self.number = NUMBERS[episode_index % len(NUMBERS)]

    def act(self, obs):
        return self.number
