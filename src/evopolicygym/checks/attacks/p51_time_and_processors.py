"""P51: takes more time and processors: clock, priority, limits, processors, real time

submission: ok
episodes: ok
guarantees: no-privileges, system-calls-filtered
"""

import os
import resource
import time


def attempts():
    yield "the clock", lambda: time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME))
    yield "its priority", lambda: os.setpriority(os.PRIO_PROCESS, 0, -5)
    yield "its niceness", lambda: os.nice(-5)
    yield "its memory", lambda: resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
    yield "its processor time", lambda: resource.setrlimit(resource.RLIMIT_CPU, (-1, -1))
    yield "its parent's limits", lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CORE, (0, 0))
    yield "its processors", lambda: os.sched_setaffinity(0, range(os.cpu_count()))
    yield "its parent's processors", lambda: os.sched_setaffinity(os.getppid(), range(os.cpu_count()))
    yield "real time", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    yield "idling", lambda: os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        for name, attempt in attempts():
            try:
                attempt()
                print(f"LEAK: set {name}")
            except (OSError, ValueError):
                pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
