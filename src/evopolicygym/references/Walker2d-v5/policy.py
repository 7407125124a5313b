"""Stands on both feet side by side until the time is over, and doesn't walk.

How it plays: every step that it has not fallen is paid, so it balances, by the regulator that ``stance.py`` describes.
Its legs are alike: the gains of the left one are those of the right one with the legs' parts exchanged.
From what: the description says what is observed and what is paid; the gains follow from the simulator's model.
What it lacks: speed, for which several times as much is paid. It doesn't lift a foot.
"""

import numpy as np
from stance import Stance

OTHER_LEG = [0, 1, 5, 6, 7, 2, 3, 4, 8, 9, 10, 14, 15, 16, 11, 12, 13]
"""For each element of an observation the one that is the same of the other leg."""


class Policy(Stance):
    """Two feet, six joints."""

    def reset(self, episode_index: int) -> None:
        """Give the left leg what the right one has."""
        super().reset(episode_index)
        self.torques = np.tile(self.torques, 2)
        self.gains = np.concatenate([self.gains, self.gains[:, OTHER_LEG]])
