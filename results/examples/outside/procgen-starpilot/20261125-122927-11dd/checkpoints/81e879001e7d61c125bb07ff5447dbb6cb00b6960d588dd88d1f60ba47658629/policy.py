"""Finds moving things against the scrolled background, dodges them, lines up with targets and fires."""

import json
from pathlib import Path

import numpy as np
from scipy import ndimage

MOVES = {a: (a // 3 - 1, 1 - a % 3) for a in range(9)}  # action: (dx, dy), dy downwards
FIRE = 9
BULLET = 3.3  # pixels a step of our shots
P = json.loads((Path(__file__).parent / "parameters.json").read_text())


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.frames, self.shots, self.tracks = [], [], []
        self.pos = None
        self.vel = np.zeros(2)
        self.last = 4
        self.t = 0

    def reset(self, episode_index):
        pass

    def act(self, obs):
        img = obs.astype(int)
        self.frames = [*self.frames[-10:], img]
        moving = self.moving(img)
        self.find_ship(img, moving)
        flat, turret = self.solid(img)
        self.follow(img, moving & ~flat)
        action = self.choose(flat, turret)
        if action == FIRE:
            self.shots.append((self.t, self.pos[0], self.pos[1]))
        self.shots = self.shots[-40:]
        self.last = action
        self.t += 1
        return action

    def moving(self, img):
        """Pixels that differ from the background: it moves 4 pixels to the left in 5 steps."""
        mask = np.zeros((64, 64), bool)
        if len(self.frames) > 5:
            old = self.frames[-6]
            mask[:, :60] = np.abs(img[:, :60] - old[:, 4:]).sum(-1) > P["diff"]
            if len(self.frames) > 10:  # a ghost of what was there 5 steps ago does not differ here
                mask[:, :56] &= np.abs(img[:, :56] - self.frames[-11][:, 8:]).sum(-1) > P["diff"]
            r, g, b = img[:, 60:, 0], img[:, 60:, 1], img[:, 60:, 2]
            mask[:, 60:] = (r > 200) & (b < 90) & (g > 60)
        return mask

    def find_ship(self, img, moving):
        blue = np.abs(img - (54, 187, 245)).sum(-1) < 40
        if self.pos is None:
            ys, xs = np.nonzero(blue)
            self.pos = np.array([xs.mean() + 1, ys.mean()]) if len(xs) else np.array([15.0, 32.0])
            return
        guess = self.pos + self.vel
        ys, xs = np.mgrid[0:64, 0:64]
        near = (np.abs(xs - guess[0]) < 4) & (np.abs(ys - guess[1]) < 4)
        cold = img[..., 2] + 20 >= img[..., 0]
        seen = near & cold & (moving if moving.any() else blue)
        dx, dy = MOVES.get(self.last, (0, 0))
        new = guess
        if seen.sum() >= 2:
            new = 0.3 * guess + 0.7 * np.array([xs[seen].mean(), ys[seen].mean()])
        self.vel = 0.4 * self.vel + 0.6 * 2.2 * np.array([dx, dy])
        self.pos = np.clip(new, 1, 62)

    def solid(self, img):
        """Flat bright areas: obstacles (grey, brown), and turrets (yellow, blue, red boxes)."""
        spread = np.max([ndimage.maximum_filter(img[..., c], 3) - ndimage.minimum_filter(img[..., c], 3) for c in range(3)], axis=0)
        core = (spread < 6) & (img.max(-1) > 110)
        label, n = ndimage.label(core)
        for i, size in enumerate(ndimage.sum(core, label, range(1, n + 1)), 1):
            if size < 2:
                core[label == i] = False
        flat = ndimage.binary_dilation(core, np.ones((3, 3)))
        box = (img.max(-1) - img.min(-1) > 140) & flat
        return flat, box

    def follow(self, img, mask):
        """Blobs of moving pixels, each with a velocity from its nearest predecessor."""
        mask = mask.copy()
        x, y = np.round(self.pos).astype(int)
        mask[max(0, y - 2):y + 3, max(0, x - 2):x + 3] = False
        hot = (img[..., 0] > 170) & (img[..., 2] < 140)
        for t, sx, sy in self.shots:  # our own shots
            bx = int(sx + BULLET * (self.t - t))
            row = max(0, int(round(sy)) - 1)
            part = slice(max(0, bx - 4), max(0, bx + 6))
            mask[row:row + 3, part] &= ~hot[row:row + 3, part]
        label, n = ndimage.label(mask, np.ones((3, 3)))
        tracks = []
        sizes = ndimage.sum(mask, label, range(1, n + 1))
        for (cy, cx), size, box in zip(ndimage.center_of_mass(mask, label, range(1, n + 1)), sizes, ndimage.find_objects(label)):
            here = np.array([cx, cy])
            best, dist = None, 5.0
            for track in self.tracks:
                d = np.abs(track["p"] + track["v"] - here).sum()
                if d < dist:
                    best, dist = track, d
            if best:
                v = here - best["p"] if best["age"] == 0 else 0.5 * best["v"] + 0.5 * (here - best["p"])
                tracks.append({"p": here, "v": v, "age": best["age"] + 1, "size": max(size, 0.7 * best["size"])})
            else:
                tracks.append({"p": here, "v": np.zeros(2), "age": 0, "size": size})
        self.tracks = tracks

    def choose(self, flat, turret):
        goal_x, goal_y, fire = self.target(turret)
        wide = ndimage.distance_transform_edt(~flat) if flat.any() else np.full((64, 64), 99.0)
        best, best_cost = 4, 1e9
        for a, (dx, dy) in MOVES.items():
            for k in (1, 2, 4, 7):
                pos, vel, cost = self.pos.copy(), self.vel.copy(), 0.0
                for s in range(1, 14):
                    pos = np.clip(pos + vel, 1, 62)
                    vel = 0.4 * vel + 0.6 * 2.2 * np.array([dx, dy]) * (s <= k)
                    gap = wide[int(pos[1]), min(63, int(pos[0] + 0.8 * s))]
                    if gap < 3.5:
                        cost += P["wall"] * (3.5 - gap) / s ** 0.5
                    for track in self.tracks:
                        if track["age"] < 1 and s > 5:
                            continue
                        d = np.abs(track["p"] + track["v"] * s - pos).max()
                        r = P["radius"] + 0.5 * min(track["size"], 30) ** 0.5
                        if d < r:
                            cost += P["hit"] * (0.3 + r - d) / s ** 0.5
                    if s in (3, 6, 9):
                        cost += abs(pos[1] - goal_y) + 0.5 * abs(pos[0] - goal_x)
                cost += 0.3 * k * (a != 4)
                if cost < best_cost:
                    best, best_cost = a, cost
                if a == 4:
                    break
        return FIRE if best == 4 else best

    def target(self, turret):
        """The place to be: on the row of the nearest target ahead."""
        options = []
        for track in self.tracks:
            ahead = track["p"][0] - self.pos[0]
            if track["age"] > 1 and track["size"] >= 4 and ahead > 4:
                y = track["p"][1] + track["v"][1] * ahead / max(1, BULLET - track["v"][0])
                if 0 < y < 63:
                    options.append((abs(y - self.pos[1]) + 0.4 * ahead, y))
        label, n = ndimage.label(turret)
        for cy, cx in ndimage.center_of_mass(turret, label, range(1, n + 1)):
            if cx > self.pos[0] + 5:
                options.append((abs(cy - self.pos[1]) + 0.4 * (cx - self.pos[0]), cy))
        return (P["home"], min(options)[1], True) if options else (P["home"], 32.0, False)
