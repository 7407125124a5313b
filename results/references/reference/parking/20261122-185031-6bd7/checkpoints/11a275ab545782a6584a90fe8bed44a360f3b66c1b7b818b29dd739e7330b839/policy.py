"""Plans a way into the spot by beam search on the car's own equations, and follows it while it comes true.

The plan is a chain of short stretches of constant throttle and steering. Partial chains are kept if they are among the
best by the costs so far, as the reward has them, plus a guess of the costs to come; of chains that lead to nearly the
same state only the cheapest is kept. The cost of a step is a square root, large far away and still large near the
spot: so the search prefers an early end to a neat one, and arrives fast, as the speed doesn't matter.
"""

from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[np.float64]]
State = np.ndarray[Any, np.dtype[np.float64]]
"""x, y, heading and speed: rows of a matrix, a column a chain."""
HALF_LENGTH, DT, SUBSTEPS = 2.5, 1.0 / 15.0, 3
MOST_ACCELERATION, MOST_STEERING = 5.0, np.pi / 4
THROTTLES = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
STEERINGS = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
CHOICES = np.array([(throttle, steering) for throttle in THROTTLES for steering in STEERINGS])
STRETCH = 2
"""Steps that a choice is held for."""
STRETCHES, BEAM = 22, 800
SUCCESS = 0.117
"""The cost of a step at which the episode ends, with a little to spare."""
FARTHEST = np.array([32.0, 18.2])
"""How far from the middle the car's centre may get, so that no corner touches a wall, m."""
MOST_SPEED = 9.0
CELLS = np.array([1.0, 1.0, 4.0, 1.0])
"""Two states are nearly the same where they agree in these multiples of x, y, heading and speed, rounded."""
TRUE_WITHIN = 0.05


def drive(state: State, throttle: Vector, steering: Vector) -> State:
    """Return the states after one step."""
    x, y, heading, speed = state
    slip = np.arctan(np.tan(steering * MOST_STEERING) / 2.0)
    for _ in range(SUBSTEPS):
        x = x + speed * np.cos(heading + slip) * DT
        y = y + speed * np.sin(heading + slip) * DT
        heading = heading + speed * np.sin(slip) / HALF_LENGTH * DT
        speed = speed + throttle * MOST_ACCELERATION * DT
    return np.array([x, y, heading, speed])


def cost(state: State, goal: Vector) -> Vector:
    """Return what a step that ends in these states costs."""
    x, y, heading, _ = state
    apart = (np.abs(x - goal[0]) + 0.3 * np.abs(y - goal[1])) / 100.0
    turned = 0.02 * (np.abs(np.cos(heading) - goal[2]) + np.abs(np.sin(heading) - goal[3]))
    found: Vector = np.sqrt(apart + turned)
    return found


def guess(state: State, goal: Vector) -> Vector:
    """Return about what the steps to come will cost."""
    x, y, heading, speed = state
    turned = np.abs((heading - np.arctan2(goal[3], goal[2]) + np.pi) % (2.0 * np.pi) - np.pi)
    along, beside = (y - goal[1]) * goal[3], x - goal[0]
    effort = np.sqrt(along**2 + beside**2 + 2.0 * (6.0 * turned / np.pi) ** 2 + (1.5 * beside) ** 2)
    near = np.hypot(x - goal[0], y - goal[1]) < 4.0
    found: Vector = 6.6 * np.sqrt(effort + 0.01) * cost(state, goal) + 0.15 * np.abs(speed) * near
    return found


def search(start: Vector, goal: Vector) -> list[Vector]:
    """Return the actions of the best chain found."""
    states, costs, taken = start[:, None], np.zeros(1), np.zeros((1, 0), dtype=int)
    best, chosen, last = np.inf, None, 0
    for _ in range(STRETCHES):
        count = states.shape[1]
        now, sums = np.repeat(states, len(CHOICES), axis=1), np.repeat(costs, len(CHOICES))
        picked = np.tile(np.arange(len(CHOICES)), count)
        open_ends = np.ones(now.shape[1], dtype=bool)
        for step in range(STRETCH):
            now = drive(now, *CHOICES[picked].T)
            step_costs = cost(now, goal)
            sums = sums + step_costs
            open_ends &= (np.abs(now[0]) < FARTHEST[0]) & (np.abs(now[1]) < FARTHEST[1]) & (np.abs(now[3]) < MOST_SPEED)
            arrived = open_ends & (step_costs < SUCCESS)
            if arrived.any():
                first = int(np.argmin(np.where(arrived, sums, np.inf)))
                if sums[first] < best:
                    best, last = float(sums[first]), step + 1
                    chosen = [*taken[first // len(CHOICES)], picked[first]]
            open_ends &= ~arrived
        keep = np.flatnonzero(open_ends & (sums < best))
        if not keep.size:
            break
        order = keep[np.argsort(sums[keep] + guess(now[:, keep], goal))]
        cells = np.round(now[:, order].T * CELLS).astype(int)
        _, firsts = np.unique(cells, axis=0, return_index=True)
        kept = order[np.sort(firsts)[:BEAM]]
        states, costs = now[:, kept], sums[kept]
        taken = np.column_stack([taken[kept // len(CHOICES)], picked[kept]])
    if chosen is None:
        chosen, last = list(taken[0][:3]), STRETCH
    return [CHOICES[choice] for choice in np.repeat(chosen, STRETCH)][: (len(chosen) - 1) * STRETCH + last]


class Policy:
    """Follows a plan, and plans again where it doesn't come true."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Take what the contract gives; nothing of it is needed."""

    def reset(self, episode_index: int) -> None:
        """Begin without a plan."""
        self.plan: list[Vector] = []
        self.expected = np.full(4, np.inf)

    def act(self, obs: dict[str, Any]) -> Vector:
        """Return throttle and steering."""
        x, y, vx, vy, cosine, sine = obs["observation"]
        state = np.array([100.0 * x, 100.0 * y, np.arctan2(sine, cosine), 5.0 * (vx * cosine + vy * sine)])
        goal = obs["desired_goal"] * np.array([100.0, 100.0, 1.0, 1.0, 1.0, 1.0])
        if not self.plan or np.abs(state - self.expected)[:2].max() > TRUE_WITHIN:
            self.plan = search(state, goal[[0, 1, 4, 5]])
        action = self.plan.pop(0)
        self.expected = drive(state[:, None], action[:1], action[1:])[:, 0]
        return action
