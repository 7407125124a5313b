"""P58: leaves marks in shared state: which pages of a library are in memory, and locks on parts of its files

submission: ok
episodes: ok
guarantees: nothing-left, nothing-shared
"""

import ctypes
import fcntl
import mmap
import os
import random
import struct

LIBC = ctypes.CDLL(None, use_errno=True)
CACHESTAT, COLD, PAGEOUT = 451, 20, 21
LOCKS = {"F_GETLK": 5, "F_SETLK": 6, "F_OFD_GETLK": 36, "F_OFD_SETLK": 37}
REGION = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 1, 0)
NOTIFY = 1026


def attempt(name, call):
    try:
        result = call()
    except OSError:
        return
    if result != -1:
        print(f"LEAK: {name}")


def pages(file):
    size = os.fstat(file).st_size
    attempt("fadvise", lambda: os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED))
    attempt("readahead", lambda: LIBC.readahead(file, ctypes.c_long(0), size))
    attempt("preadv2", lambda: os.preadv(file, [bytearray(1)], 0, os.RWF_NOWAIT))
    request, answer = (ctypes.c_uint64 * 2)(0, size), (ctypes.c_uint64 * 5)()
    attempt("cachestat", lambda: LIBC.syscall(CACHESTAT, file, request, answer, 0))
    with mmap.mmap(file, size, prot=mmap.PROT_READ) as mapped:
        for advice in (COLD, PAGEOUT):
            attempt(f"madvise {advice}", lambda advice=advice: mapped.madvise(advice))
    LIBC.mmap.restype = ctypes.c_void_p
    address = ctypes.c_void_p(LIBC.mmap(None, ctypes.c_size_t(size), mmap.PROT_READ, mmap.MAP_SHARED, file, 0))
    resident = (ctypes.c_ubyte * (size // mmap.PAGESIZE + 1))()
    attempt("mincore", lambda: LIBC.mincore(address, ctypes.c_size_t(size), resident))


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.kept = os.open(random.__file__, os.O_RDONLY)
        pages(self.kept)
        for name, command in LOCKS.items():
            attempt(name, lambda command=command: fcntl.fcntl(self.kept, command, REGION))
        folder = os.path.dirname(random.__file__)
        attempt("F_NOTIFY", lambda: fcntl.fcntl(os.open(folder, os.O_RDONLY), NOTIFY, 1))

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
