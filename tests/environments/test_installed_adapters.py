"""Adapters of packs with a Python of their own, with the real simulators, where they are installed."""

import json
import os
import subprocess
from typing import Any

import pytest

from evopolicygym.specs import pack_catalog
from installed_packs import installed_packs
from places import ROOT

pytestmark = pytest.mark.nightly

BEGIN = """
import json, sys
sys.path.insert(0, sys.argv[1])
import gymnasium, importlib
import numpy as np
importlib.import_module(f"evopolicygym.environments.adapters.{sys.argv[2]}")

def leaves(observation):
    if isinstance(observation, dict):
        return [leaf for name in sorted(observation) for leaf in leaves(observation[name])]
    return np.asarray(observation).ravel().tolist()

def first(environment, seed):
    return leaves(environment.reset(seed=seed)[0])

def steps(environment, seed, most):
    environment.reset(seed=seed)
    environment.action_space.seed(seed)
    for _ in range(most):
        observation, reward, terminated, truncated, _ = environment.step(environment.action_space.sample())
        yield leaves(observation), float(reward), bool(terminated), bool(truncated)
        if terminated or truncated:
            return

def say(**found):
    print(json.dumps(found))

"""
"""What each program begins with; it is run on the pack's Python, with the adapter of the pack imported."""


