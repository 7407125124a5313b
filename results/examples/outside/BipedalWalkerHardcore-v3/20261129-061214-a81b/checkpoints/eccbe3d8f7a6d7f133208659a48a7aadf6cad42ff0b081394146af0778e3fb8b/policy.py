"""Virtual-model walking controller with a lidar height map and foothold choice."""
import json, os
import numpy as np
from math import sin, cos, atan2, acos, sqrt, exp, pi

DT = 0.02
L = 34 / 30.0
HIPD = 8 / 30.0
R = 160 / 30.0
BIN = 0.05
P = dict(h0=1.95, v=1.3, bias=0.06, vsw=4.2, Tmax=0.5, T=0.38, clr=0.22, m=5.3, mds=4.8, skp=280.0, skd=30.0, kpp=200.0, kdp=40.0, kph=60.0, kdh=14.0, kv=4.0,
         stop_h=0.7, dbg=1)
_f = os.path.join(os.path.dirname(os.path.abspath(__file__)), "parameters.json")
if os.path.exists(_f):
    P.update(json.load(open(_f)))
G = 10.0
M1, M2 = 0.302, 0.242


def clip(a, lo, hi):
    return lo if a < lo else hi if a > hi else a


def mix(s):
    s = clip(s, 0.0, 1.0)
    return 0.5 * s + 0.5 * smooth(s)


