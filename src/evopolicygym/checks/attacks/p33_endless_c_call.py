"""P33: computes forever in one C call that no thread interrupts, all signals ignored

submission: ok
episodes: timeout
played: 1
"""

import signal


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.steps = 0

    def reset(self, episode_index):
        pass

    def act(self, obs):
        self.steps += 1
        if self.steps == 3:
            for number in range(1, 65):
                try:
                    signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError):
                    pass
            sum(range(10**13))
        return 0
