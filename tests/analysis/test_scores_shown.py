"""Scores that tables show: what counts as a repeat, rows without a score, one held-out mean, one table in a CSV."""

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.analysis.diagnostic import Group, table_over_runs
from evopolicygym.analysis.diagnostics.generalisation import DIAGNOSTIC, CheckpointMeans, Generalisation
from evopolicygym.analysis.ranking.bootstrap import Interval, held_out_sample
from evopolicygym.analysis.ranking.leaderboard import Standing, leaderboard
from evopolicygym.analysis.ranking.pairing import Pairing, pairing
from evopolicygym.analysis.ranking.score_table import ScoreTable, score_table
from evopolicygym.analysis.results import load_results
from evopolicygym.analysis.tables.table import Column, Ends, Number, Table, format_tables
from evopolicygym.cli.suite_view import score_table as suite_table
from evopolicygym.core.errors import UsageError
from evopolicygym.core.score import estimate
from evopolicygym.runs.suites.records import PlannedRunResult, PlannedRunVerdict
from evopolicygym.runs.suites.suite import plan
from evopolicygym.specs import catalog
from records_of_runs import changed, real_document, write
from shell import Shell
from suites import suite

pytestmark = pytest.mark.made_up

Document = dict[str, Any]
Run = tuple[str, str, list[float], int]
"""Task, agent, returns and seed; without returns it has no score."""


@pytest.fixture
def document(tmp_path: Path) -> Document:
    """Return a real run's document."""
    return real_document(tmp_path / "real")


def laid(below: Path, document: Document, runs: Sequence[Run]) -> Path:
    """Write records of runs; return where they are."""
    for number, (task, agent, returns, seed) in enumerate(runs):
        run = changed(document, task, agent, returns or [0.0] * 4, seed) | {"run_id": f"run-{number}"}
        if not returns:
            run["outcome"] |= {"status": "no_ok_submit", "held_out_returns": None, "score": None, "success_rate": None}
        write(below, run)
    return below


def table_of(below: Path) -> ScoreTable:
    return score_table(load_results([below]).runs, [])


def standings(below: Path) -> dict[str, Standing]:
    return {one.entry.label: one for one in leaderboard(table_of(below)).standings}


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_same_run_again_is_no_repeat(tmp_path: Path, document: Document) -> None:
    """Five runs of two seeds are two repeats where a seed's runs are identical; a note says so, and others count."""
    good, other = [-80.0, -90.0, -85.0, -84.0], [-81.0, -95.0, -85.0, -84.0]
    same = [("acrobot", "tuner", good, seed) for seed in (0, 0, 0)] + [("acrobot", "tuner", other, 1)] * 2
    differing = [("acrobot", "codex", returns, 0) for returns in (good, other)]
    table = table_of(laid(tmp_path / "runs", document, [*same, *differing]))

    assert [len(table.entry(name).cells["acrobot"].runs) for name in ("tuner", "codex")] == [2, 2]
    assert [note.split(" runs of ")[0][-1] for note in table.notes if note.startswith("Counted once")] == ["3", "2"]
    assert sum("codex on acrobot" in note for note in table.notes) == 1


def test_three_identical_runs_have_no_tier(tmp_path: Path, document: Document) -> None:
    """What one seed gives, however often, says nothing of another run: the interval covers cases only."""
    runs = [("acrobot", "tuner", [-80.0, -90.0, -85.0, -84.0], 0)] * 3
    found = standings(laid(tmp_path / "runs", document, runs))["tuner"]

    assert (found.tier, found.covers, found.tasks["acrobot"].cell.covers) == (None, "cases", "cases")


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_one_held_out_case_has_no_interval(tmp_path: Path, document: Document, seeds: Sequence[int]) -> None:
    """Runs on a single case say nothing of other cases: neither standard error, nor interval, nor tier."""
    runs: list[Run] = [("acrobot", "tuner", [-80.0 - seed], seed) for seed in seeds]
    found = standings(laid(tmp_path / "runs", document, runs))["tuner"]
    cell = found.tasks["acrobot"].cell

    assert (cell.standard_error, cell.interval, found.rank_score.interval, found.tier) == (None, None, None, None)


