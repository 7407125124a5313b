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


ADAPTED = {
    "craftax": "craftax/Craftax-Symbolic-v1",
    "crafter": "crafter/CrafterSymbolic-v1",
    "flatland": "flatland/Trains-v0",
    "grid2op": "grid2op/Attack-v0",
    "jsbgym": "C172-TurnHeadingControlTask-Shaping.STANDARD-NoFG-v0",
    "jumanji": "jumanji/Snake-v1",
    "kore": "kore/Balanced-v0",
    "metaworld": "Meta-World/reach-v3",
    "minihack": "MiniHack-River-v0",
    "nle": "NetHackScore-v0",
    "procgen": "procgen/chaser",
    "robosuite": "robosuite/Lift",
    "simglucose": "simglucose/Day-v0",
}
"""A task of every pack with an adapter."""


@pytest.mark.parametrize("pack", ADAPTED)
def test_every_task_is_registered(pack: str) -> None:
    """Each id that the pack names is known to gymnasium once the adapter is imported."""
    registered = said(pack, "say(ids=list(gymnasium.registry))")["ids"]

    assert {task.id for task in pack_catalog.load(pack).tasks} - set(registered) == set()


@pytest.mark.parametrize("pack", ADAPTED)
def test_a_reset_without_a_seed_follows_from_the_last_seed(pack: str) -> None:
    """Episodes after a seeded one repeat in another simulator, and another seed has others."""
    found = said(
        pack,
        f"""
def follow(seed):
    environment = gymnasium.make("{ADAPTED[pack]}")
    environment.reset(seed=seed)
    played = []
    for _ in range(3):
        played.append(leaves(environment.reset()[0]))
        for _ in range(5):
            environment.step(environment.action_space.sample())
    return played

follow(1)
say(one=follow(5), again=follow(5), other=follow(6))
""",
    )

    assert found["one"] == found["again"] != found["other"]


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


@pytest.mark.parametrize("count", [10, 25, 50])
def test_many_tasks_of_metaworld_are_one(count: int) -> None:
    """The seed decides which of them is played, an observation says which, and its task repeats."""
    found = said(
        "metaworld",
        f"""
environment = gymnasium.make("Meta-World/MT{count}")
firsts = [first(environment, seed) for seed in range(24)]
again = [first(environment, seed) for seed in reversed(range(24))][::-1]
say(same=firsts == again, which=[one[39:] for one in firsts],
    inside=all(environment.observation_space.contains(np.array(one)) for one in firsts))
""",
    )
    which = [one.index(1.0) for one in found["which"]]

    assert (found["same"], found["inside"]) == (True, True)
    assert all((sum(one), len(one)) == (1.0, count) for one in found["which"])
    assert len(set(which)) > count / 5


@pytest.mark.parametrize("game", ["Game2048-v1", "Maze-v0", "TSP-v1"])
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


def test_a_tour_of_jumanji_begins_nowhere() -> None:
    """Before the first city the position is -1, in its space; a city twice ends the tour and costs more than any."""
    found = said(
        "jumanji",
        """
environment = gymnasium.make("jumanji/TSP-v1")
seen = environment.reset(seed=3)[0]
begin, inside = seen["position"], environment.observation_space.contains(seen)
twice = [environment.step(city)[1:3] for city in (4, 4)]
environment.reset(seed=3)
tour = [environment.step(city)[1:3] for city in range(20)]
say(begin=begin, inside=inside, twice=[[float(cost), bool(end)] for cost, end in twice],
    tour=float(sum(cost for cost, _ in tour)), ends=[bool(end) for _, end in tour])
""",
    )

    assert (found["begin"], found["inside"]) == (-1, True)
    assert found["twice"][0] == [0.0, False]
    assert found["twice"][1][1]
    assert found["twice"][1][0] < found["tour"] < 0
    assert found["ends"] == [False] * 19 + [True]


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
    """A seed gives the same dungeon after other games and in another process's game, and another seed another one.

    So does the reset after it without a seed.
    """
    program = """
environment = gymnasium.make("NetHackScore-v0")
say(one=first(environment, 3), none=first(environment, None), other=first(environment, 4), again=first(environment, 3),
    next=first(environment, None))
"""
    found, later = said("nle", program), said("nle", program)

    assert found["one"] == found["again"] == later["one"]
    assert found["none"] == found["next"] == later["none"]
    assert len({str(found[name]) for name in ("one", "none", "other")}) == 3


def test_a_world_of_minihack_is_decided_by_the_seed() -> None:
    """A seed gives the same world after others and in another process's game; the step to the goal says so."""
    program = """
environment = gymnasium.make("MiniHack-Room-Random-5x5-v0", fix_moon_phase=True)

def walk(seed):
    environment.reset(seed=seed)
    environment.action_space.seed(seed)
    ended = False
    while not ended:
        _, reward, ended, _, info = environment.step(environment.action_space.sample())
        yield [float(reward), info["success"]]

say(one=first(environment, 3), other=first(environment, 4), again=first(environment, 3), walk=list(walk(3)))
"""
    found, later = said("minihack", program), said("minihack", program)

    assert found["one"] == found["again"] == later["one"]
    assert found["one"] != found["other"]
    assert [success for _, success in found["walk"]] == [reward == 1.0 for reward, _ in found["walk"]]
    assert found["walk"][-1] == [1.0, True]


