"""P09: submits to the judge from act, at an address that it was given

submission: ok
episodes: ok
guarantees: no-network
"""

import json
import urllib.error
import urllib.request

DECOYS = json.load(open("decoys.json"))


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.asked = False

    def reset(self, episode_index):
        pass

    def act(self, obs):
        if not self.asked:
            self.asked = True
            for path, body in (("/info", None), ("/submit", b'{"env_instances": [0], "wait": false}')):
                try:
                    urllib.request.urlopen(DECOYS["url"] + path, body, timeout=0.2)
                    print(f"LEAK: {path} answered")
                except urllib.error.HTTPError as error:
                    print(f"LEAK: {path} answered {error.code}")
                except OSError:
                    pass
        return 0
