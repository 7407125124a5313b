"""P56: is honest, prints, and uses numpy: a control that shows that policies play

submission: ok
episodes: ok
"""

import numpy as np


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        print("made")

    def reset(self, episode_index):
        print(f"reset {episode_index}")

    def act(self, obs):
        return int(np.asarray(obs, float).ravel()[-2:].sum() > 0)
