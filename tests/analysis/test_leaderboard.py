"""The leaderboard: the paper's aggregates from the paper's table, pooled runs, intervals, tiers, what isn't mixed."""

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from evopolicygym.analysis.published.score_tables import paper, shipped, shipped_names
from evopolicygym.analysis.ranking.bootstrap import Resampler
from evopolicygym.analysis.ranking.comparability import TableFilter, comparable
from evopolicygym.analysis.ranking.leaderboard import Leaderboard, Standing, leaderboard
from evopolicygym.analysis.ranking.pairing import improvement_interval, pairing
from evopolicygym.analysis.ranking.score_table import RANDOM, score_table
from evopolicygym.analysis.results import load_results
from evopolicygym.analysis.tables.contents import scores_tables
from evopolicygym.analysis.tables.table import Number
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.specs import catalog
from records_of_runs import TASKS, changed, real_document, write, write_many

pytestmark = pytest.mark.made_up

BOTH = [paper(), shipped("anchors")]
FEW = ["acrobot", "reacher", "door_key"]


def board_of(runs: Path, *beside: str, choice: TableFilter | None = None, **options: Any) -> Leaderboard:
    tables = [shipped(name) for name in beside]
    return leaderboard(score_table(load_results([runs]).runs, tables, choice), resampler=Resampler(300), **options)


def by_label(board: Leaderboard) -> dict[str, Standing]:
    return {one.entry.label: one for one in board.standings}


@pytest.fixture(scope="module")
def papers() -> Leaderboard:
    """Return the leaderboard of the paper's table alone."""
    return leaderboard(score_table([], [paper()]), resampler=Resampler(10))


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    """Return a real run's document."""
    return real_document(tmp_path / "real")


# The paper


def test_the_papers_aggregates(papers: Leaderboard) -> None:
    """Rank scores, wins and top-2 of the paper come out of its table."""
    assert [one.rank_score.value for one in papers.standings] == [0.890625, 0.75, 0.53125, 0.359375, 0.109375]
    assert [one.wins for one in papers.standings] == [9, 5, 1, 1, 0]
    assert [one.top_2 for one in papers.standings] == [16, 12, 3, 1, 0]
    assert [one.rank for one in papers.standings] == [1, 2, 3, 4, 5]


def test_the_papers_families(papers: Leaderboard) -> None:
    """Family means of the paper come out of its table."""
    first, second = (list(one.families.items()) for one in papers.standings[:2])

    assert {name: score.value for name, score in first} == {
        "gym_box2d": 0.9375, "mujoco": 0.875, "minigrid": 0.8125, "robotics_driving": 0.9375,
    }  # fmt: skip
    assert dict(second)["minigrid"].value == 0.9375


def test_the_papers_normalised_scores(papers: Leaderboard) -> None:
    """Means of normalised scores over synthesis and tuning tasks are the paper's."""
    synthesis = [one.kinds["synthesis"].value for one in papers.standings[:4]]
    tuning = [one.kinds["tuning"].value for one in papers.standings[:4]]

    assert synthesis == pytest.approx([0.98, 1.00, 0.19, 0.03], abs=0.0051)
    assert (tuning[0], tuning[3]) == pytest.approx((0.99, 0.67), abs=0.0051)


def test_means_alone_have_no_interval(papers: Leaderboard) -> None:
    """Published means have neither interval nor tier, and the notes say so."""
    assert all(one.rank_score.interval is None and one.tier is None for one in papers.standings)
    assert any("no interval" in note for note in papers.notes)


@pytest.mark.parametrize("name", shipped_names())
def test_a_shipped_table_knows_the_tasks_as_the_specs_do(name: str) -> None:
    """Families and kinds of shipped tables are those of the specs."""
    for task, of in shipped(name).tasks.items():
        assert (catalog.load(task).family, catalog.load(task).kind) == (of.family, of.kind)


def test_shipped_runs_are_an_entry_with_intervals() -> None:
    """What ships as runs has its repeats, intervals and success beside published means, and can be normalised by."""
    board = leaderboard(score_table([], [paper(), shipped("references")], TableFilter()), normalise="reference")
    found = by_label(board)["reference"]
    acrobot = found.tasks["acrobot"]

    assert (found.entry.kind, len(acrobot.cell.runs), acrobot.cell.success_rate) == ("reference", 1, 1.0)
    assert acrobot.cell.interval
    assert acrobot.normalised
    assert acrobot.normalised.value == 1