def test_an_agent_without_a_score_wins_nothing(tmp_path: Path, document: Document) -> None:
    """It stands last, without a place, a rank or a mean, though uniform random is the best of all."""
    runs: list[Run] = [("acrobot", "poor", [-600.0, -601.0, -602.0, -603.0], 0), ("acrobot", "nothing", [], 0)]
    below = laid(tmp_path / "runs", document, runs)
    board = leaderboard(table_of(below))
    last = board.standings[-1]

    assert [one.entry.label for one in board.standings] == ["Uniform random", "poor", "nothing"]
    assert (last.rank, last.tier, last.wins, last.top_2, last.has_score) == (None, None, 0, 0, False)
    assert (last.tasks["acrobot"].rank, last.tasks["acrobot"].rank_score.value) == (None, 0.0)


def test_what_has_no_score_is_null_in_json(tmp_path: Path, document: Document, shell: Shell) -> None:
    """Programs are given no number in place of a score."""
    runs: list[Run] = [("acrobot", "poor", [-600.0, -601.0, -602.0, -603.0], 0), ("acrobot", "nothing", [], 0)]
    found = shell.json("leaderboard", laid(tmp_path / "runs", document, runs))["entries"][-1]
    task = found["tasks"]["acrobot"]

    assert (found["entry"], found["rank_score"], found["normalised"], found["rank"]) == ("nothing", None, None, None)
    assert (task["mean"], task["rank"], task["rank_score"], task["unscored"]) == (None, None, None, 1)


def test_one_task_without_a_score_counts_as_nothing(tmp_path: Path, document: Document) -> None:
    """An agent that has a score on one of two tasks has half of what it would have."""
    good = [-80.0, -81.0, -82.0, -83.0]
    runs: list[Run] = [("acrobot", "half", good, 0), ("reacher", "half", [], 0)]
    runs += [(task, "whole", [one - 1 for one in good], 0) for task in ("acrobot", "reacher")]
    found = standings(laid(tmp_path / "runs", document, runs))["half"]

    assert (found.rank_score.value, found.tasks["reacher"].rank, found.rank is not None) == (0.5, None, True)


def test_to_fail_pays_nothing() -> None:
    """A repeat without a score is worth what uniform random is, or the worst other repeat where that is lower."""
    above = held_out_sample([("a", (10.0, 12.0)), ("a", ())], 1.0)
    below = held_out_sample([("a", (-10.0, -12.0)), ("a", ())], 1.0)

    assert above is not None
    assert below is not None
    assert (above.mean, below.mean) == (6.0, -11.0)
    assert held_out_sample([("a", ()), ("a", ())], 1.0) is None


def test_entries_without_a_score_are_not_compared(tmp_path: Path, document: Document) -> None:
    """A comparison leaves out tasks on which either has no score, and is refused where that is all of them."""
    good = [-80.0, -81.0, -82.0, -83.0]
    runs: list[Run] = [("acrobot", "a", good, 0), ("reacher", "a", [], 0), ("acrobot", "nothing", [], 0)]
    runs += [(task, "b", [one - 1 for one in good], 0) for task in ("acrobot", "reacher")]
    table = table_of(laid(tmp_path / "runs", document, runs))
    pair = pairing(table, "a", "b")

    assert [one.task for one in pair.tasks] == ["acrobot"]
    assert any(note.endswith("no score there: reacher.") for note in pair.notes)
    with pytest.raises(UsageError, match="no score on acrobot"):
        pairing(table, "nothing", "b")


def beyond(tmp_path: Path, document: Document) -> Pairing:
    """Return a comparison of an agent above the best of the table, as it lacks tasks, with one at the best."""
    runs: list[Run] = [("acrobot", "a", [-10.0, -11.0, -12.0, -13.0], 0)]
    runs += [(task, "b", [-100.0, -101.0, -102.0, -103.0], 0) for task in ("acrobot", "reacher")]
    return pairing(table_of(laid(tmp_path / "runs", document, runs)), "a", "b")


