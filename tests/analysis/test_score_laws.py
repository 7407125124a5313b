"""Laws of scores, as programs read them: scales, ties, means of means, noise of other cases, halves, medians."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import evopolicygym
from evopolicygym.analysis.headroom.spread import HeadroomVerdict, verdict_of_suite
from evopolicygym.analysis.ranking.bootstrap import Block, Resampler, Sample, t_quantile
from evopolicygym.analysis.ranking.leaderboard import Standing, leaderboard
from evopolicygym.analysis.ranking.pairing import pairing
from evopolicygym.analysis.ranking.score_table import score_table
from evopolicygym.core.score import rank_scores
from evopolicygym.core.task import Anchor
from evopolicygym.specs import catalog
from records_of_runs import changed, made_result, real_document, write

pytestmark = pytest.mark.made_up

Document = dict[str, Any]
Returns = Mapping[tuple[str, str], Sequence[Sequence[float]]]
"""The returns of each run of an agent on a task."""
QUICK = settings(max_examples=25)


@pytest.fixture
def document(tmp_path: Path) -> Document:
    """Return a run's document, to be changed."""
    return real_document(tmp_path / "real")


def laid(tmp_path: Path, document: Document, found: Returns, **more: Any) -> Path:
    """Write runs; return the directory."""
    for (agent, task), runs in found.items():
        for seed, returns in enumerate(runs):
            write(tmp_path / "runs", changed(document, task, agent, returns, seed) | more)
    return tmp_path / "runs"


def row(document: Mapping[str, Any], agent: str, rows: str = "entries") -> Any:
    """Return an agent's row of a document."""
    return next(each for each in document[rows] if each["entry"] == agent)


# Scales


@pytest.mark.parametrize(("task", "better"), [("half_cheetah", "idle"), ("parking", "random")])
def test_0_is_the_better_one_of_random_and_idle_play(
    tmp_path: Path, document: Document, task: str, better: str
) -> None:
    """On the known scale an agent that is as good as the better one of both has 0, whichever that is."""
    spec = catalog.load(task)
    assert spec.random_anchor
    assert spec.idle_anchor
    random, idle = spec.random_anchor.mean, spec.idle_anchor.mean
    assert (idle > random) == (better == "idle")
    runs = laid(
        tmp_path, document, {("one", task): [[max(random, idle)] * 2], ("other", task): [[min(random, idle)] * 2]}
    )
    found = evopolicygym.leaderboard(runs, normalise="known").document

    assert row(found, "one")["normalised"]["value"] == pytest.approx(0.0)
    assert row(found, "other")["normalised"]["value"] < 0


@settings(max_examples=8)
@given(factor=some.integers(1, 50), more=some.integers(-500, 500))
def test_no_table_has_a_unit(factor: int, more: int) -> None:
    """In any unit of returns, and from any zero, ranks, tiers, normalised scores and p-values are the same."""
    random = np.random.default_rng(1)
    returns = {agent: random.normal(-3.0 * place, 1.0, (3, 6)) for place, agent in enumerate("abc")}
    numbers = []
    for slope, shift in ((1, 0), (factor, more)):
        anchor = Anchor(slope * -12.0 + shift, slope * 0.1, 256)
        runs = [
            made_result("task", agent, (slope * row + shift).tolist(), seed, random_anchor=anchor)
            for agent, rows in returns.items()
            for seed, row in enumerate(rows)
        ]
        table = score_table(runs, ())
        pair = pairing(table, "a", "b", Resampler(50))
        standings = leaderboard(table, resampler=Resampler(50)).standings
        numbers.append([pair.joint.p, *(part for each in standings for part in (each.tier or 0, *_numbers(each)))])

    assert numbers[1] == pytest.approx(numbers[0])


def _numbers(standing: Standing) -> tuple[float, ...]:
    assert standing.normalised
    interval = standing.normalised.interval
    return standing.rank_score.value, standing.normalised.value, *((interval.low, interval.high) if interval else ())


@pytest.mark.parametrize(
    ("isolation", "noted"), [("bubblewrap", 0), ("bubblewrap without seccomp", 1), ("none", 1), ("process", 0)]
)
def test_a_table_notes_a_weaker_isolation(isolation: str, noted: int) -> None:
    """A table says of which runs a guarantee is missing, and nothing of those whose sandbox was whole."""
    notes = score_table([made_result("task", "agent", [1.0, 2.0], 0, isolation=isolation)], ()).notes

    assert sum("isolation" in note for note in notes) == noted


# Ranks


