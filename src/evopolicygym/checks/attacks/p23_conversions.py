"""P23: acts with an object whose conversions run code, to run it on the judge's side

submission: ok
episodes: ok
"""

import os
import sys

import numpy as np

POLICY_PROCESS = os.getpid()


def report(name):
    if os.getpid() != POLICY_PROCESS:
        print(f"LEAK: {name} ran in process {os.getpid()}")
    if "gymnasium" in sys.modules:
        print(f"LEAK: {name} ran beside the simulator")


class Trap(float):
    def __float__(self):
        report("__float__")
        return 0.0

    def __int__(self):
        report("__int__")
        return 0

    __index__ = __int__

    def __array__(self, *_, **__):
        report("__array__")
        return np.zeros((), np.int64)

    def __iter__(self):
        report("__iter__")
        return iter([0.0])

    def tolist(self):
        report("tolist")
        return [0.0] * 10_000_000

    def __reduce__(self):
        return print, ("LEAK: unpickled",)


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return Trap(0)
