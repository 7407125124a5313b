"""P25: is asynchronous: act returns a coroutine or a generator

submission: ok
episodes: invalid_action
"""


async def coroutine():
    return 0


def generator():
    yield 0


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass

    def reset(self, episode_index):
        self.make = (coroutine, generator)[episode_index % 2]

    def act(self, obs):
        return self.make()
