"""P62: starts threads with the smallest of stacks until it is refused

submission: ok
episodes: ok, died
guarantees: processes-limited
"""

import _thread
import ctypes
import threading
import time

MOST, LIFE_S = 1200, 1.5
M_ARENA_MAX = -8


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.steps = 0
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)  # otherwise each thread reserves address space, which is limited
        threading.stack_size(32 << 10)

    def reset(self, episode_index):
        pass

    def act(self, obs):
        self.steps += 1
        if self.steps == 2:
            for count in range(MOST):
                try:
                    _thread.start_new_thread(time.sleep, (LIFE_S,))
                except RuntimeError:
                    print(f"thread {count} was refused")
                    break
            else:
                time.sleep(LIFE_S / 3)
                print(f"LEAK: {MOST} threads at once")
        return 0
