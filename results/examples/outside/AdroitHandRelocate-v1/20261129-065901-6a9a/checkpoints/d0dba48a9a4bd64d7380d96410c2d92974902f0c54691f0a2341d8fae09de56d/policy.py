import json, os
import numpy as np

P = json.load(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "parameters.json")))
MCP, PIP, DIP = [9, 13, 17, 22], [10, 14, 18, 23], [11, 15, 19, 24]


def pose(mcp, pip, dip, th):
    a = np.zeros(30)
    a[MCP], a[PIP], a[DIP] = mcp, pip, dip
    a[20] = -1.0
    a[25:30] = th
    a[6] = 0.5
    return a


OPEN = pose(P["omcp"], P["opip"], P["opip"], [P["ot4"], P["ot3"], 0.0, 0.0, P["ot0"]])
CLOSE = pose(P["cmcp"], P["cpip"], P["cpip"], [P["ct4"], P["ct3"], 0.0, P["ct1"], P["ct0"]])


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass

    def reset(self, episode_index):
        self.t = self.phase = self.pt = 0
        self.prev = None
        self.I = np.zeros(3)
        self.dp = 0.0

    def act(self, obs):
        p = P
        o = np.asarray(obs, float)
        q = o[:30]
        po, pt, ot = o[30:33], o[33:36], o[36:39]
        v = np.zeros(30) if self.prev is None else q - self.prev
        self.prev = q.copy()
        if self.t == 0:
            self.ot0 = ot.copy()
        a = OPEN.copy()
        grasp = np.array([p["xg"], p["yg"], p["zg"]])
        f = 0.0
        if self.phase == 0:
            err = grasp + [0, 0, p["above"]] - po
            if np.hypot(err[0], err[1]) < 0.012 and self.pt > 5 or self.pt > 35:
                self.phase, self.pt = 1, 0
        elif self.phase == 1:
            f = min(1.0, self.pt / p["tdown"])
            err = grasp + [0, 0, p["above"] * (1 - f)] - po
            if (np.linalg.norm(err) < 0.012 and f >= 1) or self.pt > p["tdown"] + 18:
                self.phase, self.pt = 2, 0
        elif self.phase == 2:
            f = 1.0
            s = min(1.0, self.pt / (0.75 * p["tclose"]))
            st = min(1.0, self.pt / (0.75 * p["tclose"]) * p["thfast"])
            a = OPEN + (CLOSE - OPEN) * s
            a[25:30] = OPEN[25:30] + (CLOSE - OPEN)[25:30] * st
            err = grasp - po
            err[:2] *= p["hold"]
            if self.pt >= p["tclose"]:
                self.phase, self.pt = 3, 0
        else:
            f = 1.0 - (1 - p["fl"]) * min(1.0, self.pt / 40)
            a = CLOSE.copy()
            err = -ot
            n = np.linalg.norm(err)
            if n > p["vmax"]:
                err = err * p["vmax"] / n
            if self.pt < 12:
                err = np.array([0, 0, 0.06])
        vel = np.array([-v[0], v[2], v[1]])
        if self.phase >= 1:
            self.I = np.clip(self.I + p["ki"] * err, -0.6, 0.6)
        u = np.array([p["kpx"], p["kp"], p["kp"]]) * err - np.array([p["kdx"], p["kd"], p["kd"]]) * vel + self.I
        a[0], a[2], a[1] = -u[0], u[1], u[2]
        qd = p["pitch0"] + (p["pitch"] - p["pitch0"]) * f
        if self.phase == 3:
            if q[1] > 0.165 and err[2] > 0.004:
                self.dp = max(self.dp - 0.012, -0.5)
            elif q[1] < 0.1 and err[2] < -0.004 or q[1] < 0.165 and self.dp < 0 and err[2] < -0.002:
                self.dp = min(self.dp + 0.006, 0.0)
            qd += self.dp
        wd = p["wr0"] + (p["wr"] - p["wr0"]) * f
        a[3] = (qd - 0.076) / 1.57 + 1.5 * (qd - q[3])
        a[7] = (wd + 0.058) / 0.72 + 1.0 * (wd - q[7])
        a[4] = -p["k4"] * q[4] - p["d4"] * v[4]
        a[5] = 0.0
        if p["dbg"] and (self.pt == 0 or self.t % 10 == 0):
            print(self.t, "ph", self.phase, "po", po.round(3), "ot", ot.round(3), "q", q[:8].round(2), "f", q[[9, 10, 11, 22, 25, 26, 28, 29]].round(2))
        self.t += 1
        self.pt += 1
        return np.clip(a, -1, 1)