def test_a_bench_of_robosuite_is_decided_by_the_seed() -> None:
    """A seed gives the same scene and steps after others and in another simulator, and another seed other ones."""
    found = said(
        "robosuite",
        """
environment, another = (gymnasium.make("robosuite/Lift") for _ in range(2))
asked = (environment, 3), (environment, 4), (environment, 3), (another, 3)
played = [list(steps(one, seed, 5)) for one, seed in asked]
say(same=played[0] == played[2] == played[3], other=played[0] != played[1])
""",
    )

    assert found == {"same": True, "other": True}


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


@pytest.mark.parametrize("task", ["Attack", "January"])
def test_days_of_a_grid_are_decided_by_the_seed(task: str) -> None:
    """A seed gives the same days after others and in another simulator; a grid that is kept up pays one in all."""
    found = said(
        "grid2op",
        f"""
environment, another = (gymnasium.make("grid2op/{task}-v0") for _ in range(2))
idle = {{name: np.zeros(part.shape, part.dtype) for name, part in environment.action_space.items()}}

def played(one, seed):
    one.reset(seed=seed)
    days, returned = [], 0.0
    for _ in range(900):
        observation, reward, terminated, truncated, info = one.step(idle)
        returned += reward
        days.append(leaves(observation))
        if terminated or truncated:
            break
    return days, returned, bool(info["kept_up"])

asked = (environment, 3), (environment, 8), (environment, 3), (another, 3)
days = [played(*one) for one in asked]
say(same=days[0] == days[2] == days[3], other=days[0] != days[1], worth=[one[1:] for one in days])
""",
    )

    assert (found["same"], found["other"]) == (True, True)
    assert [round(returned, 6) == 1.0 for returned, _ in found["worth"]] == [kept for _, kept in found["worth"]]


def test_an_action_that_breaks_the_rules_of_a_grid_is_refused() -> None:
    """More lines than may be cut at once are not, and the next observation says so; a single one is cut."""
    found = said(
        "grid2op",
        """
environment = gymnasium.make("grid2op/Attack-v0")
idle = {name: np.zeros(part.shape, part.dtype) for name, part in environment.action_space.items()}
environment.reset(seed=3)
seen = []
for cut in ([3, 4, 5], [3], []):
    line = idle["line"].copy()
    line[cut] = 1
    observation = environment.step({**idle, "line": line})[0]
    seen.append([int(observation["refused"]), int(observation["line_status"].sum())])
say(seen=seen)
""",
    )["seen"]

    assert [refused for refused, _ in found] == [1, 0, 0]
    assert found[1][1] == found[0][1] - 1


def test_a_match_of_kore_is_decided_by_the_seed() -> None:
    """A seed gives the same match after others and in another simulator, whatever else draws random numbers."""
    found = said(
        "kore",
        """
import random
environment, another = (gymnasium.make("kore/Balanced-v0") for _ in range(2))

def played(one, seed):
    seen = [leaves(one.reset(seed=seed)[0])]
    for turn in range(60):
        random.random(), np.random.random()
        orders = "5 5 SPAWN_1" if turn < 30 else "5 5 LAUNCH_21_E5N\\\\nnonsense\\\\n99 99 SPAWN_1"
        seen.append(leaves(one.step(orders)[0]))
    return seen

asked = (environment, 3), (environment, 4), (environment, 3), (another, 3)
matches = [played(*one) for one in asked]
environment.reset(seed=3)
ships = [int(environment.step("5 5 SPAWN_1")[0]["shipyard_ships"][5, 5]) for _ in range(3)]
say(same=matches[0] == matches[2] == matches[3], other=matches[0] != matches[1], ships=ships)
""",
    )

    assert found == {"same": True, "other": True, "ships": [1, 2, 3]}


def test_a_network_of_flatland_is_decided_by_the_seed() -> None:
    """A seed gives the same network and trains after others and in another simulator; an arrival pays its share."""
    found = said(
        "flatland",
        """
environment, another = (gymnasium.make("flatland/Trains-v0") for _ in range(2))

def played(one, seed):
    seen, returned, ended = [leaves(one.reset(seed=seed)[0])], 0.0, False
    while not ended:
        observation, reward, terminated, truncated, _ = one.step(np.full(100, 2))
        returned, ended = returned + reward, terminated or truncated
        seen.append(leaves(observation["trains"]))
    return seen, round(100 * returned), int((observation["trains"][:, 8] == 6).sum())

asked = (environment, 6), (environment, 5), (environment, 6), (another, 6)
trains = [played(*one) for one in asked]
say(same=trains[0] == trains[2] == trains[3], other=trains[0] != trains[1], arrived=[one[1:] for one in trains])
""",
    )

    assert (found["same"], found["other"]) == (True, True)
    assert [returned for returned, _ in found["arrived"]] == [arrived for _, arrived in found["arrived"]]
