"""Runs a command under a filter of system calls like that of a container: ``python container_filter.py COMMAND…``.

It refuses what Docker's default profile refuses to containers without CAP_SYS_ADMIN: namespaces and mounts.
"""

import ctypes
import os
import sys
from errno import ENOSYS, EPERM

import pyseccomp

REFUSED = "unshare setns mount umount2 pivot_root open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr"
NEW_NAMESPACES = (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x4000000, 0x8000000, 0x2000000)
"""Flags of ``clone``: CLONE_NEWUSER and the others."""
PR_SET_NO_NEW_PRIVS = 38

if __name__ == "__main__":
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for call in REFUSED.split():
        rules.add_rule(pyseccomp.ERRNO(EPERM), call)
    for flag in NEW_NAMESPACES:
        rules.add_rule(pyseccomp.ERRNO(EPERM), "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    rules.add_rule(pyseccomp.ERRNO(ENOSYS), "clone3")
    ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    rules.load()
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - the command of a test
