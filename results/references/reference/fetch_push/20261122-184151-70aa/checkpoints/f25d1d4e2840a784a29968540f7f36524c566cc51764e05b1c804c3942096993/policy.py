"""Goes behind the block, as seen from the goal, and pushes it there in a straight line.

At full command the gripper moves by 0.032 m a step in each axis, almost without lag, so that an error divided by this
is the command that ends it in one step. Where the block is in the way, the gripper goes over it. While it pushes, it
stays on the line from the goal through the block: to whichever side the block slips, the gripper moves to push it
back. The push slows down before the goal, and ends when the block is well within it.
"""

from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[np.float64]]
STEP = 0.032
"""How far the gripper moves in a step at full command, m."""
ENOUGH = 0.03
"""How near the goal the block is left alone, m."""
BEHIND = 0.075
"""How far behind the block's centre the gripper goes down, m."""
TOUCHING, ALIGNED, LOW = 0.02, 0.022, 0.045
"""The gripper may push where it is so far behind the block's centre, so near to the line, and so low above it, m."""
SPEED_GAIN, SIDE_GAIN = 9.0, 14.0
"""Command for a metre that is left, and for a metre beside the line."""
SLOWEST = 0.12
OVER = 0.075
"""How far above the block's centre the gripper passes over it, m."""
CLEARANCE = 0.058
"""How near the block's centre the straight way at the block's level may pass, m."""
ARRIVING = 0.05


class Policy:
    """Goes behind the block and pushes."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Take what the contract gives; nothing of it is needed."""

    def reset(self, episode_index: int) -> None:
        """Do nothing: all that is needed is seen."""

    def act(self, obs: dict[str, Any]) -> Vector:
        """Return the gripper's next displacement."""
        block, gripper = obs["achieved_goal"], obs["observation"][:3]
        to_goal = (obs["desired_goal"] - block)[:2]
        left = float(np.hypot(*to_goal))
        if left < ENOUGH:
            return np.zeros(4)
        ahead = to_goal / left
        across = np.array([-ahead[1], ahead[0]])
        from_block = gripper - block
        along, beside = float(from_block[:2] @ ahead), float(from_block[:2] @ across)
        if along < -TOUCHING and abs(beside) < ALIGNED and from_block[2] < LOW:
            speed = min(1.0, max(SLOWEST, SPEED_GAIN * left))
            push = ahead * speed - across * SIDE_GAIN * beside
            return bounded(*push, -from_block[2] / STEP, 0.0)
        return self.approach(-ahead * BEHIND, from_block)

    def approach(self, place: Vector, from_block: Vector) -> Vector:
        """Return the displacement towards a place behind the block, over it where it is in the way."""
        way = place - from_block[:2]
        far = float(np.hypot(*way))
        portion = float(np.clip(-from_block[:2] @ way / (far * far + 1e-9), 0.0, 1.0))
        passing = float(np.hypot(*(from_block[:2] + portion * way)))
        height = OVER if passing < CLEARANCE and far > ARRIVING else 0.0
        return bounded(*(way / STEP), (height - from_block[2]) / STEP, 0.0)


def bounded(*command: float) -> Vector:
    """Return a command as an action."""
    return np.array([min(1.0, max(-1.0, value)) for value in command])
