"""P17: writes forged messages into every pipe that is open

submission: ok
episodes: died
"""

import json
import os
import struct

BODIES = (
    {"type": "action", "action": 0},
    {"type": "done", "reward": 1e9, "score": 1e9},
    {"returns": [1e9], "ok": True},
)


def forged_messages():
    for body in (json.dumps(message).encode() for message in BODIES):
        yield body + b"\n"
        for form in (">I", "<I", ">Q", "<Q"):
            yield struct.pack(form, len(body)) + body
    for kind in range(6):
        yield struct.pack("<IIq", kind, 1000, 0)


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.steps = 0

    def reset(self, episode_index):
        pass

    def act(self, obs):
        self.steps += 1
        if self.steps == 2:
            for number in range(1, 64):
                try:
                    for message in forged_messages():
                        os.write(number, message)
                except OSError:
                    pass
        return 0
