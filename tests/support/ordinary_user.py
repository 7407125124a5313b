"""Commands as an ordinary user runs them: where these tests run as root, they step down for a moment."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

STEP_DOWN = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"]
IN_SIGHT = """
set -e
place=$(mktemp -d)
mount --bind "$2" "$place"
mount -t tmpfs -o mode=755 tmpfs "$1"
mkdir -p "$2"
mount --move "$place" "$2"
rmdir "$place"
shift 2
exec "$@"
"""
"""Shows a directory that lies below one which only root may enter, in mounts of the command's own."""


def ordinary_user() -> list[str]:
    """The words before a command that run it as an ordinary user; skips the test where there are none."""
    if os.geteuid():
        return []
    if not shutil.which("setpriv"):
        pytest.skip("these tests run as root, and there is no setpriv to step down with")
    closed = [one for one in Path(sys.base_prefix).parents if not one.stat().st_mode & 0o001]
    words = STEP_DOWN
    if closed:
        words = ["unshare", "-m", "sh", "-c", IN_SIGHT, "sh", str(closed[-1]), sys.base_prefix, *STEP_DOWN]
    tried = run(words, "-c", "import evopolicygym.checks.sandbox")
    if tried.returncode:
        pytest.skip(f"an ordinary user can't run this Python here: {tried.stderr.strip()[-200:]}")
    return words


def run(words: list[str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run this Python after some words, without any variable that names a place of root's."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return subprocess.run(
        [*words, sys.executable, "-B", *arguments], capture_output=True, text=True, check=False, cwd="/", env=kept
    )
