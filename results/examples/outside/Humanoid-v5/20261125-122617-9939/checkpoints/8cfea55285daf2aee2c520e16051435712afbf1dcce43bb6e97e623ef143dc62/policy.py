"""Walking by hand: a capture point chooses where to step, joint PD does the rest."""

import json
import math
from pathlib import Path

import numpy as np

PARAMS = json.loads((Path(__file__).parent / "parameters.json").read_text())

# Largest torque per unit of action: abdomen y z x, right hip x z y, knee, left the same, arms.
GEAR = np.array([100, 100, 100, 100, 100, 300, 200, 100, 100, 300, 200, 25, 25, 25, 25, 25, 25.0])
# Position of each actuated joint in the observation (its velocity is 23 further).
JOINT = np.array([6, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21])
THIGH, SHIN = 0.383, 0.37
HIP_X, HIP_Z, HIP_Y, KNEE = 0, 1, 2, 3
LEG = ((3, 4, 5, 6), (7, 8, 9, 10))  # actions of the right and left leg
FOOT, PELVIS = (5, 8), 2  # bodies
SIDE = (-1.0, 1.0)  # y of the right and left leg


def rot(axis, a):
    """Rotation matrix about x, y or z."""
    c, s = math.cos(a), math.sin(a)
    m = {"x": [[1, 0, 0], [0, c, -s], [0, s, c]],
         "y": [[c, 0, s], [0, 1, 0], [-s, 0, c]],
         "z": [[c, -s, 0], [s, c, 0], [0, 0, 1]]}
    return np.array(m[axis])


def quat_matrix(q):
    """Rotation matrix of a unit quaternion."""
    w, x, y, z = q
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]])


class State:
    """What the controller needs, from the observation."""

    def __init__(self, obs):
        self.q = obs[JOINT]
        self.dq = obs[JOINT + 23]
        self.z = obs[0]
        r = quat_matrix(obs[1:5])
        self.yaw = math.atan2(r[1, 0], r[0, 0])
        # Everything else is seen from a level frame that turns with the body.
        level = rot("z", -self.yaw)
        r = level @ r
        self.pitch = math.atan2(r[0, 2], r[2, 2])
        self.roll = math.atan2(r[2, 1], r[2, 2])
        self.rate = r @ obs[25:28]
        self.rp = r @ rot("z", obs[5]) @ rot("y", obs[6]) @ rot("x", obs[7])
        inert = obs[45:175].reshape(13, 10)
        cvel = obs[175:253].reshape(13, 6)
        mass = inert[:, 9]
        pos = inert[:, 6:9] / mass[:, None]  # of each part, from the centre of mass
        vel = cvel[:, 3:] + np.cross(cvel[:, :3], pos)
        pos, vel = pos @ level.T, vel @ level.T
        self.v = mass @ vel / mass.sum()
        self.foot = [pos[i] for i in FOOT]
        self.footv = [vel[i] for i in FOOT]
        self.hip = [pos[PELVIS] + self.rp @ np.array([0.02, s * 0.1, -0.04]) for s in SIDE]
        ext = obs[270:348].reshape(13, 6)
        self.force = [float(np.linalg.norm(ext[i, 3:])) for i in FOOT]


def leg_angles(d, side):
    """Hip x, hip y and knee for a foot at d from the hip, in the frame of the pelvis."""
    a = math.atan2(d[1], max(-d[2], 0.1)) * -side
    length = min(max(float(np.linalg.norm(d)), 0.4), THIGH + SHIN - 0.002)
    k = math.acos(max(-1.0, min(1.0, (length**2 - THIGH**2 - SHIN**2) / (2 * THIGH * SHIN))))
    front = math.atan2(d[0], math.hypot(d[1], d[2]))
    lead = math.atan2(SHIN * math.sin(k), THIGH + SHIN * math.cos(k))
    return a, -(front + lead), -k


