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
    """Pixels in colours that walls, floor and blood don't have."""
    r, g, b = (screen[:, :, i].astype(int) for i in range(3))
    grey = (r == g) & (g == b) & (r >= 11) & (r != 27) & (r != 35)
    green = g > r
    blue = b > r
    skin = (r >= 95) & (g > r // 2) & (b > r // 3)
    return grey | green | blue | skin


def find_monsters(screen):
    """Return (centre column, half width, height) of every standing monster."""
    mask = monster_mask(screen)
    above = mask[60:HORIZON].sum(axis=0)  # a corpse lies below the horizon
    below = mask[HORIZON : HORIZON + 30].sum(axis=0)  # a puff of smoke has no legs
    columns = np.flatnonzero((above >= 1) & (above + below >= 3))
    found = []
    start = 0
    for k in range(1, len(columns) + 1):
        if k == len(columns) or columns[k] - columns[k - 1] > 4:
            group = columns[start:k]
            start = k
            left, right = group[0], group[-1]
            up = int(above[left : right + 1].sum())
            down = int(below[left : right + 1].sum())
            if up < 4 or down < 4:
                continue
            weight = (above + below)[left : right + 1].astype(float)
            centre = float((np.arange(left, right + 1) * weight).sum() / weight.sum())
            rows = np.flatnonzero(mask[60:190, left : right + 1].any(axis=1))
            found.append((centre, (right - left + 1) / 2.0, int(rows[-1] - rows[0] + 1)))
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
            x, half, height = min(monsters, key=lambda m: abs(m[0] - 159.5 - side) - PARAMETERS["near"] * m[2])
            dx = x - 159.5
            if abs(dx) <= max(2.0, PARAMETERS["tolerance"] * half):
                return ATTACK
            return self.turn(math.degrees(math.atan2(dx, FOCAL)))
        if abs(self.heading) > 4:
            return self.turn(self.heading)
        return FORWARD
