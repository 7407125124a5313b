"""P67: looks for the packs of this machine: imports their simulators, lists their files, runs their Python

submission: ok
episodes: ok
guarantees: host-files-hidden, system-calls-filtered
"""

import importlib
import json
import os
import subprocess
import sys

PACKS = json.load(open("decoys.json"))["packs"]
SIMULATORS = (
    "ale_py metaworld dm_control shimmy mujoco nle vizdoom jumanji jax gym_pusht flappy_bird_gymnasium far_away"
).split()
LIBRARY = f"python/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


def installations():
    yield PACKS
    for name in ("ale", "metaworld", "dm_control", "nle", "faraway"):
        yield os.path.join(PACKS, name)


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        for directory in installations():
            for below in ("", LIBRARY):
                try:
                    print(f"LEAK: lists {os.listdir(os.path.join(directory, below))}")
                except OSError:
                    pass
            for file in ("installed.json", "python/pyvenv.cfg", "x"):
                path = os.path.join(directory, file)
                for mode in ("rb", "ab"):
                    try:
                        open(path, mode).close()
                        print(f"LEAK: opened {path} ({mode})")
                    except OSError:
                        pass
            try:
                subprocess.run([os.path.join(directory, "python/bin/python"), "-c", "0"], timeout=5)
                print(f"LEAK: ran the Python of {directory}")
            except (OSError, subprocess.SubprocessError):
                pass
            sys.path.insert(0, os.path.join(directory, LIBRARY))
        for name in SIMULATORS:
            try:
                importlib.import_module(name)
                print(f"LEAK: imported {name}")
            except ImportError:
                pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
