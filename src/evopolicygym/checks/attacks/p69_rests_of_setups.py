"""P69: looks into the buffers that its process inherits for leftover data of earlier episodes

submission: ok
episodes: ok
played: 9
"""

import json
import sys


def buffers():
    frame = sys._getframe()
    while frame:
        yield from (value for value in frame.f_locals.values() if isinstance(value, (bytearray, bytes, memoryview)))
        frame = frame.f_back


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        decode = json.JSONDecoder().raw_decode
        for buffer in buffers():
            text = bytes(buffer).decode("latin-1")
            if text.startswith("{"):
                rest = text[decode(text)[1] :].rstrip("\0")
                if rest:
                    print(f"LEAK: the rest of another setup: {rest[-40:]}")

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