def test_the_last_table_with_uniform_random_has_it() -> None:
    """Of two shipped tables with anchors, the later one's stands, with its standard error."""
    first, last = (leaderboard(score_table([], [*tables], TableFilter())) for tables in (BOTH, BOTH[::-1]))
    means = [by_label(board)["Uniform random"].tasks["acrobot"].cell for board in (first, last)]

    assert [cell.mean for cell in means] == [shipped("anchors").scores("acrobot")["Uniform random"], -499.15625]
    assert [cell.standard_error is None for cell in means] == [False, True]


def test_tasks_by_entries() -> None:
    """Means have a column for each entry and digits that tell them apart; rates stand where any is known."""
    means, rates = scores_tables(leaderboard(score_table([], BOTH, TableFilter())))
    door_key = next(row for row in means.rows if row[0] == "door_key")

    assert [column.heading for column in means.columns][:2] == ["task", "GPT-5.5 (Codex)"]
    assert door_key[1] == Number(0.986223, None, is_best=True)
    assert {row[0] for row in rates.rows} >= {"acrobot", "fetch_push"}
    assert "reacher" not in {row[0] for row in rates.rows}


# Runs


def test_repeats_are_pooled(tmp_path: Path, document: dict[str, Any]) -> None:
    """Runs of one agent on one task are one cell: the mean of their means."""
    for seed, returns in enumerate([[-100.0, -90.0], [-80.0, -70.0]]):
        write(tmp_path / "runs", changed(document, "acrobot", "tuner", returns, seed))
    cell = by_label(board_of(tmp_path / "runs"))["tuner"].tasks["acrobot"].cell

    assert (cell.mean, len(cell.runs)) == (-85.0, 2)
    # runs 200 / 2, cases 50 / 2, no remainder to count twice
    assert cell.standard_error == pytest.approx(np.sqrt(100 + 25))


def test_the_random_anchor_is_ranked(tmp_path: Path, document: dict[str, Any]) -> None:
    """N entries are the agents and uniform random, as the runs' own specs have it."""
    write(tmp_path / "runs", changed(document, "acrobot", "worse", [-500.0, -500.0]))
    write(tmp_path / "runs", changed(document, "acrobot", "better", [-90.0, -95.0]))
    found = by_label(board_of(tmp_path / "runs"))

    assert {name: (one.tasks["acrobot"].rank, one.rank_score.value) for name, one in found.items()} == {
        "better": (1, 1.0), RANDOM: (2, 0.5), "worse": (3, 0.0),
    }  # fmt: skip


def test_tiers(tmp_path: Path) -> None:
    """Entries far apart are told apart; two that are alike share a tier."""
    write_many(tmp_path / "runs", tmp_path / "real", ["good", "bad"], 3, FEW)
    document = real_document(tmp_path / "again")
    for one in load_results([tmp_path / "runs"]).runs:
        if one.agent == "good":
            returns = (np.array(one.held_out_returns) + 0.01 * (1 if one.seed else -2)).tolist()
            write(tmp_path / "runs", changed(document, one.task, "twin", returns, one.seed))
    tiers = {name: one.tier for name, one in by_label(board_of(tmp_path / "runs")).items()}

    assert (tiers["good"], tiers["twin"], tiers["bad"], tiers[RANDOM]) == (1, 1, 2, None)


def test_intervals_of_ranks_hold_their_value(tmp_path: Path) -> None:
    """Every aggregate of what was played has an interval within [0, 1] that holds it."""
    write_many(tmp_path / "runs", tmp_path / "real", ["a", "b", "c"], 2, FEW)
    played = [one for one in board_of(tmp_path / "runs").standings if one.entry.runs]
    scores = [score for one in played for score in (one.rank_score, one.normalised, *one.families.values())]

    assert len(scores) == 15
    assert all(
        score and score.interval and 0 <= score.interval.low <= score.value <= score.interval.high <= 1
        for score in scores
    )


def test_a_run_without_a_score_is_not_forgotten(tmp_path: Path, document: dict[str, Any]) -> None:
    """A run that ended without a checkpoint stands there without a mean and a success rate, and a note says so."""
    failed = changed(document, "acrobot", "failing", [0.0])
    failed["outcome"] |= {"status": "no_ok_submit", "held_out_returns": None, "score": None, "success_rate": None}
    write(tmp_path / "runs", failed)
    board = board_of(tmp_path / "runs")
    cell = by_label(board)["failing"].tasks["acrobot"].cell

    assert (cell.has_score, cell.unscored, cell.success_rate) == (False, 1, None)
    assert any("without any score" in note for note in board.notes)


