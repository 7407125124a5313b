"""P54: reads shared measurements: load, memory, mounts, groups, keys, locks

submission: ok
episodes: ok
guarantees: nothing-shared
"""

import os

FILES = (
    *(f"/proc/{name}" for name in ("loadavg", "meminfo", "stat", "uptime", "diskstats", "net/dev", "keys", "locks")),
    *(f"/proc/self/{name}" for name in ("cgroup", "mountinfo", "mounts", "limits", "environ", "cmdline")),
    *("/proc/timer_list", "/sys/fs/cgroup/cgroup.procs", "/sys/class/thermal/thermal_zone0/temp", "/etc/mtab"),
)


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        for path in FILES:
            try:
                open(path).read(1)
                print(f"LEAK: read {path}")
            except OSError:
                pass
        for name, measure in (("load", os.getloadavg), ("room on disk", lambda: os.statvfs("."))):
            try:
                print(f"LEAK: {name}: {measure()}")
            except OSError:
                pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
