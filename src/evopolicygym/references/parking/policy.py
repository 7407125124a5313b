"""Plans the way into the spot on the car's own equations, by mutation and selection on islands.

One island starts with the plans of a beam search, which builds them from short stretches of a few throttles and
steerings; the others start with random plans. Plans are changed at random, stretch by stretch, and the best survive.
Islands never mix, so they keep different manoeuvres; the worse ones are given up early. After each step the rest of the
plan is improved in the same way. A step costs the root of the distance, so a quick end is better than a neat one.
"""

from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[np.float64]]
State = np.ndarray[Any, np.dtype[np.float64]]
"""x, y, heading and speed: rows of a matrix, with a column for each plan."""
Plans = np.ndarray[Any, np.dtype[np.float64]]
"""Shape (plans, steps, 2): throttle and steering."""

HALF_LENGTH, HALF_WIDTH, DT, SUBSTEPS = 2.5, 1.0, 1.0 / 15.0, 3
MOST_ACCELERATION, MOST_STEERING = 5.0, np.pi / 4
WALLS = (34.4, 20.4)
"""How far from the middle a corner of the car may get, m."""
PARKED = 0.1199
"""The episode ends below a cost of 0.12."""
CRASH, UNPARKED_STEPS = 30.0, 15.0
"""The price of touching a wall; the number of steps for which the last cost counts in a plan that doesn't park."""
LEVELS = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
CHOICES = np.array([(throttle, steering) for throttle in LEVELS for steering in LEVELS])
IDLE = len(CHOICES) // 2
STRETCH, STRETCHES, BEAM = 2, 22, 800
"""Steps of a stretch, and stretches of a plan; plans kept after each stretch."""
CELLS = np.array([1.0, 1.0, 4.0, 1.0])
"""Two states are alike if these multiples of x, y, heading and speed agree when rounded."""
SLACK = 0.5
"""The beam goes on while plans are at most this much dearer than the best that parks."""
ISLANDS, PARENTS, SURVIVORS, CHILDREN = 16, 40, 20, 400
"""Islands of random plans; plans of the beam's island; plans kept in each round, and new ones."""
STAGES = ((10, 6, 0.5), (30, 2, 0.3), (60, 1, 0.1), (30, 1, 0.04))
"""Rounds, islands kept, and the standard deviation of a shift."""
LATER_ROUNDS, LATER_SIZE = 20, 0.1
RANDOM_PLANS, RANDOM_STEPS, PIECES = 300, 30, (2, 3, 4)
"""An island's random plans, their steps, and the numbers of their pieces of constant actions."""


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
    """Return the cost of a step that ends in these states: the negative reward."""
    x, y, heading, _ = state
    apart = (np.abs(x - goal[0]) + 0.3 * np.abs(y - goal[1])) / 100.0
    turned = 0.02 * (np.abs(np.cos(heading) - goal[2]) + np.abs(np.sin(heading) - goal[3]))
    return np.asarray(np.sqrt(apart + turned))


