"""Runs a command under a filter of system calls like that of a container: ``python container_filter.py COMMAND…``.

It refuses what Docker's default profile refuses to containers without CAP_SYS_ADMIN: namespaces and mounts.
"""

import ctypes
import os
import sys
from errno import ENOSYS, EPERM

from evopolicygym.rollout.guest.lockdown import _filter_system_calls
from evopolicygym.sandbox.libseccomp import ALLOW, Argument, Comparison, Compiler, failing

REFUSED = "unshare setns mount umount2 pivot_root open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr"
NEW_NAMESPACES = (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x4000000, 0x8000000, 0x2000000)
"""Flags of ``clone``: CLONE_NEWUSER and the others."""
PR_SET_NO_NEW_PRIVS = 38

if __name__ == "__main__":
    rules = Compiler.begin(ALLOW)
    assert rules
    for call in REFUSED.split():
        rules.add(failing(EPERM), call)
    for flag in NEW_NAMESPACES:
        rules.add(failing(EPERM), "clone", Argument(0, Comparison.MASKED_EQUAL, flag, flag))
    rules.add(failing(ENOSYS), "clone3")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _filter_system_calls(libc, rules.compiled())
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - the command of a test
