"""Compiles filters of system calls by libseccomp, through ctypes.

The calls that a filter allows are declared in ``sandbox/seccomp.py``.
"""

import ctypes
import os
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Self

from evopolicygym.core.shortage import shortage_of

LIBRARY = "libseccomp.so.2"
ALLOW = 0x7FFF0000


class Comparison(IntEnum):
    """A comparison of an argument, as libseccomp numbers it."""

    NOT_EQUAL = 1
    EQUAL = 4
    AT_LEAST = 5
    MASKED_EQUAL = 7


class Argument(ctypes.Structure):
    """A condition on the argument of a call with an index: its comparison with a value, or with a mask and a value."""

    _fields_ = (
        ("index", ctypes.c_uint),
        ("comparison", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


def failing(code: int) -> int:
    """Return the action by which a call fails with an error code."""
    return 0x00050000 | code


@dataclass(frozen=True, slots=True)
class Compiler:
    """A filter that is being built."""

    library: ctypes.CDLL
    context: int

    @classmethod
    def begin(cls, default: int) -> Self | None:
        """Return a filter with the action for all calls without a rule; None without libseccomp.

        Raises ``OSError`` if descriptors run out.
        """
        library = _library()
        return None if library is None else cls(library, library.seccomp_init(default))

    def add(self, action: int, call: str, *arguments: Argument) -> None:
        """Add the action for a call if all conditions hold; nothing if this machine doesn't have the call."""
        number = self.library.seccomp_syscall_resolve_name(call.encode())
        if number >= 0:  # negative if this architecture or this libseccomp doesn't know the call
            conditions = (Argument * len(arguments))(*arguments)
            _require(self.library.seccomp_rule_add_array(self.context, action, number, len(arguments), conditions))

    def compiled(self) -> bytes:
        """Return the filter as a program of the kernel, and free it here."""
        with os.fdopen(os.memfd_create("filter"), "w+b") as file:
            code = self.library.seccomp_export_bpf(self.context, file.fileno())
            self.library.seccomp_release(self.context)
            _require(code)
            file.seek(0)
            return file.read()


@cache
def _library() -> ctypes.CDLL | None:
    """Return libseccomp; None where it can't be loaded."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        if shortage_of(error):
            raise
        return None
    pointer, word = ctypes.c_void_p, ctypes.c_uint32
    library.seccomp_init.argtypes, library.seccomp_init.restype = (word,), pointer
    library.seccomp_release.argtypes, library.seccomp_release.restype = (pointer,), None
    library.seccomp_rule_add_array.argtypes = (pointer, word, ctypes.c_int, ctypes.c_uint, pointer)
    library.seccomp_export_bpf.argtypes = (pointer, ctypes.c_int)
    library.seccomp_syscall_resolve_name.argtypes = (ctypes.c_char_p,)
    return library


def _require(code: int) -> None:
    if code < 0:
        raise OSError(-code, os.strerror(-code))
