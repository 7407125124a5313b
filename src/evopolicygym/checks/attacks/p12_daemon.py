"""P12: starts a daemon that answers later episodes

submission: ok
episodes: ok
guarantees: nothing-left
"""

import os
import socket
import time

NAME, LIFE_S = "\0evopolicygym-attack-daemon", 20


def serve():
    os.setsid()
    if os.fork():
        os._exit(0)
    for descriptor in range(64):
        try:
            os.close(descriptor)
        except OSError:
            pass
    server = socket.socket(socket.AF_UNIX)
    server.bind(NAME)
    server.listen()
    server.settimeout(LIFE_S)
    try:
        while True:
            server.accept()[0].close()
    finally:
        os._exit(0)


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        try:
            socket.socket(socket.AF_UNIX).connect(NAME)
            print("LEAK: an earlier episode's daemon answered")
        except OSError:
            pass
        try:
            if os.fork() == 0:
                serve()
            print("LEAK: a daemon was started")
            os.wait()
            time.sleep(0.1)
        except OSError:
            pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