def hits_wall(state: State) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return whether a corner of the car touches a wall."""
    x, y, heading, _ = state
    cosine, sine = np.abs(np.cos(heading)), np.abs(np.sin(heading))
    beside = np.abs(x) + HALF_LENGTH * cosine + HALF_WIDTH * sine > WALLS[0]
    ahead = np.abs(y) + HALF_LENGTH * sine + HALF_WIDTH * cosine > WALLS[1]
    return np.asarray(beside | ahead)


def estimate(state: State, goal: Vector) -> Vector:
    """Return a rough estimate of the costs still to come."""
    x, y, heading, speed = state
    turned = np.abs((heading - np.arctan2(goal[3], goal[2]) + np.pi) % (2.0 * np.pi) - np.pi)
    along, beside = (y - goal[1]) * goal[3], x - goal[0]
    effort = np.sqrt(along**2 + beside**2 + 2.0 * (6.0 * turned / np.pi) ** 2 + (1.5 * beside) ** 2)
    near = np.hypot(x - goal[0], y - goal[1]) < 4.0
    return np.asarray(6.6 * np.sqrt(effort + 0.01) * cost(state, goal) + 0.15 * np.abs(speed) * near)


def search(start: Vector, goal: Vector) -> Plans:
    """Return the cheapest plans that park, by beam search; the beam's best plan if none parks."""
    states, costs, chains = start[:, None], np.zeros(1), np.zeros((1, 0), dtype=int)
    parking: list[tuple[float, list[int]]] = []
    best = np.inf
    for _ in range(STRETCHES):
        ends, sums = np.repeat(states, len(CHOICES), axis=1), np.repeat(costs, len(CHOICES))
        choices = np.tile(np.arange(len(CHOICES)), len(costs))
        going = np.ones(len(sums), dtype=bool)
        for _ in range(STRETCH):
            ends = drive(ends, *CHOICES[choices].T)
            step_costs = cost(ends, goal)
            sums = sums + step_costs
            going &= ~hits_wall(ends)
            parked = going & (step_costs < PARKED)
            for place in np.flatnonzero(parked):
                parking.append((float(sums[place]), [*chains[place // len(CHOICES)], int(choices[place])]))
                best = min(best, float(sums[place]))
            going &= ~parked
        kept = np.flatnonzero(going & (sums < best + SLACK))
        if not kept.size:
            break
        order = kept[np.argsort(sums[kept] + estimate(ends[:, kept], goal))]
        _, firsts = np.unique(np.round(ends[:, order].T * CELLS).astype(int), axis=0, return_index=True)
        beam = order[np.sort(firsts)[:BEAM]]
        states, costs = ends[:, beam], sums[beam]
        chains = np.column_stack([chains[beam // len(CHOICES)], choices[beam]])
    found = [chain for _, chain in sorted(parking)[:PARENTS]] or [list(chains[0])]
    length = max(map(len, found)) + 2
    return np.repeat(CHOICES[[chain + [IDLE] * (length - len(chain)) for chain in found]], STRETCH, axis=1)


def play(start: Vector, goal: Vector, plans: Plans) -> tuple[Vector, Vector]:
    """Return the cost of each plan, and the number of its steps until the car is parked."""
    count, steps = plans.shape[:2]
    state, totals = np.repeat(start[:, None], count, axis=1), np.zeros(count)
    ends, going, step_costs = np.full(count, steps), np.ones(count, dtype=bool), np.zeros(count)
    for step in range(steps):
        state = drive(state, plans[:, step, 0], plans[:, step, 1])
        step_costs, hit = cost(state, goal), hits_wall(state)
        totals += going * (step_costs + CRASH * hit)
        parked = going & (step_costs < PARKED) & ~hit
        ends[parked] = step + 1
        going &= ~hit & ~parked
    return totals + going * UNPARKED_STEPS * step_costs, ends


def plan_way(start: Vector, goal: Vector, generator: np.random.Generator) -> Vector:
    """Return the best plan of all islands."""
    islands = [search(start, goal), *(random_plans(generator) for _ in range(ISLANDS))]
    for rounds, kept, size in STAGES:
        results = [evolve(start, goal, plans, rounds, size, generator) for plans in islands]
        results.sort(key=lambda result: float(result[1][0]))
        islands = [plans for plans, _, _ in results[:kept]]
    return results[0][0][0, : int(results[0][2][0])]


def random_plans(generator: np.random.Generator) -> Plans:
    """Return plans of a few pieces with constant actions, many of them at the limits."""
    pieces = generator.choice(PIECES, size=(RANDOM_PLANS, 1))
    starts = generator.random((RANDOM_PLANS, max(PIECES) - 1)) * RANDOM_STEPS
    starts[np.arange(max(PIECES) - 1) >= pieces - 1] = np.inf
    piece = (np.arange(RANDOM_STEPS)[:, None] >= starts[:, None, :]).sum(axis=2)
    actions = np.clip(generator.uniform(-1.6, 1.6, (RANDOM_PLANS, max(PIECES), 2)), -1.0, 1.0)
    return np.asarray(actions[np.arange(RANDOM_PLANS)[:, None], piece])


def evolve(
    start: Vector, goal: Vector, plans: Plans, rounds: int, size: float, generator: np.random.Generator
) -> tuple[Plans, Vector, Vector]:
    """Return the best plans after rounds of mutation and selection, with their costs and ends, best first."""
    totals, ends = play(start, goal, plans)
    for number in range(rounds + 1):
        best = np.argsort(totals, kind="stable")[:SURVIVORS]
        plans, totals, ends = plans[best, : int(ends[best[0]]) + 3], totals[best], ends[best]
        if number == rounds:
            break
        children = mutate(plans, size, generator)
        child_totals, child_ends = play(start, goal, children)
        plans = np.concatenate([plans, children])
        totals, ends = np.concatenate([totals, child_totals]), np.concatenate([ends, child_ends])
    return plans, totals, ends


def mutate(plans: Plans, size: float, generator: np.random.Generator) -> Plans:
    """Return children: throttle or steering of one stretch, or of two, is shifted or drawn anew; some shift in time."""
    children, rows = plans[generator.integers(len(plans), size=CHILDREN)], np.arange(CHILDREN)
    time = np.arange(plans.shape[1])
    for share in (1.0, 0.5):
        first = generator.integers(len(time), size=CHILDREN)[:, None]
        last = first + generator.geometric(0.25, size=CHILDREN)[:, None]
        stretch = (time >= first) & (time < last) & (generator.random(CHILDREN) < share)[:, None]
        channel = generator.integers(2, size=CHILDREN)
        values = children[rows, :, channel]
        shifted = values + size * generator.standard_normal(CHILDREN)[:, None]
        drawn = np.where(generator.random(CHILDREN) < 0.3, generator.uniform(-1.5, 1.5, CHILDREN), np.nan)[:, None]
        children[rows, :, channel] = np.where(stretch, np.where(np.isnan(drawn), shifted, drawn), values)
    moved = np.flatnonzero(generator.random(CHILDREN) < 0.15)
    source = time + (time >= first[moved]) * generator.choice((-1, 1), len(moved))[:, None]
    children[moved] = children[moved[:, None], np.clip(source, 0, len(time) - 1)]
    return np.clip(children, -1.0, 1.0)


class Policy:
    """Plans before the first step, and improves the rest of the plan before each later one."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Ignore the arguments: the equations hold all that is needed."""

    def reset(self, episode_index: int) -> None:
        """Start without a plan."""
        self.plan = np.zeros((0, 2))
        self.generator = np.random.default_rng(0)

    def act(self, obs: dict[str, Any]) -> Vector:
        """Return throttle and steering."""
        x, y, vx, vy, cosine, sine = obs["observation"]
        state = np.array([100.0 * x, 100.0 * y, np.arctan2(sine, cosine), 5.0 * (vx * cosine + vy * sine)])
        goal = obs["desired_goal"][[0, 1, 4, 5]] * np.array([100.0, 100.0, 1.0, 1.0])
        if len(self.plan):
            plans = np.concatenate([self.plan, np.zeros((3, 2))])[None]
            plans, _, ends = evolve(state, goal, plans, LATER_ROUNDS, LATER_SIZE, self.generator)
            self.plan = plans[0, : int(ends[0])]
        else:
            self.plan = plan_way(state, goal, self.generator)
        action, self.plan = self.plan[0], self.plan[1:]
        return np.asarray(action)
