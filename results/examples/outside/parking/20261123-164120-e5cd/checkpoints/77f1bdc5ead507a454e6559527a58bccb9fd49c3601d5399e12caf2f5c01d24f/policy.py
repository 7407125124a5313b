"""Probe: go to and fro with steering drawn per block, to learn how the car answers."""

import random

import numpy as np


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.env_meta = env_meta

    def reset(self, episode_index):
        self.rng = np.random.default_rng(random.getrandbits(64))
        self.t = 0
        self.sign = 1.0
        self.accel, self.steer = 0.0, 0.0

    def act(self, obs):
        block = self.t // 4
        if self.t % 4 == 0:
            # + - - + keeps the car near its start
            self.accel = (1, -1, -1, 1)[block % 4] * self.rng.uniform(0.3, 1.0)
            self.steer = self.rng.uniform(-1, 1)
        self.t += 1
        if self.t == 1:
            return np.zeros(2, np.float32)
        return np.array([self.accel, self.steer], np.float32)
