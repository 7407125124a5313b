"""P65: asks the kernel about others: mounts and their paths, clocks of other processes, what is in memory, load

submission: ok
episodes: ok
guarantees: nothing-shared, system-calls-filtered
"""

import ctypes
import os
import random
import resource
import time

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
STATMOUNT, LISTMOUNT, OPENAT2 = 457, 458, 437
USTAT, GETRUSAGE, IO_SUBMIT = {"aarch64": (-1, 165, 2)}.get(os.uname().machine, (136, 98, 209))
ROOT_OF_MOUNTS = (1 << 64) - 1
RESOLVE_CACHED = 0x20
OTHERS = range(1, 200)


def report_success(name, answer):
    if answer >= 0:
        print(f"LEAK: {name}")


def mounts():
    request, found = (ctypes.c_uint64 * 4)(24, ROOT_OF_MOUNTS, 0, 0), (ctypes.c_uint64 * 512)()
    ctypes.c_uint32.from_buffer(request).value = 24
    report_success("listmount", LIBC.syscall(LISTMOUNT, request, found, 512, 0))
    request[2] = 0x3F
    report_success("statmount", LIBC.syscall(STATMOUNT, request, found, ctypes.sizeof(found), 0))


def clocks():
    for number in OTHERS:
        if number != os.getpid():
            try:
                print(f"LEAK: processor time of {number}: {time.clock_gettime((~number << 3) | 2)}")
            except OSError:
                pass


def memory():
    how = (ctypes.c_uint64 * 3)(os.O_RDONLY, 0, RESOLVE_CACHED)
    report_success("names in memory", LIBC.syscall(OPENAT2, -100, random.__file__.encode(), how, 24))
    try:
        print(f"LEAK: major faults: {resource.getrusage(resource.RUSAGE_SELF).ru_majflt}")
    except OSError:
        pass
    if USTAT >= 0:
        report_success("ustat", LIBC.syscall(USTAT, os.stat(random.__file__).st_dev, (ctypes.c_uint64 * 8)()))
    report_success("io_submit", LIBC.syscall(IO_SUBMIT, 0, 0, None))


def pipes():
    for number in range(5):
        try:
            print(f"LEAK: a pipe's number {os.fstat(number).st_ino}")
        except OSError:
            pass


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        for look in (mounts, clocks, memory, pipes):
            look()

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
