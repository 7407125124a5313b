import numpy as np


class Policy:
    """Probe: one actuator after the other."""

    def __init__(self, obs_space, action_space, env_meta):
        self.n = 30

    def reset(self, episode_index):
        self.t = 0
        self.e = episode_index

    def act(self, obs):
        a = np.zeros(30)
        if self.e == 0:
            k = (self.t - 20) // 20
            if 0 <= k < 8:
                a[k] = 0.4 if (self.t - 20) % 20 < 10 else -0.4
        else:
            k = (self.t - 20) // 8
            if 0 <= k < 22:
                a[8 + k] = 0.8 if (self.t - 20) % 8 < 5 else -0.8
        self.t += 1
        return a
