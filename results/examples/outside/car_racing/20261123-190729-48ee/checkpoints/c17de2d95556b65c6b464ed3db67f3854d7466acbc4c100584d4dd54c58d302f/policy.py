"""Measure the motion by vision, plan a line through the road that the image shows, follow it within the grip."""

import json
from pathlib import Path

import numpy as np
from scipy import ndimage

import odometry
import planner
import vision

P = json.loads((Path(__file__).parent / "parameters.json").read_text())
WHEELBASE = 3.4


class Policy:
    """Vision, a line, a steering and a speed."""

    def __init__(self, obs_space, action_space, env_meta):
        self.step = 0

    def reset(self, episode_index):
        self.step = 0
        self.eye = odometry.Odometry()
        self.motion = np.zeros(3)
        self.line = None

    def act(self, obs):
        self.step += 1
        img = np.asarray(obs)
        self.sense(img)
        steer, v_goal = self.plan(img)
        gas, brake = self.pedals(v_goal)
        if self.step % 10 == 0:
            print(self.step, "v", np.round(self.motion * 50, 1), "goal", round(v_goal, 1), "n", len(self.line),
                  "act", round(float(steer), 2), round(float(gas), 2), round(float(brake), 2))
        return np.array([steer, gas, brake], dtype=np.float32)

    def sense(self, img):
        """Speed forward and to the right, and rotation, all by overlaying images."""
        self.zoom = vision.scale_at(self.step)
        self.bars = vision.instruments(img)
        guess = self.motion.copy()
        guess[2] = self.bars[3] / 50
        self.motion = self.eye.move(img, self.zoom, guess)
        if self.step < 50:
            self.motion[0] = 0.0
        self.slide, self.speed, self.spin = self.motion * 50
        self.speed = max(0.0, self.speed)

    def plan(self, img):
        """Steering, and the speed to have now."""
        road = vision.road_grid(img, self.zoom)
        dist = ndimage.distance_transform_edt(road) * vision.CELL
        centre = planner.trace_road(dist)
        if len(centre) < 6:
            self.line = centre
            target = centre[-1]
            v_goal = 20.0
        else:
            centre = planner.smooth(centre, 3)
            self.line = line = planner.racing_line(centre, planner.HALF_WIDTH - P["margin"])
            look = P["look_base"] + P["look_gain"] * self.speed
            far = np.nonzero(np.hypot(line[:, 0], line[:, 1]) >= look)[0]
            target = line[far[0]] if len(far) else line[-1]
            v_goal = planner.speeds(line, P["a_lat"], P["a_brake"], P["v_end"], P["v_max"])
        curvature = 2 * target[0] / max(9.0, target @ target)
        wanted = np.clip(self.speed * curvature, -5, 5)
        steer = np.arctan(WHEELBASE * curvature) + P["spin_gain"] * (wanted - self.spin)
        return float(np.clip(steer, -0.4, 0.4)), v_goal

    def pedals(self, v_goal):
        """Gas and brake within what the tyres have left."""
        lack = v_goal - self.speed
        used = min(1.0, abs(self.speed * self.spin) / 190.0)
        left = np.sqrt(1 - used**2)
        drift = np.arctan2(self.slide, max(5.0, self.speed)) - 1.65 * self.spin / max(10.0, self.speed)
        gas = np.clip(0.15 * lack, 0, 1) * np.clip(1.2 * left - 0.2, 0, 1)
        if abs(drift) > 0.1:
            gas *= 0.2
        brake = np.clip(-lack * 15 / 1050, 0, 0.17 * left)
        return float(gas), float(brake)
