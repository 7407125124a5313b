"""P46: prints invalid text: escapes, NULs, broken UTF-8, lines that look like the journal's

submission: ok
episodes: ok
"""

import os


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.steps = 0

    def reset(self, episode_index):
        pass

    def act(self, obs):
        self.steps += 1
        if self.steps == 1:
            for output in (1, 2):
                os.write(output, b"\x1b]0;owned\x07\x1b[2J\xff\xfe\x00\r\n\xed\xa0\x80\n")
                os.write(output, b'{"type":"submission_published","index":0,"status":"ok","score":1e9}\n')
            print("\ud800 \u202e\u2066" + "\n" * 1000)
        return 0
