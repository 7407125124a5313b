import json, os
import numpy as np

P = dict(kp=15.0, kd=90.0, ki=0.15, above=0.06, zg=0.0, xg=0.0, yg=0.0, pitch=0.0, tclose=22, th4=0.6, dbg=1)
_f = os.path.join(os.path.dirname(os.path.abspath(__file__)), "parameters.json")
if os.path.exists(_f):
    P.update(json.load(open(_f)))

OPEN = np.zeros(30)
CLOSE = np.zeros(30)
for j in (8, 12, 16, 21):       # spread
    OPEN[j] = CLOSE[j] = 0.0
for j in (9, 13, 17, 22):       # MCP
    OPEN[j], CLOSE[j] = -0.7, 1.0
for j in (10, 14, 18, 23):
    OPEN[j], CLOSE[j] = -0.8, 1.0
for j in (11, 15, 19, 24):
    OPEN[j], CLOSE[j] = -0.8, 1.0
OPEN[20] = CLOSE[20] = -1.0
# thumb
OPEN[25:30] = [0.6, -0.5, 0.0, 0.0, 0.9]
CLOSE[25:30] = [0.6, 1.0, 0.0, 0.6, -0.6]
OPEN[6] = CLOSE[6] = 0.5


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass

    def reset(self, episode_index):
        self.t = 0
        self.phase = 0
        self.pt = 0
        self.prev = None
        self.I = np.zeros(3)

    def act(self, obs):
        p = P
        o = np.asarray(obs, float)
        q = o[:30]
        po, pt, ot = o[30:33], o[33:36], o[36:39]
        v = np.zeros(30) if self.prev is None else q - self.prev
        self.prev = q.copy()
        a = OPEN.copy()
        if self.t == 0:
            self.z0 = None
            self.ot0 = ot.copy()
        grasp = np.array([p["xg"], p["yg"], p["zg"]])
        lifted = ot[2] - self.ot0[2]
        if self.phase == 0:            # above the ball
            err = grasp + [0, 0, p["above"]] - po
            if np.hypot(err[0], err[1]) < 0.012 and abs(err[2]) < 0.03 and self.pt > 5 or self.pt > 60:
                self.phase, self.pt = 1, 0
        elif self.phase == 1:          # down
            err = grasp - po
            if np.linalg.norm(err) < 0.012 or self.pt > 30:
                self.phase, self.pt = 2, 0
                self.hold = q[:3].copy()
        elif self.phase == 2:          # close
            s = min(1.0, self.pt / (0.7 * p["tclose"]))
            a = OPEN + (CLOSE - OPEN) * s
            err = grasp - po
            if self.pt >= p["tclose"]:
                self.phase, self.pt = 3, 0
        elif self.phase == 3:          # carry
            a = CLOSE.copy()
            err = -ot
            n = np.linalg.norm(err)
            if n > 0.08:
                err = err * 0.08 / n
            if self.pt < 12:
                err = np.array([0, 0, 0.08])
        vel = np.array([-v[0], v[2], v[1]])
        if self.phase in (1, 2, 3):
            self.I = np.clip(self.I + p["ki"] * err, -0.5, 0.5)
        u = p["kp"] * err - p["kd"] * vel + self.I
        a[0], a[2], a[1] = -u[0], u[1], u[2]
        a[3] = p["pitch"] + 3.0 * (p["pitch"] * 0 - 0.0) - 0.05
        a[4] = 0.0
        a[5] = 0.0
        if p["dbg"] and (self.pt == 0 or self.t % 10 == 0):
            print(self.t, "ph", self.phase, "po", po.round(3), "ot", ot.round(3), "q", q[:8].round(2), "u", u.round(2))
        self.t += 1
        self.pt += 1
        return np.clip(a, -1, 1)
