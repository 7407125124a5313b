"""Stands on its foot until the time is over, and doesn't hop.

How it plays: every step that it has not fallen is paid, so it balances, by the regulator that ``stance.py`` describes:
the torques of thigh, leg and foot are linear in the errors of height, angles and velocities.
From what: the description says what is observed and what is paid; the gains follow from the simulator's model.
What it lacks: speed, for which as much again and more is paid. A hopping gait would have to catch itself at each
landing, far from the posture around which the regulator holds.
"""

from stance import Stance


class Policy(Stance):
    """One foot, three joints."""
