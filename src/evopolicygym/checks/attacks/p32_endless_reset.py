"""P32: never ends being reset

submission: ok
episodes: timeout
played: 1
"""


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass

    def reset(self, episode_index):
        while True:
            pass

    def act(self, obs):
        return 0
