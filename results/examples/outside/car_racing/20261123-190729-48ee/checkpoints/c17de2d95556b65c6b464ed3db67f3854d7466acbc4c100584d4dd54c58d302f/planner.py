"""From the road around the car to a line to drive and the speeds along it."""

import numpy as np
from scipy import ndimage
from scipy.optimize import lsq_linear

import vision

STEP = 1.5
HALF_WIDTH = 6.67


def value_at(field, x, y):
    """Bilinear look-up of a metric grid; 0 outside."""
    cols = (np.asarray(x) - vision.X_MIN) / vision.CELL
    rows = (np.asarray(y) - vision.Y_MIN) / vision.CELL
    return ndimage.map_coordinates(field, [np.atleast_1d(rows), np.atleast_1d(cols)], order=1, mode="constant", cval=0.0)


def trace_road(dist):
    """Walk along the ridge of the distance to the edge of the road, from the car onward."""
    turns = np.radians(np.arange(-32, 33, 4))
    pos = np.array([0.0, -1.0])
    heading = 0.0  # 0 is straight ahead, positive to the right
    if value_at(dist, 0.0, 0.0)[0] < 0.6:  # off the road: begin at the nearest road ahead
        near = (dist > 4.0) & (vision.GRID_Y > -3)
        if not near.any():
            return np.array([[0.0, 0.0]])
        away = np.where(near, np.hypot(vision.GRID_X, vision.GRID_Y - 3.0), 1e9)
        i = np.unravel_index(np.argmin(away), away.shape)
        return np.array([[0.0, 0.0], [vision.GRID_X[i], vision.GRID_Y[i]]])
    points = [pos]
    for i in range(45):
        cand = heading + turns * (1.6 if i < 3 else 1.0)
        near = np.stack([pos[0] + STEP * np.sin(cand), pos[1] + STEP * np.cos(cand)])
        far = np.stack([pos[0] + 2.6 * STEP * np.sin(cand), pos[1] + 2.6 * STEP * np.cos(cand)])
        gain = np.minimum(value_at(dist, *near), 7.0) + 1.0 * np.minimum(value_at(dist, *far), 7.0)
        best = int(np.argmax(gain - 0.8 * np.abs(turns)))
        if gain[best] < 2.0 and i > 3:
            break
        heading = cand[best]
        pos = near[:, best]
        points.append(pos)
        if not (vision.X_MIN + 2 < pos[0] < vision.X_MAX - 2 and pos[1] < vision.Y_MAX - 2 and pos[1] > -5):
            break
    return np.array(points)


def smooth(line, times):
    """Smooth a line of points, its ends fixed."""
    line = line.copy()
    for _ in range(times):
        line[1:-1] = (line[:-2] + 2 * line[1:-1] + line[2:]) / 4
    return line


def racing_line(centre, half):
    """The line of least bending within the road, from where the car is and points to; car at 0, 0, looking up."""
    seg = np.diff(centre, axis=0)
    tangent = np.vstack([seg[:1], (seg[:-1] + seg[1:]) / 2, seg[-1:]])
    tangent /= np.hypot(tangent[:, 0], tangent[:, 1])[:, None]
    normal = np.stack([tangent[:, 1], -tangent[:, 0]], axis=1)  # to the right
    first = int(np.argmin(np.hypot(centre[:8, 0], centre[:8, 1])))
    c, n, tg = centre[first:], normal[first:], tangent[first:]
    m = len(c)
    if m < 6:
        return c
    e0 = float(-c[0] @ n[0])
    slope = -np.arctan2(tg[0, 0], tg[0, 1])
    e1 = e0 + STEP * np.tan(np.clip(slope, -0.9, 0.9))
    s = np.arange(m) * STEP
    bound = np.maximum(half, abs(e0) + 0.8 + np.where(s < 6, 0.4 * s, 2.4 - 0.5 * (s - 6)))
    d2 = np.zeros((m - 2, m))
    i = np.arange(m - 2)
    d2[i, i], d2[i, i + 1], d2[i, i + 2] = 1, -2, 1
    rows = [d2 * n[:, 0], d2 * n[:, 1]]
    rhs = [-(d2 @ c[:, 0]), -(d2 @ c[:, 1])]
    fix = np.zeros((2, m))
    fix[0, 0], fix[1, 1] = 3.0, 1.0
    rows.append(fix)
    rhs.append(np.array([3.0 * e0, 1.0 * e1]))
    rows.append(np.eye(m) * 0.004)
    rhs.append(np.zeros(m))
    answer = lsq_linear(np.vstack(rows), np.concatenate(rhs), (-bound, bound), method="bvls", max_iter=60)
    return c + answer.x[:, None] * n


def speeds(line, a_lat, a_brake, v_end, v_max):
    """The speed now from which every bend ahead can still be met."""
    seg = np.diff(line, axis=0)
    length = np.hypot(seg[:, 0], seg[:, 1])
    head = np.unwrap(np.arctan2(seg[:, 0], seg[:, 1]))
    s = np.concatenate([[0.0], np.cumsum(length)])
    k = 3
    if len(head) <= k:
        return 20.0
    curv = np.abs(head[k:] - head[:-k]) / (s[k:-1] - s[: -k - 1])
    at = (s[k:-1] + s[1:-k]) / 2
    v_bend = np.sqrt(a_lat / np.maximum(curv, 1e-3))
    v_now = np.sqrt(v_bend**2 + 2 * a_brake * np.maximum(0, at - 1.5))
    end = np.sqrt(v_end**2 + 2 * a_brake * s[-1])
    return float(min(v_max, v_now.min(), end))
