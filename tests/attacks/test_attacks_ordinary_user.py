"""A sandbox as an ordinary user builds it: where these tests run as root, they step down for a moment."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, sys
from evopolicygym.specs.catalog import load
from evopolicygym.checks.attack_suite import besiege
from evopolicygym.checks.attack import attack, read
which = [read(name) if "\\n" in name else attack(name) for name in sys.argv[1:]]
for verdict in besiege("bubblewrap", load("cartpole"), which):
    print(json.dumps([verdict.attack.id, verdict.came.endings, verdict.came.faults(verdict.attack)]))
"""
THREADS = '''"""P41: starts five hundred threads

submission: ok
episodes: ok
promised: bubblewrap
played: 1
"""

import threading
import time


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        threading.stack_size(32 << 10)
        try:
            for _ in range(500):
                threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
            print("LEAK: all threads")
        except RuntimeError:
            pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
'''
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


@pytest.fixture
def ordinary() -> list[str]:
    """The words before a command that run it as an ordinary user; skips the test where there are none."""
    if os.geteuid():
        return []
    if not shutil.which("setpriv"):
        pytest.skip("these tests run as root, and there is no setpriv to step down with")
    closed = [one for one in Path(sys.base_prefix).parents if not one.stat().st_mode & 0o001]
    words = STEP_DOWN
    if closed:
        words = ["unshare", "-m", "sh", "-c", IN_SIGHT, "sh", str(closed[-1]), sys.base_prefix, *STEP_DOWN]
    tried = run(words, "-c", "import evopolicygym.checks.attack_suite")
    if tried.returncode:
        pytest.skip(f"an ordinary user can't run this Python here: {tried.stderr.strip()[-200:]}")
    return words


def run(words: list[str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run this Python after some words, without any variable that names a place of root's."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return subprocess.run(
        [*words, sys.executable, "-B", *arguments], capture_output=True, text=True, check=False, cwd="/", env=kept
    )


def test_policies_play_as_an_ordinary_user(ordinary: list[str]) -> None:
    """Without any right of root's, bubblewrap holds what it promises, threads are counted, and honest policies play."""
    done = run(ordinary, "-c", PROGRAM, "P01", "P41", "P47", THREADS, "P56")
    if "bubblewrap can't make a sandbox here" in done.stderr:
        pytest.skip(done.stderr.strip()[-300:])
    found = [line.strip() for line in done.stdout.splitlines()]

    assert (done.returncode, found) == (
        0,
        [
            '["P01", ["ok", "ok", "ok"], []]',
            '["P41", ["error", "ok", "error"], []]',
            '["P47", ["error", "error", "error"], []]',
            '["P41", ["ok"], []]',
            '["P56", ["ok", "ok", "ok"], []]',
        ],
    ), done.stderr
