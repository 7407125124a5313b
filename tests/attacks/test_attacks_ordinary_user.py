"""A sandbox as an ordinary user builds it: where these tests run as root, they step down for a moment."""

import pytest

from ordinary_user import run

pytestmark = pytest.mark.needs_root

PROGRAM = """
import json, sys
from evopolicygym.specs.catalog import load
from evopolicygym.checks.sandbox import run_attacks
from evopolicygym.checks.sandbox import attack, parse_attack
which = [parse_attack(name) if "\\n" in name else attack(name) for name in sys.argv[1:]]
for verdict in run_attacks("bubblewrap", load("cartpole"), which):
    print(json.dumps([verdict.attack.id, verdict.outcome.endings, verdict.outcome.faults(verdict.attack)]))
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
