"""P08: reaches for the network: TCP, UDP, names, sockets of other programs, the kernel's

submission: ok
episodes: ok
guarantees: no-network
"""

import json
import socket

DECOYS = json.load(open("decoys.json"))


def attempts():
    yield "TCP", lambda: socket.create_connection(("127.0.0.1", DECOYS["port"]), 1).close()
    yield "TCP over IPv6", lambda: socket.create_connection(("::1", DECOYS["port"]), 1).close()
    yield "UDP", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", DECOYS["port"]))
    yield "abstract socket", lambda: socket.socket(socket.AF_UNIX).connect("\0" + DECOYS["socket"])
    yield "a socket of its own", lambda: socket.socket(socket.AF_INET).bind(("127.0.0.1", 0))
    yield "netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).bind((0, 0))
    yield "packets", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
    yield "the hypervisor", lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
    yield "a pair", lambda: socket.socketpair()


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        for name, attempt in attempts():
            try:
                attempt()
                print(f"LEAK: {name}")
            except OSError:
                pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
