"""Finds monsters by their colours, turns to them, shoots, and walks on when none is seen."""

import json
import math
import os

import numpy as np

NONE, RIGHT, LEFT, BACK, FORWARD, ATTACK, MOVE_RIGHT, MOVE_LEFT = range(8)
HORIZON = 121  # the row of the eye's height
FOCAL = 160.0  # pixels: 320 wide, 90 degrees

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "parameters.json")) as file:
    PARAMETERS = json.load(file)


def monster_mask(screen):
    """Pixels in clothes' and skin's colours, which walls, smoke, blood and the gun above the horizon don't have."""
    r, g, b = (screen[:, :, i].astype(int) for i in range(3))
    green = (g > r) & (g >= 15)
    blue = (b > r) & (b >= 11)
    skin = (r >= 103) & (g > 0.45 * r) & (b > 0.3 * r) & (r - b >= 15)
    yellow = (r > 140) & (g > 90) & (r - b >= 15)
    return green | blue | skin | yellow


def find_monsters(screen):
    """Return (centre column, half width, coloured pixels) of every standing monster."""
    # A corpse lies below the horizon, a standing monster reaches above it.
    above = monster_mask(screen[80 : HORIZON - 1]).sum(axis=0)
    columns = np.flatnonzero(above)
    found = []
    start = 0
    for k in range(1, len(columns) + 1):
        if k == len(columns) or columns[k] - columns[k - 1] > 4:
            left, right = int(columns[start]), int(columns[k - 1])
            start = k
            weight = above[left : right + 1].astype(float)
            if weight.sum() < 5:
                continue
            centre = float((np.arange(left, right + 1) * weight).sum() / weight.sum())
            found.append((centre, (right - left + 1) / 2.0, int(weight.sum())))
    return found


class Policy:
    """See, aim, shoot, walk."""

    def __init__(self, obs_space, action_space, env_meta):
        self.t = 0

    def reset(self, episode_index):
        self.t = 0
        self.heading = 0.0  # degrees to the left of the corridor's direction
        self.turned = 0  # steps turned in a row
        self.target = None

    def turn_size(self):
        """Degrees that the next turning step makes."""
        return 7.03 if self.turned == 0 else (12.3 if self.turned == 1 else 14.06)

    def act(self, obs):
        action = self.choose(obs)
        if action in (LEFT, RIGHT):
            self.heading += self.turn_size() * (1 if action == LEFT else -1)
            self.turned += 1
        else:
            self.turned = 0
        self.t += 1
        return action

    def turn(self, angle):
        """Turn by an angle (to the right positive), without going far beyond it."""
        size = self.turn_size()
        if abs(angle) < 0.5 * size:
            return MOVE_RIGHT if angle > 0 else MOVE_LEFT
        return RIGHT if angle > 0 else LEFT

    def choose(self, obs):
        monsters = find_monsters(obs["screen"])
        health = float(obs["gamevariables"][0])
        print(self.t, health, round(self.heading, 1), [(round(x), w, h) for x, w, h in monsters])
        if monsters:
            side = PARAMETERS["side"]
            x, half, height = min(monsters, key=lambda m: abs(m[0] - 159.5 - side) - PARAMETERS["near"] * min(m[2], 100))
            dx = x - 159.5
            if abs(dx) <= max(2.0, PARAMETERS["tolerance"] * half):
                return ATTACK
            return self.turn(math.degrees(math.atan2(dx, FOCAL)))
        if abs(self.heading) > 4:
            return self.turn(self.heading)
        return FORWARD
