"""What a policy's process is called tells it nothing: numbers of processes and threads, and the times of its files."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from evopolicygym.agents.builtin.scripted import ScriptedAgent, Submit, Write
from evopolicygym.core.agent import AgentConfig
from evopolicygym.sandbox.levels import choose
from ordinary_user import run
from playground import Playground, local_executor, one_worker, policy
from simulators import spec
from whole_runs import config, played

NUMBERS = """
import ctypes, json, threading
def numbers():
    started = [threading.Thread(target=int) for _ in range(3)]
    for one in started:
        one.start()
    return [os.getpid(), threading.get_native_id(), [one.native_id for one in started], os.getppid(), os.getpgrp()]
def capabilities():
    libc, held = ctypes.CDLL(None), (ctypes.c_uint32 * 6)()
    libc.capget((ctypes.c_uint32 * 2)(0x20080522, 0), held)
    bounding, ambient = ([libc.prctl(*ask, one, 0, 0, 0) for one in range(41)] for ask in ((23,), (47, 1)))
    return [*held, *bounding, *ambient]
"""
SHOW = policy(reset="print(json.dumps(numbers()))", top=NUMBERS)
"""Prints its numbers."""
STARTS_THREADS = policy(reset="for _ in range(20): numbers()", top=NUMBERS)
DIES = policy(act="os._exit(3)")
DAEMON = """
if os.fork() == 0:
    os.setsid()
    while True:
        time.sleep(60)
"""
ATTACK_ON_THE_ZYGOTE = """
libc = ctypes.CDLL(None, use_errno=True)
for kind in (9, 19, 15, 2, 6):
    try:
        os.kill(1, kind)
    except PermissionError:
        pass
traced = [libc.ptrace(kind, 1, 0, 0) for kind in (16, 0x4206)]
apart = [libc.unshare(kind) for kind in (0x20000000, 0x20000, 0x10000000)]
print(json.dumps([traced, apart, capabilities()]))
"""
"""Signals, tracing, namespaces of its own, and what it could do all that by."""
PROGRAM = """
import json, sys
from evopolicygym.specs.catalog import load
from evopolicygym.checks.sandbox import run_attacks
from evopolicygym.checks.sandbox import parse_attack
for verdict in run_attacks("bubblewrap", load("cartpole"), [parse_attack(sys.argv[1])] * 2):
    print(json.dumps([verdict.outcome.endings, verdict.outcome.leaks]))
"""
TELLS = f'''"""P02: tells its numbers

submission: ok
episodes: ok
promised: bubblewrap
played: 2
"""
import os
{NUMBERS}

class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        print("LEAK:", numbers())

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
'''


@pytest.fixture(autouse=True, scope="module")
def _walled() -> None:
    found = choose("auto").findings.get("process numbers", "no namespaces")
    if found != "the same in every episode":
        pytest.skip(f"process numbers: {found}")


@pytest.fixture(scope="module")
def unfiltered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    """A worker as on a machine without libseccomp, where only namespaces and capabilities hold."""
    with one_worker(
        "bubblewrap", spec("Plain", 1), tmp_path_factory.mktemp("unfiltered"), change="without_filter"
    ) as ground:
        yield ground


def make_showing(_config: AgentConfig) -> ScriptedAgent:
    """Submit policies that print their numbers and the times of their files, and one that starts threads."""
    show = policy(reset="print(numbers(), [os.stat(at)[7:9] for at in ('.', 'policy.py')])", top=NUMBERS)
    steps: list[Write | Submit] = [Write("policy.py", show), Submit((0, 1, 2)), Write("policy.py", STARTS_THREADS)]
    return ScriptedAgent([*steps, Submit((3, 4)), Write("policy.py", f"{show}#"), Submit((0, 1, 2, 5))])


def test_numbers_don_t_tell_what_was_played(tmp_path: Path) -> None:
    """Every episode of either worker has the same numbers, whatever died, was loaded or started threads before."""
    with local_executor("bubblewrap", spec("Plain", 1), tmp_path, workers=2) as ground:
        seen = [one.read() for one in ground.play(SHOW, *range(3))]
        for between in (STARTS_THREADS, DIES):
            ground.play(between, *range(3))
            assert ground.load(between) is None
            seen += [one.read() for one in ground.play(SHOW, *range(3))]
        seen += [one.read() for one in ground.play(f"{SHOW}# scipy", *range(3))]

    assert (len(seen), len(set(seen))) == (12, 1)


def test_validation_can_t_be_told_from_train(tmp_path: Path) -> None:
    """Over a whole run on two cores, no episode's numbers or files' times differ from another's."""
    told = played(config(tmp_path, f"{__name__}:make_showing", budget=9, workers=2))
    places = ("workspace/feedback", "evaluation/validation", "evaluation/held_out")
    found = [[path.read_text() for path in (told.paths.root / one).rglob("stdout.txt")] for one in places]
    shown = [[text for text in some if text] for some in found]

    assert [len(some) for some in shown] == [7, 4, 3]
    assert len({text for some in shown for text in some}) == 1


