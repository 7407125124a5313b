"""P10: leaves files for later episodes: beside its code, in scratch, at home

submission: ok
episodes: ok
guarantees: nothing-left
"""

import os
import sys

PLACES = (
    *(".", "/", "/tmp", "/var/tmp", "/dev", "/dev/shm", "/dev/mqueue", "/run", "/run/lock", "/policy", "/usr/lib"),
    *(os.path.expanduser("~"), os.path.dirname(os.__file__), sys.prefix),
    *filter(None, sys.path),
)


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        for place in sorted(set(map(os.path.realpath, PLACES))):
            mark = os.path.join(place, "evopolicygym-attack-mark")
            try:
                if os.path.exists(mark):
                    print(f"LEAK: an earlier episode left {mark}")
                    os.remove(mark)
                else:
                    open(mark, "w").close()
            except OSError:
                pass
        for code in (__file__, os.__file__):
            try:
                open(code, "ab").close()
                print(f"LEAK: {code} can be written")
            except OSError:
                pass
        try:
            os.utime(__file__, (1, 1))
            print("LEAK: times can be written")
        except OSError:
            pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
