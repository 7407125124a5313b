"""Scripted first look: turn both ways, shoot, walk."""

PLAN = [0] * 2 + [2] * 6 + [5] * 6 + [1] * 12 + [5] * 6 + [2] * 6 + [4] * 60


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.t = 0

    def reset(self, episode_index):
        self.t = 0

    def act(self, obs):
        a = PLAN[self.t % len(PLAN)]
        self.t += 1
        return a
