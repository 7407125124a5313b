"""P03: reads and traces the memory of its parent, of the first process and of the judge

submission: ok
episodes: ok
guarantees: other-processes-hidden
"""

import ctypes
import errno
import json
import os

DECOYS = json.load(open("decoys.json"))
PTRACE_SEIZE, PTRACE_DETACH = 0x4206, 17
LIBC = ctypes.CDLL(None, use_errno=True)


class Span(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def can_read(process):
    here = ctypes.create_string_buffer(8)
    mine, theirs = Span(ctypes.addressof(here), 8), Span(id(DECOYS), 8)
    count = LIBC.process_vm_readv(process, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0)
    return count > 0 or ctypes.get_errno() == errno.EFAULT  # EFAULT: permitted, but a wrong address


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        for process in {os.getppid(), 1, DECOYS["process"]} - {os.getpid(), 0}:
            if can_read(process):
                print(f"LEAK: read the memory of process {process}")
            if LIBC.ptrace(PTRACE_SEIZE, process, 0, 0) == 0:
                print(f"LEAK: traced process {process}")
                LIBC.ptrace(PTRACE_DETACH, process, 0, 0)
            try:
                open(f"/proc/{process}/mem", "rb").close()
                print(f"LEAK: opened the memory of process {process}")
            except OSError:
                pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
