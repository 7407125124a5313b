"""P57: raises errors with invalid messages: lone surrogates, escapes, many lines

submission: ok
episodes: error
"""


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        raise ValueError("\ud800, \udfff \x1b]0;owned\x07 \u202e\n" * 20)
