"""The noise floor: how far two runs of one agent lie apart, and what compare and leaderboard say of it."""

import json
from pathlib import Path

import numpy as np
import pytest

from evopolicygym.analysis.headroom.spread import entry_means
from evopolicygym.analysis.ranking.bootstrap import Block, Floats, Sample
from evopolicygym.analysis.ranking.noise import (
    case_interaction,
    compare_to_noise,
    noise_floor,
    pool_run_variances,
    task_noise,
    variance_components,
)
from records_of_runs import changed, real_document, write
from shell import Shell

pytestmark = pytest.mark.made_up


def sample(returns: Floats, cases: str = "cases") -> Sample:
    """Return the sample of one agent's runs by cases."""
    return Sample((Block(cases, np.asarray(returns, dtype=float)),))


def agents(random: np.random.Generator, count: int, repeats: int, cases: int = 32) -> list[Sample]:
    """Return agents with a variance of 4 between runs, 9 between cases and 1 of a run on a case."""
    of_cases = 3 * random.normal(size=cases)
    return [
        sample(2 * random.normal(size=(repeats, 1)) + of_cases + random.normal(size=(repeats, cases)))
        for _ in range(count)
    ]


def test_components_are_those_that_made_the_returns() -> None:
    """Analysis of variance finds the variances between runs and of a run on a case, and the share between runs."""
    found = variance_components(agents(np.random.default_rng(1), 400, 4))

    assert found
    assert (found.runs, found.rest) == (pytest.approx(4, rel=0.1), pytest.approx(1, rel=0.05))
    assert found.intraclass_correlation == pytest.approx(4 / 14, abs=0.06)


def test_components_of_a_table_by_hand() -> None:
    """Runs that differ by 2 on each of two cases, which differ by 4, have no rest."""
    found = variance_components([sample(np.array([[0.0, 4.0], [2.0, 6.0]]))])

    assert found
    assert (found.runs, found.cases, found.rest) == (2.0, 8.0, 0.0)


def test_two_runs_of_an_agent_are_seldom_beyond_the_floor() -> None:
    """Of pairs of single runs of an agent, 95 % are within the floor that other agents' few runs give."""
    random, beyond = np.random.default_rng(2), []
    for _ in range(600):
        *others, first, second = agents(random, 4, 3)
        first, second = (sample(each.blocks[0].returns[:1]) for each in (first, second))
        found = compare_to_noise([(noise_floor(others), first, second, 1.0)])
        assert found
        beyond.append(found.is_beyond)

    assert 0.02 <= np.mean(beyond) <= 0.08


def test_headroom_pools_runs_as_the_floor_does() -> None:
    """An entry with one run is as uncertain in headroom as the floor's pooled variance says."""
    *repeated, alone = agents(np.random.default_rng(3), 3, 4)
    alone = sample(alone.blocks[0].returns[:1], "others")

    pooled = pool_run_variances([*repeated, alone])

    assert (pooled.agents, pooled.runs) == (2, 8)
    assert entry_means([*repeated, alone]).covariance[2, 2] == pytest.approx(pooled.variance + alone.of_cases)


def test_agents_that_find_other_cases_hard_interact() -> None:
    """The variance over cases of two agents' difference is what it was made of, and 0 for equal agents."""
    random = np.random.default_rng(4)
    of_cases = random.normal(size=4000)
    first, second = (sample(each + random.normal(size=(3, 4000))) for each in (of_cases, -of_cases))

    assert case_interaction([first, second]) == pytest.approx(4.0, rel=0.1)
    assert case_interaction([first, first]) == pytest.approx(0.0, abs=0.1)
    assert case_interaction([first]) is None


def test_shipped_repeats_have_a_floor() -> None:
    """Ten shipped runs of two optimisers say how far two runs on a task lie apart."""
    floors = task_noise([])

    assert len(floors) == 11
    assert task_noise([], {"acrobot"}) == {"acrobot": floors["acrobot"]}
    assert (floors["acrobot"].pooled.runs, floors["acrobot"].pooled.agents) == (10, 2)
    assert floors["acrobot"].single_runs == pytest.approx(324.0, abs=0.1)
    assert floors["pusher"].single_runs == pytest.approx(0.0, abs=1e-9)


def test_single_runs_are_compared_with_the_floor(shell: Shell, tmp_path: Path) -> None:
    """Two single runs have no verdict, but the floor of shipped runs says whether they differ by more than noise."""
    document = real_document(tmp_path / "real")
    for agent, mean in (("mine", -70), ("theirs", -130), ("none", -499)):
        write(tmp_path / "runs", changed(document, "acrobot", agent, [mean + case for case in range(6)], 0))

    near, far = (shell.json("compare", "mine", other, tmp_path / "runs")["tasks"][0] for other in ("theirs", "none"))

    assert (near["verdict"], near["beyond_noise"]) == (None, False)
    assert (far["verdict"], far["beyond_noise"]) == (None, True)
    assert near["noise_floor"] == far["noise_floor"] == pytest.approx(324.0, abs=0.1)


def test_the_leaderboard_says_what_is_within_the_floor(shell: Shell, tmp_path: Path) -> None:
    """Entries that the best one is not ahead of by more than runs differ are named, in a note and in JSON."""
    document = real_document(tmp_path / "real")
    for agent, mean in (("mine", -70), ("theirs", -72), ("none", -400)):
        for seed in range(3):
            returns = [mean + 3 * seed + case for case in range(6)]
            write(tmp_path / "runs", changed(document, "acrobot", agent, returns, seed))
    board = json.loads(shell("leaderboard", tmp_path / "runs", "--json").out)
    beyond = {row["entry"]: row["beyond_noise"] for row in board["entries"]}

    assert beyond == {"mine": None, "theirs": False, "none": True, "Uniform random": None}
    assert board["tasks"][0]["noise"]["agents"] == 5
    assert any("theirs" in note and "none" not in note for note in board["notes"] if note.startswith("Noise floor"))
