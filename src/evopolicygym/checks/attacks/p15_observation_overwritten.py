"""P15: overwrites the observations it is given and returns one as its action

submission: ok
episodes: invalid_action
"""


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.kept = []

    def reset(self, episode_index):
        pass

    def act(self, obs):
        obs[...] = 9e9
        for old in self.kept:
            old[...] = -9e9
        self.kept.append(obs)
        return obs if len(self.kept) == 4 else 0