@pytest.mark.parametrize("level", ["bubblewrap", "process"])
def test_files_don_t_tell_when_they_were_submitted(tmp_path: Path, level: str) -> None:
    """A policy's files have the same times in every episode, after they were read too."""
    body = "open('policy.py').read(); print([tuple(os.stat(at))[7:9] for at in ('.', 'policy.py', 'beside.py')])"
    with one_worker(level, spec("Plain", 1), tmp_path) as ground:
        seen = [ground.play_one(policy(reset=body), beside=f"seen = {place}").read() for place in range(2)]
        seen += [one.read() for one in ground.play(policy(reset=body), 1, 2, beside="seen = 3")]

    assert [seen[0]] * 4 == seen
    assert "0)" in seen[0]


@pytest.mark.needs_root
def test_as_an_ordinary_user(ordinary: list[str]) -> None:
    """Without any right of root's the numbers are the same too."""
    done = run(ordinary, "-c", PROGRAM, TELLS)
    if "bubblewrap can't make a sandbox here" in done.stderr:
        pytest.skip(done.stderr.strip()[-300:])
    found = [json.loads(line) for line in done.stdout.splitlines()]

    assert (done.returncode, found) == (0, [[["ok", "ok"], ["LEAK: [2, 2, [3, 4, 5], 1, 0]"]]] * 2), done.stderr


@pytest.mark.needs_root
def test_no_capabilities_are_left(unfiltered: Playground) -> None:
    """What a zygote keeps to count with, a policy has in none of its sets."""
    held = json.loads(unfiltered.play_one(policy(reset="print(capabilities())", top=NUMBERS)).read())

    assert {0} == set(held)


@pytest.mark.needs_root
def test_the_zygote_can_t_be_reached(unfiltered: Playground) -> None:
    """Even without a filter a policy can't signal or trace the zygote, nor make namespaces as it does."""
    before = unfiltered.play_one(SHOW)
    attacked = json.loads(unfiltered.play_one(policy(reset=ATTACK_ON_THE_ZYGOTE, top=NUMBERS)).read())
    after = unfiltered.play_one(SHOW)

    assert [[-1] * 2, [-1] * 3, [0] * len(attacked[2])] == attacked
    assert (before.read(), before.episode.failure) == (after.read(), after.episode.failure)


def test_what_outlives_a_policy_ends_with_it(unfiltered: Playground) -> None:
    """Even without a filter no process of one episode is there in the next, or takes a number from it."""
    first = unfiltered.play_one(SHOW)
    unfiltered.play_one(policy(reset=DAEMON))
    seen = unfiltered.play_one(policy(reset="print(json.dumps([numbers(), os.kill(-1, 0)]))", top=NUMBERS))

    assert seen.episode.failure is not None
    assert "ProcessLookupError" in seen.read("error.txt")
    assert first.read() == unfiltered.play_one(SHOW).read()


@pytest.mark.needs_root
def test_where_numbers_can_t_be_set(tmp_path: Path) -> None:
    """Where the kernel doesn't let a zygote count again, episodes are played all the same, and the record says so."""
    with one_worker("bubblewrap", spec("Plain", 1), tmp_path, change="without_last_number") as ground:
        seen = [ground.play_one(policy(reset="print(capabilities())", top=NUMBERS)) for _ in range(2)]
        found = ground.executor.info.findings["process numbers"]

    assert [one.episode.failure for one in seen] == [None, None]
    assert {0} == {held for one in seen for held in json.loads(one.read())}
    assert "[Errno 2]" in found
