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
    pool_run_variances,
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
    """Of pairs of equal agents with three runs each, 95 % are within the floor that both give."""
    random, beyond = np.random.default_rng(2), []
    for _ in range(600):
        first, second = agents(random, 2, 3)
        found = compare_to_noise([(first, second, 1.0)])
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


def test_the_floor_is_of_the_compared_agents(shell: Shell, tmp_path: Path) -> None:
    """Neither shipped runs nor those of other agents say how far the runs of two agents lie apart."""
    document = real_document(tmp_path / "real")
    for agent, mean, repeats in (("a", -70.0, 2), ("b", -90.0, 2), ("other", -80.0, 2), ("one", -75.0, 1)):
        for seed in range(repeats):
            returns = [mean + (100 if agent == "other" else 1) * seed + case for case in range(6)]
            write(tmp_path / "runs", changed(document, "acrobot", agent, returns, seed))
    floors = {
        pair: shell.json("compare", *pair, tmp_path / "runs")["tasks"][0]["noise_floor"]
        for pair in (("a", "b"), ("a", "one"), ("a", "other"))
    }

    assert floors["a", "b"] == pytest.approx(4.303 * 0.5**0.5, rel=1e-3)
    assert floors["a", "one"] == pytest.approx(12.706 * (0.5 * 1.5) ** 0.5, rel=1e-3)
    assert floors["a", "other"] > 100


@pytest.mark.parametrize("repeats", [1, 3])
def test_equal_repeats_have_no_floor(shell: Shell, tmp_path: Path, repeats: int) -> None:
    """Where no run of either differs from its repeats, a difference is beyond nothing: the floor is a dash."""
    document = real_document(tmp_path / "real")
    for agent, mean in (("a", -39.3408), ("b", -39.3372)):
        for seed in range(repeats):
            write(tmp_path / "runs", changed(document, "pusher", agent, [mean - case for case in range(6)], seed))
    found = shell.json("compare", "a", "b", tmp_path / "runs")
    board = shell.json("leaderboard", tmp_path / "runs")

    assert [found["tasks"][0][key] for key in ("noise_floor", "beyond_noise")] == [None, None]
    assert (found["noise_floor"], found["verdict"], found["tasks"][0]["p"]) == (None, None, None)
    assert {row["beyond_noise"] for row in board["entries"]} == {None}
    assert board["tasks"][0]["noise"] is None or board["tasks"][0]["noise"]["single_runs"] is None


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
    assert board["tasks"][0]["noise"]["agents"] == 3
    assert any("theirs" in note and "none" not in note for note in board["notes"] if note.startswith("Noise floor"))
