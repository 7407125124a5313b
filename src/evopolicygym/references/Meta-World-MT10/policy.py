"""Does each of the ten tasks by a short script: go beside the object, take or touch it, move it where it belongs.

How it plays: the last ten numbers of an observation say which task it is, and ``tasks.py`` has a script for each: where
the hand is to be now, as seen from hand, object and goal, and whether the gripper closes. Here a hand is only moved to
such a place.
From what: the description says what is observed; from the simulator's source come the order of the ten tasks, where
on an object its position is measured, and that a full command moves the hand's target by a centimetre. Distances were
tried on train cases.
What it lacks: it keeps to its script. What slips from the fingers is taken again from the start, but nothing is tried
in another way the second time.
"""

from typing import Any

import numpy as np
from tasks import TASKS, Scene, Vector

HAND, GRIPPER, THING, GOAL, WHICH = slice(0, 3), 3, slice(4, 7), slice(36, 39), slice(39, 49)
GAIN = 12.0
"""Command for a metre that is left; the hand follows its target with a lag, so this is less than 100."""


class Policy:
    """Moves the hand where a task's script wants it."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Take what the contract gives; nothing of it is needed."""

    def reset(self, episode_index: int) -> None:
        """Forget how long the gripper has been closing, and where the object was."""
        self.closing = 0
        self.first: Vector | None = None

    def act(self, obs: Vector) -> Vector:
        """Return the hand's displacement and the force of the gripper."""
        if self.first is None:
            self.first = obs[THING].copy()
        scene = Scene(obs[HAND], obs[GRIPPER], obs[THING], obs[GOAL], self.first, self.closing)
        place, closes = TASKS[int(np.argmax(obs[WHICH]))](scene)
        self.closing = self.closing + 1 if closes else 0
        move = np.clip((place - scene.hand) * GAIN, -1.0, 1.0)
        return np.append(move, 1.0 if closes else -1.0)