def said(pack: str, program: str) -> Any:
    """Return what a program says on a pack's own Python; skip the test where the pack isn't installed."""
    with pytest.MonkeyPatch.context() as patch:
        (found,) = installed_packs(patch, pack)
    line = [str(found.interpreter), "-P", "-W", "ignore", "-c", BEGIN + program, str(ROOT / "src"), pack]
    done = subprocess.run(
        line, capture_output=True, text=True, check=False, timeout=300, env={**os.environ, "PYTHONPATH": ""}
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("pack", ["craftax", "metaworld", "jumanji", "nle", "procgen", "simglucose"])
def test_every_task_is_registered(pack: str) -> None:
    """Each id that the pack names is known to gymnasium once the adapter is imported."""
    registered = said(pack, "say(ids=list(gymnasium.registry))")["ids"]

    assert {task.id for task in pack_catalog.load(pack).tasks} - set(registered) == set()


def test_a_goal_of_metaworld_is_placed_by_the_seed() -> None:
    """A seed gives the same scene after others and in another simulator, another seed another goal, in sight."""
    found = said(
        "metaworld",
        """
environment, another = (gymnasium.make("Meta-World/reach-v3") for _ in range(2))
say(one=first(environment, 3), other=first(environment, 4), none=leaves(environment.reset()[0]),
    again=first(environment, 3), elsewhere=first(another, 3))
""",
    )

    assert found["one"] == found["again"] == found["elsewhere"]
    assert len({str(found[name][-3:]) for name in ("one", "other", "none")}) == 3
    assert any(found["one"][-3:])


def test_an_episode_of_metaworld_repeats() -> None:
    """The same actions after the same seed give the same steps, and an episode ends after 500."""
    found = said(
        "metaworld",
        """
environment = gymnasium.make("Meta-World/push-v3")
played = [list(steps(environment, 5, 600)) for _ in range(2)]
say(same=played[0] == played[1], length=len(played[0]), truncated=played[0][-1][3])
""",
    )

    assert found == {"same": True, "length": 500, "truncated": True}


def test_ten_tasks_of_metaworld_are_one() -> None:
    """The seed decides which of the ten is played, an observation says which, and its task repeats."""
    found = said(
        "metaworld",
        """
environment = gymnasium.make("Meta-World/MT10")
firsts = [first(environment, seed) for seed in range(24)]
again = [first(environment, seed) for seed in reversed(range(24))][::-1]
say(same=firsts == again, which=[one[-10:] for one in firsts],
    inside=all(environment.observation_space.contains(np.array(one)) for one in firsts))
""",
    )
    which = [one.index(1.0) for one in found["which"]]

    assert (found["same"], found["inside"]) == (True, True)
    assert all(sum(one) == 1.0 for one in found["which"])
    assert len(set(which)) > 5


@pytest.mark.parametrize("game", ["Game2048-v1", "Maze-v0"])
def test_a_game_of_jumanji_is_decided_by_the_seed(game: str) -> None:
    """A seed gives the same game after others and in another simulator, and another seed another one."""
    found = said(
        "jumanji",
        f"""
environment, another = (gymnasium.make("jumanji/{game}") for _ in range(2))
played = [list(steps(one, 3, 20)) for one in (environment, environment, another)]
say(one=first(environment, 3), other=[first(environment, seed) for seed in (4, 5, 6)],
    again=first(environment, 3), elsewhere=first(another, 3), same=played[0] == played[1] == played[2])
""",
    )

    assert found["one"] == found["again"] == found["elsewhere"]
    assert any(other != found["one"] for other in found["other"])
    assert found["same"]


def test_a_game_of_jumanji_ends_once() -> None:
    """Before its last step an episode is neither terminated nor truncated, at its last step it is one of both."""
    found = said(
        "jumanji",
        """
environment = gymnasium.make("jumanji/Game2048-v1")
say(ends=[step[2:] for step in steps(environment, 3, 2000)])
""",
    )["ends"]

    assert set(map(tuple, found[:-1])) == {(False, False)}
    assert sorted(found[-1]) == [False, True]


def test_two_games_of_jumanji_at_once() -> None:
    """Two simulators of one game share what was compiled, and neither state nor chance."""
    found = said(
        "jumanji",
        """
one, other = (gymnasium.make("jumanji/Game2048-v1") for _ in range(2))
alone = list(steps(one, 3, 10))
with_other = []
mine, theirs = steps(one, 3, 10), steps(other, 4, 10)
for step in mine:
    with_other.append(step)
    next(theirs, None)
say(same=alone == with_other)
""",
    )

    assert found["same"]


def test_a_game_of_nethack_is_decided_by_the_seed() -> None:
    """A seed gives the same dungeon after other games and in another process's game, and another seed another one."""
    program = """
environment = gymnasium.make("NetHackScore-v0")
say(one=first(environment, 3), other=first(environment, 4), again=first(environment, 3))
"""
    found, later = said("nle", program), said("nle", program)

    assert found["one"] == found["again"] == later["one"]
    assert found["one"] != found["other"]


def test_a_level_of_procgen_is_decided_by_the_seed() -> None:
    """A seed gives the same level after others and in another simulator, and another seed another one.

    A seed that names no level is refused.
    """
    found = said(
        "procgen",
        """
environment, another = (gymnasium.make("procgen/starpilot") for _ in range(2))
asked = (environment, 3), (environment, 4), (environment, 3), (another, 3)
played = [list(steps(one, seed, 60)) for one, seed in asked]
try:
    environment.reset(seed=2**31)
    refused = False
except ValueError:
    refused = True
say(same=played[0] == played[2] == played[3], other=played[0] != played[1], refused=refused)
""",
    )

    assert found == {"same": True, "other": True, "refused": True}


def test_a_world_of_craftax_is_decided_by_the_seed() -> None:
    """A seed gives the same world after others and in another simulator, and another seed another one."""
    found = said(
        "craftax",
        """
environment, another = (gymnasium.make("craftax/Craftax-Symbolic-v1") for _ in range(2))
asked = (environment, 3), (environment, 2**100), (environment, 3), (another, 3)
played = [list(steps(one, seed, 60)) for one, seed in asked]
say(same=played[0] == played[2] == played[3], other=played[0] != played[1])
""",
    )

    assert found == {"same": True, "other": True}


def test_a_day_of_simglucose_is_decided_by_the_seed() -> None:
    """A seed gives the same day after others and in another simulator, and another seed another patient and meals."""
    found = said(
        "simglucose",
        """
environment, another = (gymnasium.make("simglucose/Day-v0") for _ in range(2))

def played(one, seed):
    one.reset(seed=seed)
    return [leaves(one.step(np.zeros(1, np.float32))[0]) for _ in range(40)]

asked = (environment, 3), (environment, 4), (environment, 3), (another, 3)
days = [played(*one) for one in asked]
say(same=days[0] == days[2] == days[3], other=days[0] != days[1])
""",
    )

    assert found == {"same": True, "other": True}


def test_a_patient_who_is_lost_costs_the_rest_of_the_day() -> None:
    """No policy gains by ending a day early: what is left of it is paid as if it were far out of the range."""
    found = said(
        "simglucose",
        """
environment = gymnasium.make("simglucose/Day-v0")
environment.reset(seed=3)
returned, ended, count = 0.0, False, 0
while not ended:
    _, reward, ended, truncated, _ = environment.step(np.full(1, 5, np.float32))
    returned, count, ended = returned + reward, count + 1, ended or truncated
say(returned=returned, count=count)
""",
    )

    assert found["count"] < 480
    assert found["returned"] < -50
