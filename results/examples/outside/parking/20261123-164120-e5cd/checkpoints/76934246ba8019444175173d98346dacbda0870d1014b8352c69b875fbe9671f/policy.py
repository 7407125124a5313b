"""Follow the goal's axis nose first; back up when the goal can't be reached in one sweep."""

import json
import math
from pathlib import Path

import numpy as np

PARAMETERS = json.loads(Path(__file__).with_name("parameters.json").read_text())


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.env_meta = env_meta

    def reset(self, episode_index):
        self.backing = False

    def act(self, obs):
        x, y, vx, vy, c, s = np.asarray(obs["observation"], float) * [100, 100, 5, 5, 1, 1]
        gx, gy, _, _, gc, gs = np.asarray(obs["desired_goal"], float) * [100, 100, 5, 5, 1, 1]
        side = math.copysign(1.0, gs)
        # mirrored so that the goal always lies in the direction +y
        ahead = (gy - y) * side
        aside = gx - x  # > 0: the axis lies to +x
        heading = math.atan2(s * side, c)
        v = vx * c + vy * s
        error = wrap(math.pi / 2 - heading)
        room = PARAMETERS["back_ratio"] * (ahead + 4.0)
        blocked = abs(aside) > room or abs(error) > 1.8
        near_wall = y * side < -15
        if self.backing:
            self.backing = (abs(aside) > 0.6 * room or abs(error) > 1.2) and not near_wall
        else:
            self.backing = blocked and not near_wall
        lean = min(max(PARAMETERS["lateral_gain"] * aside, -1.2), 1.2)
        if self.backing:
            # in reverse the car must lean the other way to come nearer to the axis
            turn = wrap(math.pi / 2 + lean - heading)
            target, steer = -PARAMETERS["speed"], -PARAMETERS["heading_gain"] * turn
        else:
            turn = wrap(math.pi / 2 - lean - heading)
            target, steer = PARAMETERS["speed"], PARAMETERS["heading_gain"] * turn
        return np.array([min(max(target - v, -1), 1), min(max(steer * side, -1), 1)], np.float32)


def wrap(angle):
    return (angle + math.pi) % (2 * math.pi) - math.pi
