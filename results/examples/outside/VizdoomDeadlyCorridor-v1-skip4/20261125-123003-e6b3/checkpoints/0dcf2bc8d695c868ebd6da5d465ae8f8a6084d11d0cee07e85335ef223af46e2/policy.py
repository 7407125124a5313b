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


def groups(columns, gap):
    """First and last column of each run of columns with gaps of at most `gap`."""
    if len(columns) == 0:
        return []
    cuts = np.flatnonzero(np.diff(columns) > gap)
    starts = np.concatenate([[0], cuts + 1])
    ends = np.concatenate([cuts, [len(columns) - 1]])
    return [(int(columns[i]), int(columns[j])) for i, j in zip(starts, ends)]


def grey_levels(screen):
    """The level of pure grey pixels, 0 elsewhere."""
    r, g, b = (screen[:, :, i].astype(int) for i in range(3))
    return np.where((r == g) & (g == b), r, 0)


def find_monsters(screen, armour_counts=True):
    """Return (centre column, half width, pixels) of every standing monster."""
    # A corpse lies below the horizon, a standing monster reaches above it.
    part = screen[80 : HORIZON - 1]
    grey = grey_levels(part)
    mask = monster_mask(part)
    colour = mask.sum(axis=0)
    mask = mask | (grey >= 43)
    armour = (grey >= 43).sum(axis=0)
    dark = ((grey >= 11) & (grey <= 39)).sum(axis=0)
    above = colour + armour
    found = []
    for left, right in groups(np.flatnonzero(above), 4):
        cut = slice(left, right + 1)
        weight = above[cut].astype(float)
        # Smoke is grey too, but has no dark pixels.
        armoured = armour[cut].sum() >= 7 and dark[cut].sum() >= 0.3 * armour[cut].sum()
        if colour[cut].sum() < 5 and not armoured:
            continue
        if not armour_counts and colour[cut].sum() < max(5, 0.15 * armour[cut].sum()):
            continue
        centre = float((np.arange(left, right + 1) * weight).sum() / weight.sum())
        # The head's height above the horizon tells the distance: a body is as wide to each side as 1.3 such heights.
        rows = np.flatnonzero(mask[:, cut].any(axis=1))
        height = HORIZON - 80 - int(rows[0])
        half = (right - left + 1) / 2.0
        found.append((centre, max(half, min(height, 3.0 * half)), int(weight.sum())))
    return found


def find_weapon(screen):
    """Return (distance, way to the right) of a dropped weapon on the floor ahead, or None."""
    part = screen[130:236]
    grey = grey_levels(part) >= 39
    colour = monster_mask(part)
    grey[10:, 115:205] = False  # the gun in hand
    colour[10:, 115:205] = False
    best = None
    for left, right in groups(np.flatnonzero(grey.sum(axis=0) >= 1), 6):
        score = int(grey[:, left : right + 1].sum()) - 3 * int(colour[:, left : right + 1].sum())
        if score < 25 or (best is not None and score <= best[0]):
            continue
        rows = np.flatnonzero(grey[:, left : right + 1].any(axis=1)) + 130
        drop = float(rows[-1] - HORIZON + 1)
        best = (score, 41.0 * FOCAL / drop, 41.0 * ((left + right) / 2.0 - 159.5) / drop)
    return None if best is None else best[1:]


class Policy:
    """See, aim, shoot, walk."""

    def __init__(self, obs_space, action_space, env_meta):
        self.t = 0

    def reset(self, episode_index):
        self.t = 0
        self.heading = 0.0  # degrees to the left of the corridor's direction
        self.turned = 0  # steps turned in a row
        self.target = None  # the column where the target should be seen
        self.strafed = 0
        self.actions = []

    def turn_size(self):
        """Degrees that the next turning step makes."""
        return 7.03 if self.turned == 0 else (12.3 if self.turned == 1 else 14.06)

    def act(self, obs):
        action = self.choose(obs)
        # Turning to and fro without an end: walk instead.
        recent = self.actions[-5:] + [action]
        if len(recent) == 6 and all({a, b} == {LEFT, RIGHT} for a, b in zip(recent, recent[1:])):
            action = FORWARD
        self.actions.append(action)
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
        monsters = find_monsters(obs["screen"], self.t >= 30)  # none in armour in the first pair
        health = float(obs["gamevariables"][0])
        print(self.t, health, round(self.heading, 1), [(round(x), w, h) for x, w, h in monsters])
        if monsters:
            def score(m):
                value = abs(m[0] - 159.5 - PARAMETERS["side"]) - PARAMETERS["near"] * min(m[2], 150)
                if self.target is not None and abs(m[0] - self.target) < 16:
                    value -= PARAMETERS["stay"]
                return value

            x, half, size = min(monsters, key=score)
            dx = x - 159.5
            # Strafing to aim ends at a wall: shoot all the same when it hasn't helped.
            stuck = len(self.actions) >= 2 and all(a in (MOVE_LEFT, MOVE_RIGHT) for a in self.actions[-2:])
            allowed = PARAMETERS["tolerance"] * half + PARAMETERS["slack"]
            if abs(dx) <= min(22.0, max(2.0, allowed * (1.25 if stuck else 1.0))):
                self.target = x
                return ATTACK
            angle = math.degrees(math.atan2(dx, FOCAL))
            action = self.turn(angle)
            if action in (LEFT, RIGHT):  # where the target will be after the turn
                angle += self.turn_size() * (1 if action == LEFT else -1)
            self.target = 159.5 + FOCAL * math.tan(math.radians(max(-60.0, min(60.0, angle))))
            return action
        self.target = None
        if abs(self.heading) > 4:
            return self.turn(self.heading)
        weapon = find_weapon(obs["screen"]) if PARAMETERS["loot"] else None
        if weapon is not None and weapon[0] < 220 and abs(weapon[1]) > 16 and self.strafed < 10:
            self.strafed += 1
            return MOVE_RIGHT if weapon[1] > 0 else MOVE_LEFT
        self.strafed = max(0, self.strafed - 0.4)
        return FORWARD
