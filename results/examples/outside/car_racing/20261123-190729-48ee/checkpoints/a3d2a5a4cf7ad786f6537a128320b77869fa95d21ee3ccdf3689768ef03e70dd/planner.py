"""From the road around the car to a line to drive and the speeds along it."""

import numpy as np
from scipy import ndimage

import vision

STEP = 1.5
HALF_WIDTH = 6.67


def value_at(field, x, y):
    """Bilinear look-up of a metric grid; 0 outside."""
    cols = (np.asarray(x) - vision.X_MIN) / vision.CELL
    rows = (np.asarray(y) - vision.Y_MIN) / vision.CELL
    return ndimage.map_coordinates(field, [np.atleast_1d(rows), np.atleast_1d(cols)], order=1, mode="constant", cval=0.0)


def trace_road(dist, pos, heading, count=62):
    """Walk along the ridge of the distance to the edge of the road, from a place on it and onward."""
    turns = np.radians(np.arange(-32, 33, 4))
    pos = np.array(pos, dtype=float)
    points = [pos]
    for i in range(count):
        cand = heading + turns * (1.6 if i < 2 else 1.0)
        near = np.stack([pos[0] + STEP * np.sin(cand), pos[1] + STEP * np.cos(cand)])
        far = np.stack([pos[0] + 2.6 * STEP * np.sin(cand), pos[1] + 2.6 * STEP * np.cos(cand)])
        both = value_at(dist, np.concatenate([near[0], far[0]]), np.concatenate([near[1], far[1]]))
        gain = np.minimum(both[: len(cand)], 7.0) + np.minimum(both[len(cand) :], 7.0)
        best = int(np.argmax(gain - 0.8 * np.abs(turns)))
        if gain[best] < 2.0 and i > 3:
            break
        heading = cand[best]
        pos = near[:, best]
        points.append(pos)
        if not (vision.X_MIN + 2 < pos[0] < vision.X_MAX - 2 and vision.Y_MIN + 2 < pos[1] < vision.Y_MAX - 2):
            break
    return np.array(points)


def smooth(line, times):
    """Smooth a line of points, its ends fixed."""
    line = line.copy()
    for _ in range(times):
        line[1:-1] = (line[:-2] + 2 * line[1:-1] + line[2:]) / 4
    return line


def racing_line(centre, first, half, most=42):
    """The line of least bending within the road, from where the car is and points to; car at 0, 0, looking up.

    `first` is the point of the middle beside the car. Beyond `most` points the middle itself is kept.
    """
    seg = np.diff(centre, axis=0)
    tangent = np.vstack([seg[:1], (seg[:-1] + seg[1:]) / 2, seg[-1:]])
    tangent /= np.hypot(tangent[:, 0], tangent[:, 1])[:, None] + 1e-9
    normal = np.stack([tangent[:, 1], -tangent[:, 0]], axis=1)  # to the right
    c, n, tg = centre[first : first + most], normal[first : first + most], tangent[first:]
    m = len(c)
    e0 = float(-c[0] @ n[0])
    slope = -np.arctan2(tg[0, 0], tg[0, 1])
    e1 = e0 + STEP * np.tan(np.clip(slope, -0.9, 0.9))
    s = np.arange(m) * STEP
    bound = np.maximum(half, abs(e0) + 0.8 + np.where(s < 6, 0.4 * s, 2.4 - 0.5 * (s - 6)))
    d2 = np.zeros((m - 2, m))
    i = np.arange(m - 2)
    d2[i, i], d2[i, i + 1], d2[i, i + 2] = 1, -2, 1
    fix = np.zeros((2, m))
    fix[0, 0], fix[1, 1] = 3.0, 1.0
    a = np.vstack([d2 * n[:, 0], d2 * n[:, 1], fix, np.eye(m) * 0.004])
    b = np.concatenate([-(d2 @ c[:, 0]), -(d2 @ c[:, 1]), [3.0 * e0, e1], np.zeros(m)])
    offset = bounded_solve(a.T @ a, a.T @ b, bound)
    return np.vstack([c + offset[:, None] * n, centre[first + most :]])


def bounded_solve(h, g, bound):
    """Least x'hx/2 - g'x with every x within its bound: clamp what is over, solve the rest again, let go by sign."""
    x = np.linalg.solve(h, g)
    fixed = np.zeros(len(x), dtype=bool)
    for _ in range(12):
        over = ~fixed & (np.abs(x) > bound + 1e-9)
        slope = h @ x - g
        loose = fixed & (slope * np.sign(x) > 1e-9)
        if not over.any() and not loose.any():
            break
        fixed = (fixed | over) & ~loose
        x = np.clip(x, -bound, bound)
        free = ~fixed
        x[free] = np.linalg.solve(h[np.ix_(free, free)], g[free] - h[np.ix_(free, fixed)] @ x[fixed])
    return np.clip(x, -bound, bound)


def speeds(line, speed, limits, v_end):
    """The speed to have now, and the braking that what lies ahead asks for.

    Backward along the line, with what the bend leaves of the tyres for braking.
    """
    seg = np.diff(line, axis=0)
    length = np.hypot(seg[:, 0], seg[:, 1]) + 1e-9
    head = np.unwrap(np.arctan2(seg[:, 0], seg[:, 1]))
    s = np.concatenate([[0.0], np.cumsum(length)])
    k = 3
    if len(head) <= k:
        return 20.0, 0.0
    curv = np.maximum(np.abs(head[k:] - head[:-k]) / (s[k:-1] - s[: -k - 1]), 1e-4)
    at = (s[k:-1] + s[1:-k]) / 2
    v2 = np.minimum(limits["a_lat"] / curv, limits["v_max"] ** 2)
    after, where = v_end**2, s[-1]
    for i in range(len(v2) - 1, -1, -1):
        used = min(1.0, after * curv[i] / limits["grip"])
        v2[i] = after = min(v2[i], after + 2 * (where - at[i]) * limits["a_brake"] * max(0.25, (1 - used**2) ** 0.5))
        where = at[i]
    room = np.maximum(0.0, at - limits["lead"])
    v_now = np.sqrt((v2 + 2 * limits["a_brake"] * room).min())
    need = ((speed**2 - v2) / (2 * np.maximum(room, 2.0))).max()
    return float(min(limits["v_max"], v_now)), float(max(0.0, need))