def smooth(s):
    s = clip(s, 0.0, 1.0)
    return s * s * (3 - 2 * s)


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.n = int(110 / BIN)
        self.hm = np.full(self.n, np.nan)

    def reset(self, episode_index):
        self.t = 0
        self.pq = None
        self.h_at = None
        self.T = P['T']
        self.back = False
        self.x, self.y = 14 / 30.0 * 10, None
        self.mode = "SS"
        self.st = 1            # stance leg
        self.tm = 0            # steps in the mode
        self.sw0 = None
        self.target = None
        self.stopped = False
        self.stance_pt = [None, None]
        self.lost = 0

    # --- map
    def update_map(self, s):
        for i in range(10):
            f = float(s[14 + i])
            if f >= 0.999:
                continue
            a = 0.15 * i
            px, py = self.x + sin(a) * R * f, self.y - cos(a) * R * f
            k = int(px / BIN)
            if 0 <= k < self.n:
                o = self.hm[k]
                if not (o >= py):
                    self.hm[k] = py

    def profile(self, x0, x1):
        """Filled heights at grid points from x0 to x1."""
        k0, k1 = max(0, int(x0 / BIN)), min(self.n, int(x1 / BIN) + 1)
        seg = self.hm[k0:k1]
        xs = (np.arange(k0, k1) + 0.5) * BIN
        ok = ~np.isnan(seg)
        if ok.sum() < 2:
            return xs, np.zeros(len(xs)), np.zeros(len(xs))
        idx = np.arange(len(xs))
        h = np.interp(idx, idx[ok], seg[ok])
        # distance to the nearest seen bin
        seen = idx[ok]
        j = np.clip(np.searchsorted(seen, idx), 1, len(seen) - 1)
        gap = np.minimum(np.abs(idx - seen[j - 1]), np.abs(idx - seen[j])) * BIN
        return xs, h, gap

    def hat(self, x):
        xs, h, g = self.profile(x - 0.3, x + 0.3)
        return float(np.interp(x, xs, h)) if len(xs) else 0.0

    def footholds(self, x0, x1):
        xs, h, gap = self.profile(x0 - 0.3, x1 + 0.3)
        n = len(xs)
        valid = np.ones(n, bool)
        for d in range(1, 7):
            tol = 0.06 + 0.05 * d
            up = h[d:] - h[:-d]          # change ahead by d bins
            valid[:-d] &= up > -tol  # drop ahead
            if d <= 4:
                valid[:-d] &= up < tol   # rise ahead
                valid[d:] &= -up < tol   # rise behind
            if d <= 3:
                valid[d:] &= -up > -tol  # drop behind
        for d in (7, 8):
            valid[:-d] &= h[d:] - h[:-d] < 0.33
        valid &= gap < 0.3
        keep = (xs >= x0) & (xs <= x1)
        return xs[keep], h[keep], valid[keep], xs, h

    # --- kinematics
    def leg(self, s, i, th):
        q1, q2 = float(s[4 + 5 * i]), float(s[6 + 5 * i]) - 1.0
        p1 = th + q1
        p2 = p1 + q2
        fx, fy = L * (sin(p1) + sin(p2)), -L * (cos(p1) + cos(p2))
        J = ((L * (cos(p1) + cos(p2)), L * cos(p2)), (L * (sin(p1) + sin(p2)), L * sin(p2)))
        return q1, q2, fx, fy, J

    def ik(self, dx, dy, th):
        r = clip(sqrt(dx * dx + dy * dy), 1.59, 2.262)
        q2 = -acos(clip(r * r / (2 * L * L) - 1, -1, 1))
        psi = atan2(dx, -dy)
        q1 = psi - q2 / 2 - th
        return clip(q1, -0.8, 1.1), clip(q2, -1.6, -0.1)

    def bump(self, x, gl):
        xs, h, g = self.profile(x - 0.4, x + 1.0)
        return clip(1.0 * (h.max() - gl - 0.15), 0.0, 0.2) if len(h) else 0.0

    def choose(self, s, f, fy, nom):
        lo, hi = f + 0.1, f + 1.75
        xs, h, valid, X, H = self.footholds(lo, hi + 1.8)
        if valid.sum() == 0:
            return clip(nom, lo, f + 1.2), fy
        first = (xs <= hi) & valid & (np.abs(h - fy) < 1.05)
        if not first.any():
            return clip(nom, lo, f + 1.2), fy
        vx_, vh = xs[valid], h[valid]
        best = None
        for x, hh in zip(xs[first][::2], h[first][::2]):
            d = vx_ - x
            m = (d > 0.3) & (d < 1.75)
            if m.any():
                pen = np.min(np.maximum(0, d[m] + 0.8 * np.maximum(0, vh[m] - hh) - 0.8) ** 2 * 1.5 + np.maximum(0, np.abs(vh[m] - hh) - 0.1) * 0.6)
            else:
                pen = 3.0
            c = (x - nom) ** 2 + pen + 0.5 * max(0, abs(hh - fy) - 0.1)
            if x > nom:
                c += 0.5 * (x - nom) ** 2
            if best is None or c < best[0]:
                best = (c, x, hh)
        return best[1], best[2]

    def act(self, s):
        p = P
        th, w = float(s[0]), float(s[1]) * 25.0
        vx, vy = float(s[2]) / 0.12, float(s[3]) / 0.08
        if self.y is None:
            self.y = float(s[14]) * R
        else:
            self.x += vx * DT
            self.y += vy * DT
        self.update_map(s)
        self.t += 1
        self.th = th
        self.tm += 1
        x, y = self.x, self.y
        hx, hy = x + HIPD * sin(th), y - HIPD * cos(th)
        legs = [self.leg(s, 0, th), self.leg(s, 1, th)]
        feet = [(hx + l[2], hy + l[3]) for l in legs]
        con = [s[8] > 0.5, s[13] > 0.5]
        m = p["m"]
        st, sw = self.st, 1 - self.st
        om = sqrt(G / 2.2)
        xi = x + vx / om
        T = self.T
        vdes = p["v"]
        mdes = vdes * p["T"] / (exp(om * p["T"]) - 1)

        # obstacle too high ahead: stop
        xs, h, gap = self.profile(x + 0.2, x + 2.4)
        base = max(feet[0][1], feet[1][1])
        if len(h) and h.max() - base > p["stop_h"]:
            self.stopped = True
        if self.stopped:
            vdes, mdes = 0.0, 0.05

        ev = None
        if self.mode == "SS":
            if self.sw0 is None:
                self.sw0 = feet[sw]
            f, fy = feet[st]
            ph = self.tm * DT / T
            if self.back:
                if ph < 0.7:
                    rem = max(0.02, T - self.tm * DT)
                    bx_ = clip(f + (xi - f) * exp(om * rem) - 0.15, f - 1.2, f - 0.3)
                    self.target = (bx_, self.hat(bx_))
            elif self.t > 60 and (xi - f) < 0.02 and ph < 0.75 and x < f - 0.1 and vx < 0.5:
                self.back, self.tm = True, int(0.2 * T / DT)
                self.sw0 = feet[sw]
                bx_ = clip(xi - 0.25, f - 1.2, f - 0.45)
                self.target = (bx_, self.hat(bx_))
                ev = "RETRY"
            elif self.target is None or ph < 0.6:
                rem = max(0.02, T - self.tm * DT)
                xiT = f + (xi - f) * exp(om * rem)
                nom = clip(xiT - mdes, f + 0.1, f + 1.5)
                self.nom = nom
                self.target = self.choose(s, f, fy, nom)
            hf = self.hat(feet[sw][0])
            if ph > 0.5 and con[sw] and (abs(feet[sw][1] - hf) < 0.17 or ph > 1.3) and (self.back or feet[sw][0] > self.target[0] - 0.4 or ph > 0.9) and (feet[sw][0] > f + 0.03 or self.back or ph > 1.1):
                self.mode, self.tm, self.back = "DS", 0, False
                ev = "TD"
        if self.mode == "DS":
            front = 0 if feet[0][0] > feet[1][0] else 1
            rear = 1 - front
            ff = feet[front]
            rl = sqrt((feet[rear][0] - hx) ** 2 + (feet[rear][1] - hy) ** 2)
            go = xi - ff[0] > 0.75 * mdes and x > 0.5 * (ff[0] + feet[rear][0]) - 0.1
            if self.stopped:
                go = xi - ff[0] > 0.15
            if xi < feet[rear][0] - 0.03 and vx < 0.05:
                self.mode, self.tm, self.back = "SS", 0, True
                self.st = st = rear
                sw = front
                self.sw0 = feet[sw]
                self.target = (feet[rear][0] - 0.3, feet[rear][1])
                ev = "BACK"
            elif self.tm >= 2 and (go or (rl > 2.24 and xi - ff[0] > 0) or (not con[rear] and xi > ff[0] and self.tm > 6) or xi - ff[0] > 0.6):
                self.mode, self.tm = "SS", 0
                self.st = st = front
                sw = rear
                self.sw0 = feet[sw]
                self.target = None
                f, fy = feet[st]
                T = p["T"]
                for _ in range(2):
                    xiT = f + (xi - f) * exp(om * T)
                    self.nom = clip(xiT - mdes, f + 0.1, f + 1.5)
                    self.target = self.choose(s, f, fy, self.nom)
                    T = max(T, (self.target[0] - self.sw0[0]) / p["vsw"], p["T"] + 0.1 * max(0, fy - self.target[1]) + 0.2 * max(0, self.target[1] - fy))
                T = self.T = min(T, p['Tmax'])
                ev = "LO"

        if ev == "TD" or (ev == "LO" and self.h_at is None):
            self.h_at = (hx, hy)
        tau = [0.0, 0.0, 0.0, 0.0]
        M = clip(p["kpp"] * (0.0 - th) - p["kdp"] * w, -90, 90)
        if self.mode == "SS":
            f, fy = feet[st]
            tx, ty = self.target
            a = clip((hx - f) / max(0.2, tx - f), 0, 1)
            if hx < f - 0.05 and self.h_at is not None and f - self.h_at[0] > 0.1:
                u = clip((hx - self.h_at[0]) / (f - self.h_at[0]), 0, 1)
                yref = self.h_at[1] + (fy + p["h0"] - self.h_at[1]) * u
                if fy + p["h0"] < self.h_at[1]:
                    yref = fy + p["h0"]
                yref = max(yref, fy + 1.62)
            else:
                gl = fy + (ty - fy) * a
                if ty < fy - 0.15:
                    gl = fy + (ty - fy) * clip(1.3 * self.tm * DT / T, 0, 1)
                    yref = max(p["h0"] + gl, fy + 1.62)
                else:
                    yref = p["h0"] + gl + self.bump(x, gl)
            reach = 2.2
            dxs = hx - f
            yref = min(yref, fy + sqrt(max(0.5, reach ** 2 - dxs ** 2)))
            Fy = m * (G + p["kph"] * (yref - hy) - p["kdh"] * vy)
            Fy = clip(Fy, 0.15 * m * G, 3.0 * m * G)
            rx, ry = f - x, fy - y
            Fx = (rx * Fy - M) / ry
            self.apply(tau, legs, st, Fx, Fy, con[st])
            # swing
            ph = self.tm * DT / T
            s0 = self.sw0
            xs, h, gap = self.profile(min(s0[0], tx) - 0.1, tx + 0.1)
            top = max(h.max() if len(h) else fy, s0[1], ty)
            dh = top - s0[1]
            apex = top + p["clr"]
            gx = s0[0] + (tx - clip(0.3 * (tx - s0[0]) - 0.1, 0, p["bias"]) - s0[0]) * mix((ph - 0.06) / 0.79)
            if ph < 0.28:
                gy = s0[1] + (apex - s0[1]) * mix(ph / 0.28)
            elif ph < 0.7:
                gy = apex
            else:
                gy = apex + (ty - 0.05 - apex) * smooth((ph - 0.7) / 0.3)
            if ph > 1:
                gy -= 1.0 * (ph - 1) * T
            if ph < 0.9:
                for _ in range(4):
                    q1d, q2d = self.ik(gx - hx, gy - hy, th)
                    kx, ky = hx + L * sin(th + q1d), hy - L * cos(th + q1d)
                    gxx, gyy = kx + L * sin(th + q1d + q2d), ky - L * cos(th + q1d + q2d)
                    X, H, _g = self.profile(min(gxx, kx) - 0.12, max(gxx, kx) + 0.12)
                    if len(X) < 2 or abs(kx - gxx) < 0.05:
                        break
                    u = np.clip((X - gxx) / (kx - gxx), 0, 1)
                    line = gyy + u * (ky - gyy) - 0.12
                    viol = float(np.max((H - line)[u > 0.08])) if (u > 0.08).any() else 0.0
                    if viol <= 0.02:
                        break
                    gy += min(0.25, viol + 0.02)
            self.swing(tau, s, sw, gx - hx, gy - hy, th, w)
        else:
            front = 0 if feet[0][0] > feet[1][0] else 1
            rear = 1 - front
            (fx, fy), (bx, by) = feet[front], feet[rear]
            m = p['mds']
            a = clip((hx - bx) / max(0.2, fx - bx), 0, 1)
            gl = by + (fy - by) * a
            if hx < fx - 0.05 and self.h_at is not None and fx - self.h_at[0] > 0.1 and not self.stopped and self.tm < 25:
                u = clip((hx - self.h_at[0]) / (fx - self.h_at[0]), 0, 1)
                yref = self.h_at[1] + (fy + p["h0"] - self.h_at[1]) * u
            else:
                yref = p["h0"] + gl
            yref = min(yref, by + sqrt(max(0.5, 2.2 ** 2 - (hx - bx) ** 2)), fy + sqrt(max(0.5, 2.2 ** 2 - (hx - fx) ** 2)))
            Fy = clip(m * (G + p["kph"] * (yref - hy) - p["kdh"] * vy), 0.2 * m * G, 3 * m * G)
            if self.stopped:
                Fx = m * clip(8.0 * (0.5 * (fx + bx) - x) - 4.0 * vx, -8, 8)
            else:
                Fx = m * clip(p["kv"] * (vdes - vx) + 1.0 * max(0, mdes + fx - xi), -5, 6)
            hh = y - 0.5 * (fy + by)
            D = max(0.15, fx - bx)
            lam = clip((M - hh * Fx - (bx - x) * Fy) / (D * Fy), 0.06, 0.94)
            if rl > 2.25 and self.tm > 3:
                lam = 0.94
            Fs = []
            need = -M
            for (qx, qy), la in (((fx, fy), lam), ((bx, by), 1 - lam)):
                Fyi = max(la * Fy, 5.0)
                nat = Fyi * (x - qx) / (y - qy)
                need += (qx - x) * Fyi - (qy - y) * nat
                Fs.append([nat, Fyi, qy - y, la])
            dl = need / sum(q[2] * q[3] for q in Fs)
            self.apply(tau, legs, front, Fs[0][0] + Fs[0][3] * dl, Fs[0][1], True)
            self.apply(tau, legs, rear, Fs[1][0] + Fs[1][3] * dl, Fs[1][1], True)
        if p["dbg"] and ev:
            print(self.t, ev, "x%.2f y%.2f th%.2f v%.2f st%d" % (x, y, th, vx, st),
                  "f%.2f,%.2f" % feet[st], "o%.2f,%.2f" % feet[1 - st], "tgt%.2f,%.2f" % self.target,
                  "nom%.2f xi%.2f" % (self.nom, xi), "STOP" if self.stopped else "")
        return np.clip(np.array(tau) / 80.0, -1, 1).astype(np.float32)

    def swing(self, tau, s, i, dx, dy, th, w):
        q1d, q2d = self.ik(dx, dy, th)
        p1d, p2d = th + q1d, th + q1d + q2d
        p1 = th + float(s[4 + 5 * i])
        p2 = p1 + float(s[6 + 5 * i]) - 1.0
        w1 = w + 4 * float(s[5 + 5 * i])
        w2 = w1 + 6 * float(s[7 + 5 * i])
        v1 = v2 = 0.0
        if self.pq is not None and self.pq[2] == i and self.pq[3] == self.t - 1:
            v1, v2 = clip((p1d - self.pq[0]) / DT, -6, 6), clip((p2d - self.pq[1]) / DT, -12, 12)
        self.pq = (p1d, p2d, i, self.t)
        kp, kd = P["skp"], P["skd"]
        a1 = kp * (p1d - p1) + kd * (v1 - w1)
        a2 = kp * (p2d - p2) + kd * (v2 - w2)
        c = L / 2
        m11, m22, m12 = M1 * L * L / 3 + M2 * L * L, M2 * L * L / 3, M2 * L * c * cos(p1 - p2)
        sn = M2 * L * c * sin(p1 - p2)
        t2 = m22 * a2 + m12 * a1 - sn * w1 * w1 + M2 * c * G * sin(p2)
        t1 = t2 + m11 * a1 + m12 * a2 + sn * w2 * w2 + (M1 * c + M2 * L) * G * sin(p1)
        tau[2 * i], tau[2 * i + 1] = t1, t2

    def apply(self, tau, legs, i, Fx, Fy, contact):
        q1, q2, _, _, J = legs[i]
        p1 = self.th + q1
        p2 = p1 + q2
        g2 = M2 * L / 2 * G * sin(p2)
        g1 = g2 + (M1 * L / 2 + M2 * L) * G * sin(p1)
        tau[2 * i] = g1 - (J[0][0] * Fx + J[1][0] * Fy)
        tau[2 * i + 1] = g2 - (J[0][1] * Fx + J[1][1] * Fy)
