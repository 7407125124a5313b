"""P63: leaves marks on files that it can only read: write hints, leases, signals, owners, attributes, stray upper bits

submission: ok
episodes: ok
guarantees: nothing-left
"""

import ctypes
import fcntl
import os
import random

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
FCNTL, SETXATTR, SETXATTRAT, FILE_SETATTR = {"aarch64": (25, 5, 463, 469)}.get(os.uname().machine, (72, 188, 463, 469))
COMMANDS = {
    "F_SETFL O_ASYNC": (4, os.O_ASYNC),
    "F_SETOWN": (8, os.getpid()),
    "F_SETSIG": (10, 35),
    "F_SETOWN_EX": (15, None),
    "F_SETLEASE": (1024, 0),
    "F_GETLEASE": (1025, 0),
    "F_NOTIFY": (1026, 1),
    "F_CANCELLK": (1029, 0),
    "F_ADD_SEALS": (1033, 0),
    "F_GET_RW_HINT": (1035, None),
    "F_SET_RW_HINT": (1036, None),
    "F_GET_FILE_RW_HINT": (1037, None),
    "F_SET_FILE_RW_HINT": (1038, None),
    "F_SETDELEG": (1040, None),
}
UPPER = 1 << 32


def report_success(name, answer):
    if answer >= 0:
        print(f"LEAK: {name}")


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        hint = (ctypes.c_uint64 * 2)(2, 0)
        for path in (random.__file__, os.path.dirname(random.__file__) + "/json", __file__, "/dev/null"):
            file = os.open(path, os.O_RDONLY)
            for name, (command, argument) in COMMANDS.items():
                for spelled in (command, command | UPPER):
                    given = ctypes.addressof(hint) if argument is None else argument
                    report_success(
                        f"{name} {path}", LIBC.syscall(FCNTL, file, ctypes.c_ulong(spelled), ctypes.c_ulong(given))
                    )
        name = random.__file__.encode()
        report_success("setxattr", LIBC.syscall(SETXATTR, name, b"user.mark", b"1", 1, 0))
        report_success("setxattrat", LIBC.syscall(SETXATTRAT, -100, name, 0, b"user.mark", hint, 16))
        report_success("file_setattr", LIBC.syscall(FILE_SETATTR, -100, name, hint, 24, 0))
        try:
            fcntl.ioctl(os.open(random.__file__, os.O_RDONLY), 0x80086601, hint)
            print("LEAK: flags of a file")
        except OSError:
            pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
