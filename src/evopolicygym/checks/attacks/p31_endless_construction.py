"""P31: never ends being constructed

submission: init_timeout
episodes: ok
played: 1
"""


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        while True:
            pass