def test_ties_share_a_rank_in_each_draw(tmp_path: Path, document: Document) -> None:
    """Two agents with the same returns on the same cases are tied whichever are drawn: first, without any doubt."""
    best, worse = [[-60.0, -75.0, -90.0]], [[-480.0, -499.0, -490.0]]
    agents = {("one", "acrobot"): best, ("same", "acrobot"): best, ("worse", "acrobot"): worse}
    found = evopolicygym.leaderboard(laid(tmp_path, document, agents)).document
    scores = [row(found, agent)["tasks"]["acrobot"]["rank_score"] for agent in ("one", "same")]

    assert [(score["value"], score["interval"]) for score in scores] == [(1.0, [1.0, 1.0])] * 2
    assert [row(found, agent)["rank"] for agent in ("one", "same", "worse")] == [1, 1, 3]


@QUICK
@given(scores=some.lists(some.integers(0, 5), min_size=2, max_size=6), order=some.randoms(use_true_random=False))
def test_ranks_do_not_depend_on_the_order_of_entries(scores: list[int], order: Any) -> None:
    """Entries have the ranks of their scores, in whatever order they are named; better ones never have a worse rank."""
    named = {f"agent {place}": float(score) for place, score in enumerate(scores)}
    shuffled = list(named.items())
    order.shuffle(shuffled)
    found = rank_scores(named)

    assert rank_scores(dict(shuffled)) == found
    assert sorted(found.values()) == [found[name] for name in sorted(named, key=lambda name: (named[name], name))]
    assert all((found[one] == found[other]) == (named[one] == named[other]) for one in named for other in named)


def test_no_table_depends_on_the_order_of_agents_seeds_and_cases(tmp_path: Path, document: Document) -> None:
    """Ranks, normalised scores, differences and p-values are the same with agents, seeds and cases in another order."""
    random = np.random.default_rng(0)
    tables = {agent: random.normal(-80 - 5 * place, 9, (3, 8)) for place, agent in enumerate("abc")}
    places, numbers = [], []
    for name, agents, seeds, cases in (
        ("as is", "abc", range(3), range(8)),
        ("mixed", "cab", (2, 0, 1), random.permutation(8)),
    ):
        returns = {(agent, "acrobot"): tables[agent][list(seeds)][:, list(cases)].tolist() for agent in agents}
        runs = laid(tmp_path / name, document, returns)
        board, pair = evopolicygym.leaderboard(runs).document, evopolicygym.compare("a", "c", runs).document
        rows = [row(board, agent) for agent in "abc"]
        places.append([(each["rank"], each["tier"]) for each in rows])
        (task,) = pair["tasks"]
        numbers.append(
            [*(each["normalised"]["value"] for each in rows), pair["p"], task["difference"], *task["interval"]]
        )

    assert places[0] == places[1]
    assert numbers[0] == pytest.approx(numbers[1])


@QUICK
@given(some.permutations(range(5)), some.permutations(range(6)), some.text(), some.integers(-9, 9))
def test_intervals_have_no_names(order: list[int], cases: list[int], name: str, shift: int) -> None:
    """An interval is the same with runs and cases in another order and under other names, and moves with returns."""
    returns = np.random.default_rng(3).normal(size=(5, 6)).round(1)
    returns[1:4, :5] = 0.5
    blocks = Block("first", returns[:2]), Block("second", returns[2:])
    parts = [row for row in order if row < 2], [row for row in order if row >= 2]
    found = Sample(tuple(Block(f"{name}{part}", returns[part][:, cases] + shift) for part in parts[::-1])).interval()
    expected = Sample(blocks).interval()
    assert found
    assert expected

    assert (found.low, found.high) == pytest.approx((expected.low + shift, expected.high + shift))


# Means of means


def test_an_effect_is_a_mean_of_environments_of_means_of_agents(tmp_path: Path, document: Document) -> None:
    """Neither an agent with more repeats nor an environment with more agents counts for more in an effect."""
    gains = {("acrobot", "one"): [40.0, 40.0, 40.0], ("acrobot", "other"): [10.0], ("reacher", "one"): [1.0, 3.0]}
    for (task, agent), each in gains.items():
        anchor = catalog.load(task).random_anchor
        assert anchor
        for seed, gain in enumerate(each):
            for budget in (8, 32):
                returns = [anchor.mean + 50 + case + (gain if budget == 32 else 0.0) for case in (0.0, 1.0)]
                run = changed(document, task, agent, returns, seed)
                run["run_id"] += f"-{budget}"
                run["task"]["budget"]["episodes"] = run["budget"]["episodes"] = budget
                write(tmp_path / "runs", run)
    found = evopolicygym.effects(tmp_path / "runs").document["differences"]
    of = {each["environment"]: each for each in found}

    assert of["acrobot"]["difference_of_returns"] == pytest.approx((40 + 10) / 2)
    assert of["reacher"]["difference_of_returns"] == pytest.approx(2.0)
    assert of[None]["difference"] == pytest.approx(fmean([of["acrobot"]["difference"], of["reacher"]["difference"]]))


