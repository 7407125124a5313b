"""The car as fitted to feedback, and a search over sequences of actions."""

import numpy as np

DT, SUBSTEPS, HALF = 0.2, 3, 2.5
WALL_X, WALL_Y = 34.4, 20.4  # a little inside of where the corners stopped
WEIGHTS = (0.01, 0.003, 0.02, 0.02)  # of |dx|, |dy| in metres, |dcos|, |dsin|
PARKED = 0.1199
CRASH = 30.0


def rollout(start, goal, plans, last_weight):
    """Cost of each plan (N, T, 2) from start (x, y, heading, speed), parking ending it; and when each is parked."""
    count, length, _ = plans.shape
    x, y, heading, speed = (np.full(count, value) for value in start)
    gx, gy, gc, gs = goal
    total, alive, end = np.zeros(count), np.ones(count, bool), np.full(count, length)
    slip = np.arctan(0.5 * np.tan(plans[:, :, 1] * (np.pi / 4)))
    yaw = np.sin(slip) / HALF
    dt = DT / SUBSTEPS
    for t in range(length):
        for _ in range(SUBSTEPS):
            direction = heading + slip[:, t]
            x += speed * np.cos(direction) * dt
            y += speed * np.sin(direction) * dt
            heading += speed * yaw[:, t] * dt
            speed += 5.0 * dt * plans[:, t, 0]
        c, s = np.cos(heading), np.sin(heading)
        cost = np.sqrt(
            WEIGHTS[0] * np.abs(x - gx)
            + WEIGHTS[1] * np.abs(y - gy)
            + WEIGHTS[2] * np.abs(c - gc)
            + WEIGHTS[3] * np.abs(s - gs)
        )
        hit = (np.abs(x) + 2.5 * np.abs(c) + np.abs(s) > WALL_X) | (np.abs(y) + 2.5 * np.abs(s) + np.abs(c) > WALL_Y)
        total += alive * (cost + CRASH * hit)
        parked = alive & (cost < PARKED) & ~hit
        end[parked] = t + 1
        alive &= ~hit & (cost >= PARKED)
        if not alive.any():
            break
    return total + alive * last_weight * cost, end


def segments(rng, count, length, pieces):
    """Random plans of a few pieces with constant actions, mostly at the limits."""
    cuts = np.sort(rng.integers(1, length, (count, pieces - 1)), axis=1)
    piece = (np.arange(length)[None, :, None] >= cuts[:, None, :]).sum(2)
    values = np.clip(rng.uniform(-1.6, 1.6, (count, pieces, 2)), -1, 1)
    return values[np.arange(count)[:, None], piece]


def mutate(rng, parents, count):
    """Children of random parents: one stretch of one channel is replaced, shifted in value, or moved in time."""
    length = parents.shape[1]
    plans = parents[rng.integers(0, len(parents), count)].copy()
    first = rng.integers(0, length, count)
    last = np.minimum(first + 1 + rng.geometric(0.2, count), length)
    t = np.arange(length)[None, :]
    inside = (t >= first[:, None]) & (t < last[:, None])
    channel = rng.random(count) < 0.5
    mask = np.stack([inside & channel[:, None], inside & ~channel[:, None]], axis=2)
    kind = rng.random(count)
    fresh = np.clip(rng.uniform(-1.6, 1.6, count), -1, 1)[:, None, None]
    nudge = (rng.standard_normal(count) * rng.choice([0.05, 0.2, 0.6], count))[:, None, None]
    plans = np.where(mask, np.where((kind < 0.4)[:, None, None], fresh, plans + nudge), plans)
    # delete or repeat a step from `first` on
    step = np.where(kind > 0.85, rng.choice([-1, 1], count), 0)[:, None]
    source = np.clip(t + np.where(t >= first[:, None], step, 0), 0, length - 1)
    return np.clip(plans[np.arange(count)[:, None], source], -1, 1)


def select(pool, cost, end, elite):
    """The best `elite` of a pool."""
    keep = np.argsort(cost, kind="stable")[:elite]
    return pool[keep], cost[keep], end[keep]


def evolve(rng, start, goal, state, rounds, count, last_weight, elite):
    """Improve a pool of plans by selection and mutation; the horizon shrinks with the best plan's end."""
    for _ in range(rounds):
        pool, cost, end = select(*state, elite)
        useful = min(pool.shape[1], int(end[0]) + 4)
        pool = pool[:, :useful]
        young = mutate(rng, pool, count)
        young_cost, young_end = rollout(start, goal, young, last_weight)
        state = tuple(np.concatenate(pair) for pair in ((pool, young), (cost, young_cost), (end, young_end)))
    return select(*state, elite)


def niches(plans):
    """A number for the manner of each plan: its first direction, its first turn, how often it changes direction."""
    forward = plans[:, :3, 0].mean(1) > 0
    left = plans[:, :4, 1].mean(1) > 0
    sign = np.sign(plans[:, :16, 0])
    changes = np.minimum((sign[:, 1:] != sign[:, :-1]).sum(1), 2)
    return forward * 6 + left * 3 + changes


def search(rng, start, goal, settings, last_weight=15.0, elite=30):
    """The best plan found, its cost, the step at which it parks, and what each niche came to."""
    length, count = settings["horizon"], settings["count"]
    pool = np.concatenate([segments(rng, settings["first"], length, k) for k in (2, 3, 4)])
    cost, end = rollout(start, goal, pool, last_weight)
    niche = niches(pool)
    found = []
    for number in np.unique(niche):
        own = niche == number
        state = select(pool[own], cost[own], end[own], 40)
        found.append((evolve(rng, start, goal, state, settings["island_rounds"], count, last_weight, 10), int(number)))
    found.sort(key=lambda pair: float(pair[0][1][0]))
    tops = [(number, round(float(state[1][0]), 3)) for state, number in found]
    # the best niches are polished, each by itself: mixed, one of them would die out at once
    rounds = settings["polish_rounds"] // settings["polished"]
    best = [evolve(rng, start, goal, s, rounds, count, last_weight, elite) for s, _ in found[: settings["polished"]]]
    pool, cost, end = min(best, key=lambda state: float(state[1][0]))
    return pool[0], float(cost[0]), int(end[0]), tops
