"""Follow the middle of the road that the image shows; as fast as the bends ahead allow."""

import json
from pathlib import Path

import numpy as np
from scipy import ndimage

import vision

P = json.loads((Path(__file__).parent / "parameters.json").read_text())
STEP = 1.5


def value_at(field, x, y):
    """Bilinear look-up of a metric grid; 0 outside."""
    cols = (np.asarray(x) - vision.X_MIN) / vision.CELL
    rows = (np.asarray(y) - vision.Y_MIN) / vision.CELL
    return ndimage.map_coordinates(field, [np.atleast_1d(rows), np.atleast_1d(cols)], order=1, mode="constant", cval=0.0)


def trace_road(dist):
    """Walk along the ridge of the distance to the edge of the road, from the car onward."""
    turns = np.radians(np.arange(-32, 33, 4))
    pos = np.array([0.0, -1.0])
    heading = 0.0  # 0 is straight ahead, positive to the right
    points = [pos]
    for i in range(45):
        cand = heading + turns * (1.6 if i < 3 else 1.0)
        near = np.stack([pos[0] + STEP * np.sin(cand), pos[1] + STEP * np.cos(cand)])
        far = np.stack([pos[0] + 2.6 * STEP * np.sin(cand), pos[1] + 2.6 * STEP * np.cos(cand)])
        gain = np.minimum(value_at(dist, *near), 6.0) + 1.0 * np.minimum(value_at(dist, *far), 6.0)
        best = int(np.argmax(gain - 0.8 * np.abs(turns)))
        if gain[best] < 2.0 and i > 3:
            break
        heading = cand[best]
        pos = near[:, best]
        points.append(pos)
        if not (vision.X_MIN + 1 < pos[0] < vision.X_MAX - 1 and pos[1] < vision.Y_MAX - 1 and pos[1] > -5):
            break
    return np.array(points)


class Policy:
    """Vision, a line, a steering and a speed."""

    def __init__(self, obs_space, action_space, env_meta):
        self.step = 0

    def reset(self, episode_index):
        self.step = 0
        self.speed = 0.0
        self.previous = None

    def act(self, obs):
        self.step += 1
        zoom = vision.scale_at(self.step)
        img = np.asarray(obs)
        self.speed = self.read_speed(img)
        if self.step < 25:
            return np.array([0.0, 0.5, 0.0], dtype=np.float32)
        road = vision.road_grid(img, zoom)
        dist = ndimage.distance_transform_edt(road) * vision.CELL
        line = trace_road(dist)
        if len(line) > 4:
            line[1:-1] = (line[:-2] + 2 * line[1:-1] + line[2:]) / 4
            line[1:-1] = (line[:-2] + 2 * line[1:-1] + line[2:]) / 4
        look = P["look_base"] + P["look_gain"] * self.speed
        d = np.hypot(line[:, 0], line[:, 1])
        ahead = np.nonzero((d >= look) & (np.arange(len(d)) > 1))[0]
        target = line[ahead[0]] if len(ahead) else line[-1]
        curvature = 2 * target[0] / max(4.0, target @ target)
        steer = np.clip(np.arctan(3.3 * curvature), -0.4, 0.4)
        v = self.allowed(line)
        gas = np.clip((v - self.speed) * 0.1, 0, 1)
        brake = np.clip((self.speed - v - 2) * 0.03, 0, 0.6)
        if self.step % 25 == 0:
            print(self.step, round(self.speed, 1), round(float(v), 1), len(line), np.round(target, 1), round(float(steer), 3))
        return np.array([steer, gas, brake], dtype=np.float32)

    def allowed(self, line):
        """The speed now from which every bend ahead can still be met."""
        if len(line) < 6:
            return 25.0
        seg = np.diff(line, axis=0)
        head = np.unwrap(np.arctan2(seg[:, 0], seg[:, 1]))
        s = np.concatenate([[0], np.cumsum(np.hypot(seg[:, 0], seg[:, 1]))])
        k = 3
        curv = np.abs(head[k:] - head[:-k]) / (k * STEP)
        at = s[k // 2 + 1: k // 2 + 1 + len(curv)]
        v_bend = np.sqrt(P["a_lat"] / np.maximum(curv, 1e-3))
        v_now = np.sqrt(v_bend**2 + 2 * P["a_brake"] * np.maximum(0, at - 3))
        end = np.sqrt(30.0**2 + 2 * P["a_brake"] * s[-1])
        return min(P["v_max"], v_now.min(), end)

    def read_speed(self, img):
        return vision.instruments(img) * 8.68
