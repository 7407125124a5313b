"""P37: raises exceptions that ordinary handlers don't catch, the channel's own among them

submission: ok
episodes: error, died
played: 7
"""

import sys


def exceptions():
    closed = sys.modules["guest.layout"].ChannelClosed
    return (
        SystemExit(0),
        KeyboardInterrupt(),
        GeneratorExit(),
        BaseException("b"),
        StopIteration(),
        closed(),
        EOFError(),
    )


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.steps = 0

    def reset(self, episode_index):
        self.episode = episode_index

    def act(self, obs):
        self.steps += 1
        if self.steps == 4:
            raise exceptions()[self.episode % 7]
        return 0
