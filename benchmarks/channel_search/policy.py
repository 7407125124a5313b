"""The writer and the reader of a channel search: makes given system calls and prints a checksum of their results.

``plan.json`` beside it has the name of a module, the arguments of every try of each call, and the descriptors and
addresses among these arguments, which are set up here.
"""

import ctypes
import importlib
import json
import mmap
import os
import signal
import time
import zlib

with open("plan.json") as file:
    PLAN = json.load(file)
FILE, DIRECTORY, NULL, BUFFER, PATH, TIMEOUT, MAPPED = PLAN["places"]
PAGE = 4096
FIXED = 0x100000
BLOCKS_S = 0.001
LIBC = ctypes.CDLL(None, use_errno=True)
CONTENT = {
    BUFFER: (2).to_bytes(8, "little") + bytes(PAGE - 8),
    TIMEOUT: (0).to_bytes(8, "little") + int(BLOCKS_S * 1e9).to_bytes(8, "little"),
}


def prepare(library):
    place = importlib.import_module(library).__file__
    CONTENT[PATH] = place.encode() + b"\0"
    for number, path in ((FILE, place), (DIRECTORY, os.path.dirname(place)), (NULL, "/dev/null")):
        os.dup2(os.open(path, os.O_RDONLY), number)
    LIBC.mmap.restype = ctypes.c_void_p
    private, shared = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | FIXED, mmap.MAP_SHARED | FIXED
    for address in (BUFFER, PATH, TIMEOUT):
        LIBC.mmap(ctypes.c_void_p(address), ctypes.c_size_t(PAGE), 3, private, -1, ctypes.c_long(0))
    LIBC.mmap(ctypes.c_void_p(MAPPED), ctypes.c_size_t(PAGE), 1, shared, FILE, ctypes.c_long(0))
    for item in (signal.SIGALRM, signal.SIGIO, signal.SIGURG, *range(signal.SIGRTMIN, signal.SIGRTMAX + 1)):
        signal.signal(item, lambda *_: None)


def make_call(number, arguments):
    """Make a call; return its result and the buffer. It is interrupted if it blocks."""
    for address, content in CONTENT.items():
        ctypes.memmove(address, content, len(content))
    ctypes.set_errno(0)
    signal.setitimer(signal.ITIMER_REAL, BLOCKS_S, BLOCKS_S)
    answer = LIBC.syscall(ctypes.c_long(number), *(ctypes.c_uint64(argument) for argument in arguments))
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.closerange(5, FILE)  # descriptors that it opened
    os.closerange(NULL + 1, NULL + 4)
    return f"{answer} {ctypes.get_errno()}".encode() + ctypes.string_at(BUFFER, PAGE)


def sweep():
    """Make every call of the plan; return a checksum for each."""
    LIBC.syscall.restype = ctypes.c_long
    checksums = {}
    for call in PLAN["calls"]:
        checksum = 0
        for arguments in call["tries"]:
            checksum = zlib.crc32(make_call(call["number"], arguments), checksum)
        checksums[call["name"]] = checksum
    return checksums


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass

    def reset(self, episode_index):
        if not PLAN["calls"]:
            return
        prepare(PLAN["library"])
        end = time.monotonic() + PLAN["seconds"]
        checksums = sweep()
        while time.monotonic() < end:
            sweep()
        print(json.dumps(checksums), flush=True)

    def act(self, obs):
        return 0