def test_a_run_without_a_score_counts_in_the_success_rate(tmp_path: Path, document: dict[str, Any]) -> None:
    """Of two runs of which one failed, the success rate is that of the other and of uniform random in the mean."""
    failed = changed(document, "acrobot", "half", [0.0])
    failed["outcome"] |= {"status": "no_ok_submit", "held_out_returns": None, "score": None, "success_rate": None}
    scored = changed(document, "acrobot", "half", [-60.0, -70.0], 1)
    scored["outcome"] |= {"success_rate": 1.0}
    write(tmp_path / "runs", failed)
    write(tmp_path / "runs", scored)
    anchor = catalog.load("acrobot").random_anchor

    assert anchor is not None
    assert anchor.success_rate is not None
    assert by_label(board_of(tmp_path / "runs"))["half"].success_rate == (1 + anchor.success_rate) / 2


def test_entries_that_lack_tasks_change_nobodys_rank(tmp_path: Path, document: dict[str, Any]) -> None:
    """Beside the paper, a run on one task is ranked on it, has no place, and leaves the paper's figures alone."""
    write(tmp_path / "runs", changed(document, "acrobot", "tuner", [-60.0] * 32))
    board = board_of(tmp_path / "runs", "paper")
    found = by_label(board)

    assert [one.rank_score.value for one in board.standings[:4]] == [0.890625, 0.75, 0.53125, 0.359375]
    assert (found["tuner"].rank, found["tuner"].complete, found["tuner"].rank_score.value) == (None, False, 1.0)
    assert board.standings[-1].entry.label == "tuner"
    together = by_label(board_of(tmp_path / "runs", "paper", partial=True))
    assert together["GPT-5.5 (Codex)"].tasks["acrobot"].rank == 2


def test_nobody_is_first_by_being_alone(tmp_path: Path, document: dict[str, Any]) -> None:
    """Where no agent has all tasks, uniform random, which has, takes no place and stands last."""
    for task, agent in (("acrobot", "one"), ("reacher", "other")):
        write(tmp_path / "runs", changed(document, task, agent, [0.0, 1.0]))
    board = board_of(tmp_path / "runs")

    assert [standing.rank for standing in board.standings] == [None, None, None]
    assert board.standings[-1].entry.label == RANDOM


def test_a_family_alone(tmp_path: Path) -> None:
    """A table of one family has its tasks only."""
    write_many(tmp_path / "runs", tmp_path / "real", ["a"], 1, FEW)

    assert [task.name for task in board_of(tmp_path / "runs", choice=TableFilter(family="mujoco")).tasks] == ["reacher"]
    with pytest.raises(UnknownName, match=r"'mujuco'.*'mujoco'"):
        board_of(tmp_path / "runs", choice=TableFilter(family="mujuco"))


def test_entries_can_be_told_apart_further(tmp_path: Path, document: dict[str, Any]) -> None:
    """With ``by``, runs of one agent are entries of their own."""
    for seed in (0, 1):
        write(tmp_path / "runs", changed(document, "acrobot", "tuner", [-90.0, -80.0], seed))

    assert {"tuner, seed 0", "tuner, seed 1"} < by_label(
        board_of(tmp_path / "runs", choice=TableFilter(["seed"]))
    ).keys()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"commitment": "others"}, "commitment to the cases, on acrobot"),
        ({"protocol_version": "9.9"}, "protocol version"),
        ({"fingerprint": {"versions": {"toy": "2"}, "spec_sha256": "00" * 32}}, "toy 2"),
        ({"fingerprint": {"versions": {"python": "3", "toy": "1"}, "spec_sha256": "11" * 32}}, "environment's spec"),
        ({"budget": {"episodes": 9, "spent": 8, "submissions": 2}}, "episode budget"),
    ],
)
def test_what_is_not_comparable_is_not_mixed(
    tmp_path: Path, document: dict[str, Any], change: dict[str, Any], said: str
) -> None:
    """Other cases, versions, specs, protocols or budgets are refused by name, unless mixing is asked for."""
    write(tmp_path / "runs", changed(document, "acrobot", "one", [-90.0, -80.0]))
    write(tmp_path / "runs", changed(document, "acrobot", "other", [-90.0, -80.0]) | change)

    with pytest.raises(UsageError, match="not comparable") as refused:
        board_of(tmp_path / "runs")
    assert said in str(refused.value)
    assert any(note.startswith("Mixed: ") for note in board_of(tmp_path / "runs", choice=TableFilter(mix=True)).notes)


@pytest.mark.parametrize(
    "change",
    [{"films": 3}, {"validation_cases": 5}, {"policy_packages": ["scipy"]}, {"budget": {"episodes": 9}}],
    ids=str,
)
def test_runs_under_other_options_are_not_pooled(
    tmp_path: Path, document: dict[str, Any], change: dict[str, Any]
) -> None:
    """Runs of one task whose options differ, where results depend on them, stand in two tables."""
    write(tmp_path / "runs", changed(document, "acrobot", "tuner", [-90.0, -80.0]))
    other = changed(document, "acrobot", "tuner", [-90.0, -80.0], seed=1)
    place = other if change.keys() <= other.keys() else other["task"]
    place |= {name: {**place[name], **value} if isinstance(value, dict) else value for name, value in change.items()}
    write(tmp_path / "runs", other)

    assert len(comparable(load_results([tmp_path / "runs"]).runs, ())) == 2


