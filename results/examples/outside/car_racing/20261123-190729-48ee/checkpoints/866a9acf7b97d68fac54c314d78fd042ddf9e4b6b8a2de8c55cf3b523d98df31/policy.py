"""Measure the motion by vision, plan a line through the road that the image shows, follow it within the grip."""

import json
from pathlib import Path

import numpy as np
from scipy import ndimage

import odometry
import planner
import vision
import worldmap

P = json.loads((Path(__file__).parent / "parameters.json").read_text())
WHEELBASE = 3.4


class Policy:
    """Vision, a line, a steering and a speed."""

    def __init__(self, obs_space, action_space, env_meta):
        self.step = 0

    def reset(self, episode_index):
        self.step = 0
        self.eye = odometry.Odometry()
        self.map = worldmap.WorldMap()
        self.motion = np.zeros(3)
        self.pose = np.zeros(3)  # right, ahead, and heading, all from the start
        self.route = np.array([[0.0, y] for y in (-6.0, -4.5, -3.0, -1.5, 0.0, 1.5)])  # in the frame of the start
        self.line = None

    def act(self, obs):
        self.step += 1
        img = np.asarray(obs)
        self.sense(img)
        steer, v_goal, need = self.plan(img)
        gas, brake = self.pedals(v_goal, need)
        if self.step % 10 == 0:
            print(self.step, "v", np.round(self.motion * 50, 1), "goal", round(v_goal, 1), "n", len(self.line), "LOST" if self.lost else "",
                  "need", round(need),
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

    def locate(self, img):
        """Carry the pose on and lay the image over the map."""
        right, ahead, turn = self.motion
        self.fresh = self.step < 52 or self.step % 3 == 0
        x, y = worldmap.to_world(self.pose, right, ahead)
        self.pose = np.array([x, y, self.pose[2] + turn])
        if self.fresh:
            self.map.add(vision.grass_image(img, self.zoom), self.pose, self.zoom)

    def middle(self):
        """The middle of the road from a little behind the car onward, in the car's frame, and the point beside the car."""
        old = np.stack(worldmap.to_car(self.pose, self.route[:, 0], self.route[:, 1]), axis=1)
        if not self.fresh and self.step > 3:
            return old, int(np.argmin(np.hypot(old[:24, 0], old[:24, 1])))
        near = int(np.argmin(np.hypot(old[:24, 0], old[:24, 1])))
        back = max(0, min(near - 3, len(old) - 3))
        seg = old[back + 2] - old[back]
        grass = self.map.look(self.pose, vision.GRID_X, vision.GRID_Y)
        dist = ndimage.distance_transform_edt(grass < 0.5) * vision.CELL
        centre = planner.smooth(planner.trace_road(dist, old[back], np.arctan2(seg[0], seg[1])), 3)
        if len(centre) < 8:
            centre = old[back:]
        else:
            self.route = np.stack(worldmap.to_world(self.pose, centre[:, 0], centre[:, 1]), axis=1)
        return centre, int(np.argmin(np.hypot(centre[:24, 0], centre[:24, 1])))

    def plan(self, img):
        """Steering, the speed to have now and the braking needed."""
        self.locate(img)
        centre, beside = self.middle()
        away = np.hypot(*centre[beside])
        seg = centre[min(beside + 1, len(centre) - 1)] - centre[max(0, beside - 1)]
        slope = abs(np.arctan2(seg[0], seg[1]))
        self.lost = bool(away > 9.0 or slope > 0.9 or len(centre) - beside < 6)
        if self.lost:
            self.line = line = centre[beside:]
            target = centre[min(beside + 5, len(centre) - 1)]
            v_goal, need = P["v_lost"], 0.0
            if self.speed > v_goal + 5:
                need = 80.0
        else:
            self.line = line = planner.racing_line(centre, beside, planner.HALF_WIDTH - P["margin"], int(P["most"]), int(P["reweight"]))
            look = P["look_base"] + P["look_gain"] * self.speed
            far = np.nonzero(np.hypot(line[:, 0], line[:, 1]) >= look)[0]
            target = line[far[0]] if len(far) else line[-1]
            v_goal, need = planner.speeds(line, self.speed, P, P["v_end"])
        curvature = 2 * target[0] / max(9.0, target @ target)
        if target[1] < 0:
            curvature = 0.2 * np.sign(target[0])
        wanted = np.clip(self.speed * curvature, -5, 5)
        steer = np.arctan(WHEELBASE * curvature) + P["spin_gain"] * (wanted - self.spin)
        return float(np.clip(steer, -0.4, 0.4)), v_goal, need

    def pedals(self, v_goal, need):
        """Gas and brake within what the tyres have left."""
        lack = v_goal - self.speed
        used = min(1.0, abs(self.speed * self.spin) / P["grip"])
        left = np.sqrt(1 - used**2)
        drift = np.arctan2(self.slide, max(5.0, self.speed)) - 1.65 * self.spin / max(10.0, self.speed)
        gas = np.clip(0.15 * lack, 0, 1) * np.clip(1.2 * left - 0.2, 0, 1)
        if abs(drift) > 0.1:
            gas *= 0.2
        brake = 0.0
        if need > 0.75 * P["a_brake"]:
            gas = 0.0
            brake = np.clip(need / P["brake_force"], 0, max(0.05, 0.5 * left))
        return float(gas), float(brake)