def test_a_win_above_the_best_is_seen(tmp_path: Path, document: Document) -> None:
    """The normalised difference is not clipped at the best agent of the table."""
    pair = beyond(tmp_path, document)
    random = catalog.load("acrobot").random_anchor

    assert random is not None
    assert pair.tasks[0].normalised == pytest.approx(90 / (-101.5 - random.mean))
    assert pair.normalised is not None
    assert pair.normalised.value == pair.tasks[0].normalised


def test_success_of_one_task_is_not_that_of_all(tmp_path: Path, document: Document) -> None:
    """Uniform random has a success rate over all tasks where it is known of each that has one, else none."""
    below = laid(tmp_path / "runs", document, [("acrobot", "a", [-80.0, -81.0, -82.0, -83.0], 0)])
    known = standings(below)["Uniform random"]
    table = table_of(below)
    elsewhere = replace(table.entry("a").cells["acrobot"], runs=(), published_success_rate=0.5)
    tasks = (*table.tasks, replace(table.tasks[0], name="other"))
    entries = tuple(
        replace(entry, cells={**entry.cells, "other": replace(
            elsewhere, published_success_rate=None if entry is table.anchor else 0.5
        )})
        for entry in table.entries
    )  # fmt: skip
    unknown = {
        one.entry.label: one for one in leaderboard(replace(table, tasks=tasks, entries=entries)).standings
    }  # fmt: skip

    assert known.success_rate is not None
    assert unknown["Uniform random"].success_rate is None


def test_a_suite_shows_what_the_leaderboard_does(tmp_path: Path, document: Document) -> None:
    """Mean and standard error of an entry's repeats are over repeats and cases in both, one without a score too."""
    returns = ((10.0, 20.0, 30.0, 44.0), (11.0, 22.0, 29.0, 60.0), ())
    runs = plan(suite(tmp_path, "tuner", repeats=3))
    results = [
        PlannedRunResult(run, PlannedRunVerdict.FINISHED, tmp_path, returns=own)
        for run, own in zip(runs, returns, strict=True)
    ]
    spec = catalog.load("cartpole")
    laid(tmp_path / "runs", document, [("cartpole", "tuner", list(own), seed) for seed, own in enumerate(returns)])
    cell = table_of(tmp_path / "runs").entry("tuner").cells["cartpole"]
    shown = str(next(iter(suite_table(results).columns[1].cells)))

    assert spec.random_anchor is not None
    assert cell.standard_error is not None
    assert shown == f"{cell.mean:.2f} ± {cell.standard_error:.2f} (3, 1 without a score)"


def measured(mean: float) -> Generalisation:
    """Return what generalisation measures of a run."""
    value = estimate([mean])
    return Generalisation((CheckpointMeans(0, "c", value, value, value, 0, is_selected=True),), 1.0, 2.0, None, None)


def test_returns_of_different_tasks_are_not_averaged() -> None:
    """A row over two tasks has no mean return; one over two runs of a task has."""
    runs = [(Group("a", "tuning", task), measured(mean)) for task, mean in (("x", 1.0), ("y", 1000.0))]
    unlike = table_over_runs("generalisation", DIAGNOSTIC, runs)
    alike = table_over_runs("generalisation", DIAGNOSTIC, [(Group("a", "tuning", "x"), one) for _, one in runs])
    at = [column.heading for column in unlike.columns].index("held-out")

    assert (unlike.rows[0][at], alike.rows[0][at]) == (None, 500.5)
    assert (len(unlike.notes), len(alike.notes)) == (1, 0)


def test_csv_of_tasks_is_one_long_table(tmp_path: Path, document: Document, shell: Shell) -> None:
    """Each row names its task, and an interval is two numbers."""
    returns = [-80.0, -90.0, -85.0, -84.0]
    below = laid(tmp_path / "runs", document, [(task, "a", returns, 0) for task in ("acrobot", "reacher")])
    found = rows(shell.printed("leaderboard", below, "--per-task", "--format", "csv"))
    own = [row for row in found if row["entry"] == "a"]

    assert [row["task"] for row in own] == ["acrobot", "reacher"]
    assert all(float(row["interval_low"]) < float(row["held_out"]) < float(row["interval_high"]) for row in own)
    assert [float(row["rank"]) for row in own] == [1.0, 2.0]


