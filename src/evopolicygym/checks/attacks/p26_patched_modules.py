"""P26: patches clocks, json, struct and the code around it, then oversleeps or raises

submission: ok
episodes: timeout, error
played: 2
"""

import builtins
import json
import os
import struct
import sys
import time

sleep = time.sleep
LIE = '{"reason": "ok", "message": "all is well", "score": 1000000000.0}'


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.steps = 0
        json.dumps = lambda *_, **__: LIE
        struct.pack = lambda *_: b"\0\0\0\1"
        time.time = time.monotonic = time.perf_counter = time.process_time = lambda: 0.0
        builtins.print = lambda *_, **__: None
        for name, module in list(sys.modules.items()):
            if name.startswith("guest") and hasattr(module, "_reason"):
                module._reason = lambda _: "ok"

    def reset(self, episode_index):
        self.episode = episode_index

    def act(self, obs):
        self.steps += 1
        if self.steps == 3 and self.episode == 0:
            sleep(3600)
        if self.steps == 3:
            raise RuntimeError("never told")
        return 0