class Policy:
    """Stands on one leg at a time and puts the other where it stops the fall."""

    def __init__(self, obs_space, action_space, env_meta):
        self.p = PARAMS

    def reset(self, episode_index):
        self.t = 0
        self.stance = 0
        self.phase_start = None
        self.lift = None
        self.mean = np.zeros(3)  # forward and lateral speed and turning rate, smoothed

    def pd(self, s, j, target, kp, kd):
        return kp * (target - s.q[j]) - kd * s.dq[j]

    def act(self, obs):
        p, s = self.p, State(np.asarray(obs, dtype=float))
        tau = np.zeros(17)
        # Waist and arms hold still.
        for j in (0, 1, 2):
            tau[j] = self.pd(s, j, p["bend"] if j == 0 else 0.0, p["kp_w"], p["kd_w"])
        for j in range(11, 17):
            tau[j] = self.pd(s, j, p["elbow"] if j in (13, 16) else 0.0, 5, 0.1)
        if self.phase_start is None and max(s.force) > 20:
            self.phase_start = self.t - int(p["first"])
        if self.phase_start is None:
            self.land(s, tau)
        else:
            self.walk(s, tau)
        self.t += 1
        return np.clip(tau / GEAR, -0.4, 0.4).astype(np.float32)

    def land(self, s, tau):
        """The episode begins in the air: wait for the ground with soft legs."""
        for i in (0, 1):
            for j, target, kp, kd in zip(LEG[i], (-0.05, 0.0, -0.1, -0.2), (100, 30, 100, 100), (4, 0, 6, 3)):
                tau[j] = self.pd(s, j, target, kp, kd)

    def walk(self, s, tau):
        p, dt = self.p, 0.015
        T = p["T"]
        self.mean += 0.05 * (np.array([s.v[0], s.v[1], s.rate[2]]) - self.mean)
        st, sw = self.stance, 1 - self.stance
        t = (self.t - self.phase_start) * dt
        rel = s.foot[sw] - s.foot[st]
        if t > 0.6 * T and (rel[2] < 0.004 or s.force[sw] > 20) or t > 1.4 * T:
            self.stance, self.phase_start, self.lift = sw, self.t, None
            st, sw, t = sw, st, 0.0
            rel = -rel
        if self.lift is None:
            self.lift = rel.copy()
        side = SIDE[sw]
        w = math.sqrt(9.81 / max(-s.foot[st][2], 0.5))
        e = math.exp(w * T)
        # Where the capture point will be, from the standing foot, when the step ends.
        d = (s.v[:2] / w - s.foot[st][:2]) * math.exp(w * max(T - t, 0.0))
        # Falling over the standing foot: put the other down at once.
        if t > 0.1 and side * (s.v[1] / w - s.foot[st][1]) < p["urgent"]:
            t = max(t, T)
        speed = p["speed"] * min(1.0, self.t / 100)
        speed *= max(math.cos(s.yaw), 0.0)
        goal = d + np.array([-speed * T / (e - 1), side * p["width"] / (e + 1)])
        # Slow corrections: mean speed, and the turn (a foot put forward brakes its side).
        goal[0] += p["kvx"] * (self.mean[0] - speed)
        goal[1] += p["kvy"] * self.mean[1]
        turn = p["kp_f"] * s.yaw + p["kd_f"] * self.mean[2]
        goal[0] -= side * min(max(turn, -0.07), 0.07)
        goal[0] = min(max(goal[0], -0.5), 0.6)
        goal[1] = side * min(max(side * goal[1], p["near"]), 0.5)
        f = min(t / (0.85 * T), 1.0)
        f = f * f * (3 - 2 * f)
        aim = np.empty(3)
        aim[:2] = self.lift[:2] * (1 - f) + goal * f
        ph = t / T
        aim[2] = p["height"] * math.sin(math.pi * ph) if ph < 1 else -0.3 * (t - T)
        # The leg lands straight, even if the other one has sunk.
        sunk = min(s.hip[sw][2] - p["leg"] - s.foot[st][2], 0.0)
        aim[2] += sunk * f
        a, hy_t, k_t = leg_angles(s.rp.T @ (s.foot[st] + aim - s.hip[sw]), side)
        hx, hz, hy, kn = LEG[sw]
        tau[hx] = self.pd(s, hx, a, p["kp_x"], p["kd_x"])
        tau[hz] = self.pd(s, hz, 0.0, p["kp_z"], 0)
        tau[hy] = self.pd(s, hy, hy_t, p["kp_sw"], p["kd_sw"])
        tau[kn] = self.pd(s, kn, k_t, p["kp_n"], p["kd_n"])
        lim = 0.4 * GEAR
        tau[:] = np.clip(tau, -lim, lim)
        # The standing leg carries the trunk.
        gx, gz, gy, gk = LEG[st]
        up = SIDE[sw]
        tau[gy] = p["kp_t"] * (s.pitch - p["lean"]) + p["kd_t"] * s.rate[1] - tau[hy] * p["react"]
        tau[gx] = -p["ff"] + up * (p["kp_r"] * s.roll + p["kd_r"] * s.rate[0]) + tau[hx] * p["react"]
        tau[gz] = self.pd(s, gz, 0.0, p["kp_z"], 0)
        tau[gk] = self.pd(s, gk, -p["knee"], p["kp_k"], p["kd_k"]) + p["ffk"]
        if min(s.force) > 20:
            # Both feet down: the hips turn the body with a couple.
            turn = min(max(p["kp_y"] * s.yaw + p["kd_y"] * s.rate[2], -60), 60)
            tau[LEG[0][HIP_Y]] -= turn
            tau[LEG[1][HIP_Y]] += turn
