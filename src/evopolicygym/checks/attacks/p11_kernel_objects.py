"""P11: leaves marks in the kernel: shared memory, queues, keys, locks, memory files, times of access

submission: ok
episodes: ok
guarantees: nothing-left
"""

import ctypes
import fcntl
import os

KEY, CREATE, REMOVE = 0x45504741, 0o1666, 0
LIBC = ctypes.CDLL(None, use_errno=True)
ADD_KEY, KEYCTL = {"aarch64": (217, 219)}.get(os.uname().machine, (248, 250))
SEARCH, UNLINK, USER_KEYRING = 10, 9, -4
NAME = b"evopolicygym-attack"


def system_v():
    for kind, find, make, remove in (
        ("shared memory", lambda: LIBC.shmget(KEY, 4096, 0), lambda: LIBC.shmget(KEY, 4096, CREATE), LIBC.shmctl),
        ("message queue", lambda: LIBC.msgget(KEY, 0), lambda: LIBC.msgget(KEY, CREATE), LIBC.msgctl),
        ("semaphores", lambda: LIBC.semget(KEY, 1, 0), lambda: LIBC.semget(KEY, 1, CREATE), LIBC.semctl),
    ):
        found = find()
        if found >= 0:
            print(f"LEAK: {kind} of an earlier episode")
            remove(found, REMOVE, 0)
        elif make() >= 0:
            print(f"LEAK: {kind} made")


def key():
    found = LIBC.syscall(KEYCTL, SEARCH, USER_KEYRING, b"user", NAME, 0)
    if found > 0:
        print("LEAK: a key of an earlier episode")
        LIBC.syscall(KEYCTL, UNLINK, found, USER_KEYRING)
    elif LIBC.syscall(ADD_KEY, b"user", NAME, b"x", 1, USER_KEYRING) > 0:
        print("LEAK: a key kept")


def queue():
    if LIBC.mq_open(b"/" + NAME, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600, None) >= 0:
        print("LEAK: a queue made")
        LIBC.mq_unlink(b"/" + NAME)


def lock(file):
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError where an earlier episode still holds it


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        system_v()
        key()
        queue()
        self.kept = open(__file__)
        try:
            lock(self.kept)
        except BlockingIOError:
            print("LEAK: a lock of an earlier episode")
        except OSError:
            pass
        else:
            print("LEAK: a lock that other episodes see")
        if LIBC.memfd_create(NAME, 0) >= 0:
            print("LEAK: a memory file")

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
