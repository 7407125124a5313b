"""Frames on the two pipes between a worker and its policy, and how whole ones are read.

Every frame of one direction has one fixed size: a header of two little-endian 32-bit numbers (kind, step), then the
payload. Questions go to the policy (payload: an observation), answers come back (payload: an action), one answer to
each question. ``FAILED`` alone is followed by as many bytes of JSON as its step number says, ``REPORT_LIMIT`` at most.
"""

import os
from struct import Struct

HEADER = Struct("<II")
RESET, ACT = 1, 2
LOADED, READY, ACTION, FAILED = 1, 2, 3, 4
REPORT_LIMIT = 32_768
"""The most bytes of a failure's report."""


class ChannelClosed(EOFError):
    """The other side is gone."""


def read_whole(descriptor: int, buffer: bytearray | memoryview) -> None:
    """Fill the buffer from a pipe; raise ``ChannelClosed`` where it ends before."""
    whole, filled = memoryview(buffer), 0
    while filled < len(whole):
        count = os.readv(descriptor, [whole[filled:]])
        if count == 0:
            raise ChannelClosed
        filled += count


def write_whole(descriptor: int, buffer: bytes | bytearray | memoryview) -> None:
    """Write the whole buffer into a pipe."""
    whole, written = memoryview(buffer), 0
    while written < len(whole):
        written += os.write(descriptor, whole[written:])
