"""P35: refuses to end: endless exit handlers, destructors and threads

submission: ok
episodes: ok
"""

import atexit
import signal
import threading
import time


def forever():
    while True:
        time.sleep(0.1)


class Undying:
    def __del__(self):
        forever()


KEPT = Undying()
atexit.register(forever)


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        threading.Thread(target=forever).start()
        import sys

        sys.stdout.flush = forever

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
