"""P41: starts processes, and threads without an end

submission: ok
episodes: ok, error, died
guarantees: processes-limited
"""

import _thread
import os
import threading
import time

PROCESSES, THREADS, LIFE_S = 20, 500, 2


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.steps = 0
        threading.stack_size(32 << 10)

    def reset(self, episode_index):
        self.episode = episode_index

    def act(self, obs):
        self.steps += 1
        if self.steps == 2 and self.episode % 2 == 0:
            for _ in range(PROCESSES):
                if os.fork() == 0:
                    time.sleep(LIFE_S)
                    os._exit(0)
            print(f"LEAK: {PROCESSES} processes")
        if self.steps == 2 and self.episode % 2:
            for count in range(THREADS):
                try:
                    _thread.start_new_thread(time.sleep, (LIFE_S,))  # waits for none of them to begin
                except RuntimeError:
                    print(f"thread {count} was refused")
                    break
        return 0
