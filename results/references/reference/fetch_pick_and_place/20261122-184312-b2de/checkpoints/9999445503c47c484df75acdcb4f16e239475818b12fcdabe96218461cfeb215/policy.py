"""Straddles the block with the open gripper, closes it, and carries the block straight to the goal.

At full command the gripper moves by 0.032 m a step in each axis, almost without lag, so that an error divided by this
is the command that ends it in one step. The fingers are apart along y: the gripper comes down as soon as it is aligned
in y, while it may still be moving in x, and the fingers are no wider apart than they have to be, so that closing takes
one step. A block that slips out is gone for again.
"""

from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[np.float64]]
STEP = 0.032
"""How far the gripper moves in a step at full command, m."""
OVER_BLOCK = 0.05
"""How far above the block the gripper stays until it is aligned in y, m."""
ALIGNED = 0.036
"""Within how much of the block in y the gripper may come down, m."""
CLOSE_WITHIN = (0.06, 0.028, 0.05)
"""Within how much of the block in x, y and z the fingers begin to close, m."""
TOUCHING, WITHIN_GRASP = 0.03, 0.02
"""How far each finger is from the closed position when it holds the block, and the block from the gripper, m."""
LIFT = 0.012
"""How far above the goal the block is carried while it is far, so that it doesn't drag on the table, m."""
FAR = 0.05
LOST = 0.06
"""How far the block is from the gripper when it has slipped out, m."""


class Policy:
    """Approaches, grasps and carries."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Take what the contract gives; nothing of it is needed."""

    def reset(self, episode_index: int) -> None:
        """Begin with open hands."""
        self.closing = self.holding = False

    def act(self, obs: dict[str, Any]) -> Vector:
        """Return the gripper's next displacement and its opening."""
        goal, block, seen = obs["desired_goal"], obs["achieved_goal"], obs["observation"]
        to_block = block - seen[:3]
        distance = float(np.linalg.norm(to_block))
        if self.holding and distance > LOST:
            self.closing = self.holding = False
        self.closing = self.closing or bool(np.all(np.abs(to_block) < CLOSE_WITHIN))
        self.holding = self.holding or (self.closing and seen[9:11].mean() < TOUCHING and distance < WITHIN_GRASP)
        displacement = self.carry(goal - block) if self.holding else self.approach(to_block)
        return self.command(displacement, -1.0 if self.closing else 1.0)

    def approach(self, to_block: Vector) -> Vector:
        """Return the displacement that brings the open fingers around the block."""
        aligned = abs(to_block[1]) < ALIGNED
        found: Vector = to_block + np.array([0.0, 0.0, 0.0 if aligned else OVER_BLOCK])
        return found

    def carry(self, to_goal: Vector) -> Vector:
        """Return the displacement that brings the block to the goal."""
        far = bool(np.max(np.abs(to_goal[:2])) > FAR)
        found: Vector = to_goal + np.array([0.0, 0.0, LIFT if far else 0.0])
        return found

    def command(self, displacement: Vector, finger: float) -> Vector:
        """Return the action for a displacement in m and a command of the fingers."""
        found: Vector = np.clip([*(displacement / STEP), finger], -1.0, 1.0)
        return found