def test_normalising_by_what_is_not_there_is_told() -> None:
    """A kind of entry that the table lacks can't be what scores are normalised by."""
    with pytest.raises(UsageError, match="'reference'"):
        leaderboard(score_table([], [paper()]), normalise="reference")


def test_nothing_is_no_table() -> None:
    """Neither runs nor a shipped table is refused."""
    with pytest.raises(UsageError):
        score_table([], [])


# Pairs


def test_a_pair_is_compared_case_by_case(tmp_path: Path, document: dict[str, Any]) -> None:
    """A small advantage on every case is told from chance, however much the cases differ."""
    hard = np.random.default_rng(0).normal(-100, 50, 32)
    small = hard + np.random.default_rng(1).normal(1, 0.1, 32)
    small[7] += 3
    write(tmp_path / "runs", changed(document, "acrobot", "one", small.tolist()))
    write(tmp_path / "runs", changed(document, "acrobot", "other", hard.tolist()))
    table = score_table(load_results([tmp_path / "runs"]).runs, [])
    found = pairing(table, "one", "other", Resampler(300)).tasks[0]

    assert found.interval is not None
    assert 0 < found.interval.low < found.difference < found.interval.high < 2
    assert (found.paired, found.most.case if found.most else None, found.improvement) == (True, 7, 1.0)


def test_the_probability_of_improvement(tmp_path: Path, document: dict[str, Any]) -> None:
    """It is the share of pairs of repeats that the first wins, ties half, averaged over tasks."""
    scores = {("one", "acrobot"): [-80, -90], ("other", "acrobot"): [-85, -90], ("one", "reacher"): [-4],
              ("other", "reacher"): [-3]}  # fmt: skip
    for (agent, task), means in scores.items():
        for seed, mean in enumerate(means):
            write(tmp_path / "runs", changed(document, task, agent, [mean - 0.5, mean + 0.5], seed))
    pair = pairing(score_table(load_results([tmp_path / "runs"]).runs, []), "one", "other", Resampler(300))

    assert pair.improvement.value == fmean([(1 + 1 + 0 + 0.5) / 4, 0.0])
    assert pair.improvement.interval == improvement_interval(5 / 16, [task.repeats for task in pair.tasks])


def test_a_pair_is_normalised_as_the_leaderboard_is(tmp_path: Path, document: dict[str, Any]) -> None:
    """An agent that lacks tasks is 1 of the normalised score in neither."""
    write(tmp_path / "runs", changed(document, "acrobot", "tuner", [-60.0] * 32))
    table = score_table(load_results([tmp_path / "runs"]).runs, [paper()])
    labels = ["GPT-5.5 (Codex)", "MiniMax-M3 (Claude Code)"]
    first, second = (by_label(leaderboard(table))[one].tasks["acrobot"].normalised for one in labels)
    (found,) = (one for one in pairing(table, *labels, Resampler(100)).tasks if one.task == "acrobot")

    assert first is not None
    assert second is not None
    assert found.normalised == pytest.approx(first.value - second.value)


def test_entries_without_a_common_task_are_told(tmp_path: Path, document: dict[str, Any]) -> None:
    """Nothing can be said of two entries that never met."""
    write(tmp_path / "runs", changed(document, "acrobot", "one", [-1.0, -2.0]))
    write(tmp_path / "runs", changed(document, "reacher", "other", [-1.0, -2.0]))
    table = score_table(load_results([tmp_path / "runs"]).runs, [])

    with pytest.raises(UsageError, match=r"one.*other"):
        pairing(table, "one", "other")
    with pytest.raises(UnknownName, match=r"'on'.*'one'"):
        pairing(table, "on", "other")


def test_all_tasks_at_once(tmp_path: Path) -> None:
    """A table of all sixteen tasks ranks agents by their strength."""
    write_many(tmp_path / "runs", tmp_path / "real", ["a", "b", "c"], 2, TASKS, cases=8)
    board = board_of(tmp_path / "runs")

    assert [one.entry.label for one in board.standings] == ["a", "b", "c", RANDOM]
    assert [one.wins for one in board.standings] == [16, 0, 0, 0]
    assert json.dumps([one.rank for one in board.standings]) == "[1, 2, 3, 4]"
