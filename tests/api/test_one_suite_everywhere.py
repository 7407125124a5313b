"""One set of runs through every door: the same groups, entries, means, marks and names, whoever shows them."""

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import evopolicygym
from evopolicygym.cli.main import app
from evopolicygym.viewer.documents.documents import Documents
from evopolicygym.viewer.documents.overview import RunIndex
from players import GOOD

SMALL = {"validation": 1, "held_out": 2, "split": "public", "workers": 1, "isolation": "none"}
BUDGET, MORE = 2, 4
CAPPED = "limits max_turns 3"
"""What sets the group of the run with a limit apart."""


def twice(session: evopolicygym.Session) -> None:
    """Spend the budget on two submissions."""
    session.submit(episodes=session.remaining // 2)
    session.submit(GOOD, episodes=session.remaining)


def crashing(session: evopolicygym.Session) -> None:
    """Submit half of the budget, then fail."""
    session.submit(episodes=session.remaining // 2)
    raise RuntimeError("the agent's own mistake")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return runs of one agent with two budgets and two limits, and those of one that crashes, under a label."""
    place = tmp_path_factory.mktemp("everywhere")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        for seed in (0, 1):
            evopolicygym.run("cartpole", twice, budget=BUDGET, seed=seed, runs=place / "runs", **SMALL)
        evopolicygym.run("cartpole", twice, budget=MORE, seed=0, runs=place / "runs", **SMALL)
        evopolicygym.run("cartpole", twice, budget=BUDGET, seed=2, max_turns=3, runs=place / "runs", **SMALL)
        evopolicygym.run(
                "cartpole", crashing, budget=BUDGET, seed=0, label="=faulty", runs=place / "runs",
                on_agent_error="ignore", **SMALL,
            )  # fmt: skip
    return place / "runs"


def printed(*words: str) -> str:
    """Return what a command prints."""
    found = CliRunner().invoke(app, list(words))
    assert found.exit_code == 0, found.output
    return found.stdout


def entries_by_group(tables: list[Mapping[str, Any]]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return the agents of each group, by the group's title and the entry."""
    return {
        table["title"]: {entry["entry"]: entry for entry in table["entries"] if entry["kind"] == "agent"}
        for table in tables
    }


@pytest.fixture(scope="module")
def ranked(runs: Path) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return the groups of the command line's leaderboard."""
    return entries_by_group(json.loads(printed("leaderboard", str(runs), "--json"))["tables"])


def test_only_what_agrees_is_pooled(ranked: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """Runs of another budget, or of one agent under another limit, are no repeats."""
    repeats = {
        (title, name): entry["tasks"]["cartpole"]["repeats"]
        for title, entries in ranked.items()
        for name, entry in entries.items()
    }

    assert len(ranked) == 3
    assert sorted(repeats.values()) == [1, 1, 1, 2]
    assert [title for title in ranked if CAPPED in title]


def test_a_run_that_crashed_is_marked(runs: Path, ranked: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """Beside its score stands how it ended, in each form."""
    marks = {name: entry["ended_early"] for entries in ranked.values() for name, entry in entries.items()}
    rows = list(csv.DictReader(io.StringIO(printed("leaderboard", str(runs), "--format", "csv"))))
    board = evopolicygym.leaderboard(runs)
    (exported,) = (row for row in evopolicygym.load_runs(runs).runs if row.is_early)

    assert {name: mark for name, mark in marks.items() if mark} == {"=faulty": {"crash": 1}}
    assert {row["ended_early"] for row in rows} == {"", "1 by crash"}
    assert [dict(standing.early) for group in board.groups for standing in group.standings if standing.early] == [
        {"crash": 1}
    ]
    assert (exported.agent, exported.ended_by, exported.limits) == ("=faulty", "crash", "none")
    assert [note for group in board.groups for note in group.notes if "=faulty (1 by crash)" in note]


def test_what_ended_each_run(runs: Path) -> None:
    """The budget is what ends a run that spends it; limits are named by their options."""
    rows = evopolicygym.load_runs(runs).runs

    assert sorted(row.ended_by or "" for row in rows) == ["budget"] * 4 + ["crash"]
    assert sorted(row.limits for row in rows) == ["max_turns 3"] + ["none"] * 4


def test_what_was_not_audited_is_not_clean(runs: Path) -> None:
    """Not audited, audited, and of a conversation that can't be read are three things, beside each entry."""
    plain = json.loads(printed("leaderboard", str(runs), "--json"))["tables"]
    audited = json.loads(printed("leaderboard", str(runs), "--json", "--audit"))["tables"]
    rows = list(csv.DictReader(io.StringIO(printed("leaderboard", str(runs), "--audit", "--format", "csv"))))

    assert {entry["findings"] for table in plain for entry in table["entries"]} == {None}
    assert [
        (found["audited"], found["unread"], found["serious"])
        for table in audited
        for entry in table["entries"]
        if (found := entry["findings"])
    ].count((0, 1, 0)) == 3
    assert {row["serious"] for row in rows if row["entry"] == "=faulty"} <= {"0"}


def test_pages_and_exports_name_the_same_entries(
    runs: Path, ranked: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> None:
    """The viewer's groups, entries and means are the leaderboard's, and exports name entries as it does."""
    documents = Documents(RunIndex([runs]))
    viewed = entries_by_group(json.loads(documents.document("suite"))["groups"])
    means, shown = (
        {(title, name): one["tasks"]["cartpole"]["mean"] for title, each in found.items() for name, one in each.items()}
        for found in (ranked, viewed)
    )

    assert shown == means
    assert {row.agent for row in evopolicygym.load_runs(runs).runs} == {name for _, name in means}
    assert {evopolicygym.load_run(path.parent).agent for path in runs.rglob("run.json")} == {name for _, name in means}