@pytest.mark.parametrize(
    "options", [["--show", "scores"], ["--show", "harnesses"], ["--tables", "paper,published"], ["--audit"]]
)
def test_csv_has_one_header(tmp_path: Path, document: Document, shell: Shell, options: list[str]) -> None:
    """Whatever is shown, all lines of a CSV have the columns of the first."""
    below = laid(tmp_path / "runs", document, [("acrobot", "a", [-80.0, -90.0, -85.0, -84.0], 0)])
    lines = list(csv.reader(io.StringIO(shell.printed("leaderboard", below, "--format", "csv", *options))))

    assert len(lines) > 1
    assert {len(line) for line in lines} == {len(lines[0])}


@pytest.mark.usefixtures("document")
def test_csv_of_a_diagnosis_is_one_long_table(tmp_path: Path, shell: Shell) -> None:
    """Every measure of every diagnostic is a row; numbers and texts have columns of their own."""
    found = rows(shell.printed("diagnose", tmp_path / "real", "--format", "csv"))

    assert len({row["diagnostic"] for row in found}) > 5
    assert all(bool(row["value"]) != bool(row["text"]) or row["text"] == "" for row in found)
    assert [float(row["value"]) for row in found if row["value"]]


def test_latex_has_minus_signs_and_the_best_in_bold(tmp_path: Path, document: Document, shell: Shell) -> None:
    """A negative number has a minus sign, and each task's best score is bold."""
    runs: list[Run] = [("acrobot", "a", [-80.0] * 4, 0), ("acrobot", "b", [-90.0] * 4, 0)]
    below = laid(tmp_path / "runs", document, runs)
    text = shell.printed("leaderboard", below, "--show", "scores", "--format", "latex")

    assert r"\textbf{$-$80.00} & $-$90.00" in text


def test_cells_with_two_ends() -> None:
    """Two ends are one cell for people and two columns for programs; text keeps its hyphens."""
    columns = (Column("entry", "entry", is_text=True), Column("interval", "interval"))
    table = Table("t", columns, (("a-b", Ends(-1.5, 2.5, 1)), ("-c", None)))

    assert rows(format_tables([table], "csv")) == [
        {"entry": "a-b", "interval_low": "-1.5", "interval_high": "2.5"},
        {"entry": "'-c", "interval_low": "", "interval_high": ""},
    ]
    assert r"a-b & $-$1.5 to 2.5 \\" in format_tables([table], "latex")
    assert "-- \\\\" in format_tables([table], "latex")


def test_several_tables_are_one_csv() -> None:
    """Tables that have different columns share a header, and a column names each row's table."""
    one = Table("one", (Column("a", "a"),), ((1,),))
    other = Table("other", (Column("b", "b"),), ((Number(2.0, interval=Interval(1.0, 3.0)),),))

    assert rows(format_tables([one, other], "csv")) == [
        {"table": "one", "a": "1", "b": "", "b_low": "", "b_high": ""},
        {"table": "other", "a": "", "b": "2.0", "b_low": "1.0", "b_high": "3.0"},
    ]


@pytest.mark.parametrize("form", ["csv", "markdown", "latex"])
def test_compare_in_each_format(tmp_path: Path, document: Document, shell: Shell, form: str) -> None:
    """A comparison is written as the leaderboard is."""
    runs: list[Run] = [("acrobot", "a", [-80.0, -81.0, -82.0, -83.0], 0), ("acrobot", "b", [-90.0] * 4, 0)]
    text = shell.printed("compare", "a", "b", laid(tmp_path / "runs", document, runs), "--format", form)

    assert "acrobot" in text
    assert form != "csv" or (float(rows(text)[0]["difference_low"]) < 8.5 < float(rows(text)[0]["difference_high"]))
    assert form == "csv" or "probability that A improves on B" in text
