"""P53: looks for programs that run with more rights, and for any it can run

submission: ok
episodes: ok
guarantees: no-privileges, system-calls-filtered
"""

import os
import subprocess
import sys

PLACES = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/libexec", "/usr/lib/openssh")
PROGRAMS = (
    "su",
    "sudo",
    "mount",
    "newgrp",
    "passwd",
    "pkexec",
    "bwrap",
    "nsenter",
    "docker",
    "sh",
    "true",
    "python3",
    "git",
)


def paths():
    yield sys.executable
    yield from (os.path.join(place, name) for place in PLACES for name in PROGRAMS)


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        for path in paths():
            try:
                mode = os.stat(path).st_mode
                print(f"sees {path}" + (", with more rights" if mode & 0o6000 else ""))
                subprocess.run([path, "--version"], capture_output=True, timeout=5)
                print(f"LEAK: ran {path}")
            except (OSError, subprocess.SubprocessError):
                pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
