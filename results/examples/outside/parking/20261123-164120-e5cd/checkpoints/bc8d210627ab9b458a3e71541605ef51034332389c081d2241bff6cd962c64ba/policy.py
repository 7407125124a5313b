"""Plan the whole way at the first step with a model of the car, and refine the rest of it at every other step."""

import json
import math
from pathlib import Path

import numpy as np
from planner import refine, search

SETTINGS = json.loads(Path(__file__).with_name("parameters.json").read_text())


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.env_meta = env_meta

    def reset(self, episode_index):
        self.rng = np.random.default_rng(7)
        self.plan = np.zeros((0, 2))

    def act(self, obs):
        x, y, vx, vy, c, s = np.asarray(obs["observation"], float) * [100, 100, 5, 5, 1, 1]
        gx, gy, _, _, gc, gs = np.asarray(obs["desired_goal"], float) * [100, 100, 5, 5, 1, 1]
        start, goal = (x, y, math.atan2(s, c), vx * c + vy * s), (gx, gy, gc, gs)
        if len(self.plan) == 0:
            self.plan, cost, end, tops = search(self.rng, start, goal, SETTINGS)
            print(f"plan: cost {cost:.4f}, parked after {end}; islands {tops}")
            self.plan = self.plan[:end]
        else:
            self.plan, cost = refine(self.rng, start, goal, self.plan, SETTINGS)
        action, self.plan = self.plan[0], self.plan[1:]
        return action.astype(np.float32)
