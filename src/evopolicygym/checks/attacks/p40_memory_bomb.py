"""P40: takes more memory than it may, on the heap and as a mapping

submission: ok
episodes: memory, error
guarantees: memory-limited
"""

import mmap

PIECE, ENOUGH = 64 << 20, 24


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.steps = 0

    def reset(self, episode_index):
        self.episode = episode_index

    def act(self, obs):
        self.steps += 1
        if self.steps == 2:
            take = (lambda: bytes(PIECE)) if self.episode % 2 == 0 else (lambda: mmap.mmap(-1, PIECE))
            kept = [take() for _ in range(ENOUGH)]
            print(f"LEAK: {len(kept) * PIECE >> 20} MiB")
        return 0
