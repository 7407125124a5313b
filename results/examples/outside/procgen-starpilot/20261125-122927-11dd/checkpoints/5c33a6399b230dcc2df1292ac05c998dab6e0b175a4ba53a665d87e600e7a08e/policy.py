"""Finds moving things against the scrolled background, dodges them, lines up with targets and fires."""

import json
from pathlib import Path

import numpy as np
from scipy import ndimage

MOVES = {a: (a // 3 - 1, 1 - a % 3) for a in range(9)}  # action: (dx, dy), dy downwards
FIRE, BACK = 9, 10  # shots to the right and to the left
SLOW, PUSH = 0.48, 1.33  # the ship's motion, fitted
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
        self.frames = [*self.frames[-15:], img]
        moving = self.moving(img)
        self.find_ship(img, moving)
        flat, turret = self.solid(img)
        self.follow(img, moving & ~flat)
        action = self.choose(flat, turret)
        if action in (FIRE, BACK):
            self.shots.append((self.t, self.pos[0], self.pos[1], 1 if action == FIRE else -1))
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
            if len(self.frames) > 15:
                parts = [self.frames[-1 - k][:, 4 * k // 5:][:, :52] for k in (5, 10, 15)]
                mask[:, :52] = np.abs(img[:, :52] - np.median(parts, axis=0)).sum(-1) > P["diff"]
            r, g, b = img[:, 60:, 0], img[:, 60:, 1], img[:, 60:, 2]
            mask[:, 60:] = (r > 200) & (b < 90) & (g > 60)
        return mask

    def find_ship(self, img, moving):
        blue = np.abs(img - (54, 187, 245)).sum(-1) < 40
        if self.pos is None:
            ys, xs = np.nonzero(blue)
            self.pos = np.array([xs.mean() + 1, ys.mean()]) if len(xs) else np.array([15.0, 32.0])
            return
        self.vel = SLOW * self.vel + PUSH * np.array(MOVES.get(self.last, (0, 0)))
        guess = self.pos + self.vel
        ys, xs = np.mgrid[0:64, 0:64]
        near = (np.abs(xs - guess[0]) < 4) & (np.abs(ys - guess[1]) < 4)
        cold = img[..., 2] + 20 >= img[..., 0]
        seen = near & cold & (moving if moving.any() else blue)
        new = guess
        if seen.sum() < 2:  # lost: look for its blue anywhere
            far = blue & moving
            if far.sum() >= 1:
                label, n = ndimage.label(far, np.ones((3, 3)))
                places = [np.array(p)[::-1] for p in ndimage.center_of_mass(far, label, range(1, n + 1))]
                new = min(places, key=lambda p: np.abs(p - guess).sum())
        else:
            new = 0.3 * guess + 0.7 * np.array([xs[seen].mean(), ys[seen].mean()])
        self.pos = np.clip(new, 1, 62)

    def solid(self, img):
        """Flat bright areas: obstacles (grey, brown), and turrets (yellow, blue, red boxes)."""
        spread = np.max([ndimage.maximum_filter(img[..., c], 3) - ndimage.minimum_filter(img[..., c], 3) for c in range(3)], axis=0)
        core = (spread < 6) & (img.max(-1) > 110)
        label, n = ndimage.label(core)
        for i, size in enumerate(ndimage.sum(core, label, range(1, n + 1)), 1):
            if size < 2:
                core[label == i] = False
        flat = ndimage.binary_dilation(core, np.ones((3, 3)), iterations=2)
        r, g, b = img[..., 0], img[..., 1], img[..., 2]
        box = (r > 195) & (g > 155) & (b < 130) & (r - b > 120)
        box |= np.abs(img - (50, 170, 230)).sum(-1) < 70
        label, n = ndimage.label(box)
        xs, ys = np.round(self.pos)
        for i, part in enumerate(ndimage.find_objects(label), 1):
            high, wide = part[0].stop - part[0].start, part[1].stop - part[1].start
            here = part[0].start - 2 <= ys <= part[0].stop + 1 and part[1].start - 2 <= xs <= part[1].stop + 1
            if not (3 <= high <= 7 and wide <= 7 and high * wide >= 9) or (here and high * wide < 16):
                box[label == i] = False
        return flat | ndimage.binary_dilation(box), box

    def follow(self, img, mask):
        """Blobs of moving pixels, each with a velocity from its nearest predecessor."""
        mask = mask.copy()
        x, y = np.round(self.pos).astype(int)
        mask[max(0, y - 2):y + 3, max(0, x - 2):x + 3] = False
        hot = ((img[..., 0] > 170) & (img[..., 2] < 140) & (img[..., 1] > 80)).astype(float)
        shots = [(sx + way * BULLET * (self.t - t), sy, way) for t, sx, sy, way in self.shots]
        label, n = ndimage.label(mask, np.ones((3, 3)))
        tracks = []
        sizes = ndimage.sum(mask, label, range(1, n + 1))
        heat = ndimage.mean(hot, label, range(1, n + 1)) if n else []
        for (cy, cx), size, warm in zip(ndimage.center_of_mass(mask, label, range(1, n + 1)), sizes, heat):
            here = np.array([cx, cy])
            best, dist = None, 5.0
            for track in self.tracks:
                d = np.abs(track["p"] + track["v"] - here).sum()
                if d < dist:
                    best, dist = track, d
            if best:
                v = here - best["p"] if best["age"] == 0 else 0.5 * best["v"] + 0.5 * (here - best["p"])
                best["used"] = True
                tracks.append({"p": here, "v": v, "age": best["age"] + 1, "size": max(size, 0.7 * best["size"])})
            else:
                tracks.append({"p": here, "v": np.zeros(2), "age": 0, "size": size})
            track = tracks[-1]
            track["hot"] = warm > 0.6
            # ours: near where one of our shots should be, and moving its way
            track["own"] = warm > 0.6 and any(
                abs(cy - sy) < 2.5 and abs(cx - sx) < 6 and (track["age"] == 0 or track["v"][0] * way > 1)
                for sx, sy, way in shots
            )
            track["blast"] = warm > 0.6 and size > 9
            track["lost"] = 0
        for track in self.tracks:  # unseen for a moment
            p = track["p"] + track["v"]
            if "used" not in track and track["age"] >= 2 and track["lost"] < 3 and not track["own"] and not track["blast"]:
                if 0 < p[0] < 63 and 0 < p[1] < 63:
                    tracks.append({**track, "p": p, "lost": track["lost"] + 1})
        self.tracks = tracks

    def choose(self, flat, turret):
        goal_x, goal_y, fire = self.target(turret)
        wide = ndimage.distance_transform_edt(~flat) if flat.any() else np.full((64, 64), 99.0)
        room = ndimage.distance_transform_edt(~turret) if turret.any() else np.full((64, 64), 99.0)
        threats = [track for track in self.tracks if not track["own"] and not track["blast"]]
        best, best_cost = 4, 1e9
        for a, (dx, dy) in MOVES.items():
            for k in (1, 2, 4, 7):
                pos, vel, cost = self.pos.copy(), self.vel.copy(), 0.0
                for s in range(1, 14):
                    vel = SLOW * vel + PUSH * np.array([dx, dy]) * (s <= k)
                    pos = np.clip(pos + vel, 1, 62)
                    gap = wide[int(pos[1]), min(63, int(pos[0] + 0.8 * s))]
                    if gap < P["gap"]:
                        cost += P["wall"] * (P["gap"] - gap) / s ** 0.5
                    for track in threats:
                        if track["age"] < 1 and s > 5:
                            continue
                        d = np.abs(track["p"] + track["v"] * s - pos).max()
                        r = P["radius"] + 0.5 * min(track["size"], 30) ** 0.5
                        if d < r:
                            cost += P["hit"] * (0.3 + r - d) / s ** 0.5
                    if s in (3, 6, 9):
                        for track in threats:
                            if not track["hot"]:
                                d = np.hypot(*(track["p"] + track["v"] * s - pos))
                                cost += P["near"] * max(0.0, P["far"] - d)
                        d = room[int(pos[1]), min(63, int(pos[0] + 0.8 * s))]
                        cost += P["near"] * max(0.0, P["far"] - d)
                        cost += abs(pos[1] - goal_y) + 0.5 * abs(pos[0] - goal_x)
                cost += 0.3 * k * (a != 4)
                if a == 4 and fire != 4 and self.t % P["every"] == 0:
                    cost -= P["fire"]
                if cost < best_cost:
                    best, best_cost = a, cost
                if a == 4:
                    break
        if best == 4 and self.t % P["every"] == 0:
            return fire
        return best

    def target(self, turret):
        """The place to be, on the row of the nearest target, and the key to press there."""
        options = []
        for track in self.tracks:
            if track["age"] < 2 or track["hot"] or track["size"] < 4:
                continue
            ahead = track["p"][0] - self.pos[0]
            way = 1 if ahead > 0 else -1
            y = track["p"][1] + track["v"][1] * abs(ahead) / max(1, BULLET - way * track["v"][0])
            if abs(ahead) > 4 and 0 < y < 63:
                options.append((abs(y - self.pos[1]) + 0.4 * abs(ahead) + 10 * (way < 0), y, FIRE if way > 0 else BACK))
        label, n = ndimage.label(turret)
        for cy, cx in ndimage.center_of_mass(turret, label, range(1, n + 1)):
            if cx > self.pos[0] + 5:
                options.append((abs(cy - self.pos[1]) + 0.4 * (cx - self.pos[0]), cy, FIRE))
        goal = min(options)[1] if options else 32.0
        row = [option for option in options if abs(option[1] - self.pos[1]) < P["row"]]
        return P["home"], goal, min(row)[2] if row else 4
