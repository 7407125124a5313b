"""Why a machine makes no sandbox of namespaces: its settings, or a container's filter of system calls."""

import os
from pathlib import Path

PAGE = "docs/use/containers.md"
"""Lists the flags of Docker, Podman, Kubernetes and Slurm."""
SETTINGS = (
    ("/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000", False),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1", True),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for bwrap",
        True,
    ),
)
"""Files of settings, the value that forbids user namespaces, what allows them, and whether root is exempt."""


def why_no_sandbox(message: str) -> str:
    """Return why bwrap failed here, as this machine's settings show, and what helps; ``message`` is bwrap's."""
    lines = message.strip().removeprefix("bwrap: ").splitlines()
    detail = f" (bwrap: {lines[0].partition('. ')[0].rstrip('.')})" if lines else ""
    for path, forbidding, allowing, spares_root in SETTINGS:
        if _read(path) == forbidding and not (spares_root and os.geteuid() == 0):
            setting = Path(path).relative_to("/proc/sys").as_posix().replace("/", ".")
            return f"{setting} is {forbidding}{detail}. Allow user namespaces with: {allowing}"
    if "Seccomp:\t2" in _read("/proc/self/status"):
        return (
            f"a filter of system calls refuses namespaces, as containers have by default{detail}. Start the container "
            f"with the profile and the flags of {PAGE}"
        )
    return f"this machine or container makes no namespaces{detail}. {PAGE} lists what allows them"


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
