"""P64: talks to processes that live at the same time: futexes on shared pages, counts of the machine and of a user, pipes

submission: ok
episodes: ok
guarantees: nothing-shared
"""

import ctypes
import errno
import mmap
import os
import random
import signal

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
LIBC.mmap.restype = ctypes.c_void_p
NUMBERS = {
    "aarch64": {
        "futex": 98,
        "io_setup": 0,
        "pipe2": 59,
        "prctl": 167,
        "timer_create": 107,
        "epoll_create1": 20,
        "dup": 23,
    }
}.get(
    os.uname().machine,
    {
        "futex": 202,
        "io_setup": 206,
        "pipe2": 293,
        "prctl": 157,
        "timer_create": 222,
        "epoll_create1": 291,
        "dup": 32,
    },
)
WAIT, WAKE, WAIT_BITSET = 0, 1, 9
PR_SET_PDEATHSIG = 1


def system_call(name, *arguments):
    ctypes.set_errno(0)
    return LIBC.syscall(NUMBERS[name], *arguments)


def report_success(name, answer):
    if answer >= 0:
        print(f"LEAK: {name}")


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        file = os.open(random.__file__, os.O_RDONLY)
        page = LIBC.mmap(None, ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ, mmap.MAP_SHARED, file, ctypes.c_long(0))
        page, soon = ctypes.c_void_p(page), (ctypes.c_long * 2)(0, 1_000_000)
        report_success("woke whoever waits on a library's page", system_call("futex", page, WAKE, 64, None, None, 0))
        for operation in (WAIT, WAIT_BITSET):
            value = ctypes.c_uint32.from_address(page.value).value
            system_call("futex", page, operation, value, soon, None, 0xFFFFFFFF)
            if ctypes.get_errno() == errno.ETIMEDOUT:
                print("LEAK: waited on a library's page")
        report_success("AIO counts", system_call("io_setup", 8, (ctypes.c_ulong * 1)(0)))
        report_success("a pipe", system_call("pipe2", (ctypes.c_int * 2)(), 0))
        report_success("a timer", system_call("timer_create", 1, None, (ctypes.c_int * 1)()))
        report_success("an epoll", system_call("epoll_create1", 0))
        report_success("its output once more", system_call("dup", 1))
        report_success("parent-death signal off", system_call("prctl", PR_SET_PDEATHSIG, 0, 0, 0, 0))
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
        if getattr(LIBC, "raise")(signal.SIGRTMIN) == 0:
            print("LEAK: a signal with data waits, of which a user has so many in all")

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