# Noise


def test_cases_that_differ_add_their_variance_to_noise(tmp_path: Path, document: Document) -> None:
    """Means of other cases lie further apart than those of the same: by the variance of both means over their cases."""
    for agent, cases in (("a", "some"), ("b", "some"), ("c", "others")):
        returns = [[-80.0 + seed + case for case in range(6)] for seed in range(2)]
        laid(tmp_path, document, {(agent, "acrobot"): returns}, commitment=cases)
    found = [evopolicygym.compare("a", other, tmp_path / "runs", allow_incomparable=True).document for other in "bc"]
    of_runs, of_cases = 0.5 * (1 / 2 + 1 / 2), 2 * 3.5 / 6

    assert [pair["tasks"][0]["interval_covers"] for pair in found] == ["runs and cases"] * 2
    assert [pair["tasks"][0]["noise_floor"] for pair in found] == pytest.approx(
        [4.303 * of_runs**0.5, 4.303 * (of_runs + of_cases) ** 0.5], rel=1e-3
    )


# Halves


def test_at_least_half_are_half(tmp_path: Path, document: Document) -> None:
    """A task with exactly half of its runs at the best known score is nearly spent, and no longer distinguishes."""
    means = {"a": -60.0, "b": -60.0, "c": -200.0, "d": -300.0}
    returns = {
        (agent, "acrobot"): [[mean + seed + case for case in (-9.0, 0.0, 9.0)] for seed in (-0.5, 0.0, 0.5)]
        for agent, mean in means.items()
    }
    found = evopolicygym.headroom(laid(tmp_path, document, returns)).document

    assert (found["tasks"][0]["at_best"], found["tasks"][0]["verdict"]) == (0.5, HeadroomVerdict.NEARLY_SPENT)


@pytest.mark.parametrize("verdict", [HeadroomVerdict.DISTINGUISHES, HeadroomVerdict.SPENT])
def test_half_of_a_suite_decides(verdict: HeadroomVerdict) -> None:
    """A suite is what exactly half of its tasks are."""
    assert verdict_of_suite([verdict, HeadroomVerdict.TOO_HARD_OR_NOISY], 0.5) is verdict


def test_half_of_the_returns_are_usual(tmp_path: Path, document: Document) -> None:
    """Where exactly half of the returns are one value, the interval also holds that of the others' share."""
    runs = laid(tmp_path, document, {("half", "acrobot"): [[-500.0] * 16 + [-100.0] * 16]})
    found = row(evopolicygym.leaderboard(runs).document, "half")["tasks"]["acrobot"]
    low, high = found["interval"]

    assert low + high == pytest.approx(2 * found["mean"])
    assert high - found["mean"] > 1.02 * t_quantile(31) * found["standard_error"]


# Signs and medians


def test_the_case_that_differs_most_has_its_sign(tmp_path: Path, document: Document) -> None:
    """Of an agent that is better on most cases and far worse on one, that one is named, with a negative difference."""
    runs = laid(
        tmp_path, document, {("a", "acrobot"): [[-80.0, -80.0, -99.0]], ("b", "acrobot"): [[-85.0, -83.0, -80.0]]}
    )
    (found,) = evopolicygym.compare("a", "b", runs).document["tasks"]

    assert found["most"] == {"case": 2, "difference": -19.0}
    assert found["interval_covers"] == "cases"


def test_the_median_of_two_tasks_is_their_mean(tmp_path: Path, document: Document) -> None:
    """The median over an even number of tasks is midway between the two in the middle."""
    means = {("a", "acrobot"): -80.0, ("b", "acrobot"): -290.0, ("a", "reacher"): -10.0, ("b", "reacher"): -15.0}
    runs = laid(tmp_path, document, {key: [[mean, mean + 1]] for key, mean in means.items()})
    document = evopolicygym.leaderboard(runs).document
    scores = [task["normalised"]["value"] for task in row(document, "b")["tasks"].values()]

    assert scores[0] != scores[1]
    assert row(document["aggregates"], "b")["median"]["value"] == pytest.approx(fmean(scores))
