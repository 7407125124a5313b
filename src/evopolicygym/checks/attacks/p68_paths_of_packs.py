"""P68: looks for paths of packs: in variables, arguments, errors, maps, its own arguments

submission: ok
episodes: ok
guarantees: host-names-hidden
"""

import json
import os
import sys
import traceback

import numpy as np

PACKS = json.load(open("decoys.json"))["packs"]
NAMES = (PACKS, os.path.join("evopolicygym", "packs"), "site-packages")
OF_ITSELF = ("cmdline", "environ", "maps", "mountinfo", "mounts", "exe", "cwd", "root", "fdinfo/3")


def errors():
    for cause in (
        lambda: __import__("ale_py"),
        lambda: np.zeros(2).reshape(3),
        lambda: np.load("nowhere"),
        lambda: np.linalg.inv(np.zeros((2, 2))),
        lambda: open(os.path.join(os.getcwd(), "nowhere")),
        lambda: os.execv(sys.executable, ["python3"]),
    ):
        try:
            cause()
        except Exception:
            yield "an error", traceback.format_exc()


def visible_texts(*given):
    yield from os.environ.items()
    yield from (("an argument", item) for item in (*sys.argv, *sys.orig_argv, *sys.path, sys.prefix, sys.executable))
    yield from ((name, str(getattr(module, "__file__", ""))) for name, module in list(sys.modules.items()))
    yield from (("what it was given", repr(item)) for item in given)
    yield from errors()
    yield "the stack", "".join(traceback.format_stack())
    for name in OF_ITSELF:
        for process in ("self", os.getppid(), 1):
            path = f"/proc/{process}/{name}"
            for read in (lambda path: open(path, "rb").read().decode("utf-8", "replace"), os.readlink):
                try:
                    yield path, read(path)
                except OSError:
                    pass


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        for name, text in visible_texts(obs_space, action_space, env_meta):
            if any(item in text for item in NAMES):
                print(f"LEAK: {name} names {text[:200]!r}")

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
