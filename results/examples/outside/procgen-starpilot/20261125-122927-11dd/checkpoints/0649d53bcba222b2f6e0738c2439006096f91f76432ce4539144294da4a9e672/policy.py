"""A probe: each letter key, then moves, to see what they do."""


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.t = 0

    def reset(self, episode_index):
        self.plan = [4] * 2 + [9] * 4 + [10] * 4 + [11] * 4 + [12] * 4 + [13] * 4 + [14] * 4
        self.plan += [7] * 4 + [5] * 4 + [3] * 4 + [1] * 4
        if episode_index % 2:
            self.plan = [4] * 2 + [7] * 5 + [4] * 3 + [5] * 8 + [4] * 3 + [3] * 16 + [1] * 8

    def act(self, obs):
        self.t += 1
        return self.plan[self.t - 1] if self.t <= len(self.plan) else 9
