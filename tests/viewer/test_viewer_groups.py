"""Runs that may not be compared, on the viewer's pages and a report's: as the leaderboard has them, to the digit."""

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

import evopolicygym
from diagnosed import closing, known_run, recorded
from evopolicygym.core.agent import AgentConfig, Allowance
from evopolicygym.core.event import AgentEnded, Event, RunClosed, RunOpened
from evopolicygym.core.task import BudgetRule
from evopolicygym.records.paths import RunPaths
from evopolicygym.viewer.site.serving import ServedViewer
from shell import Shell
from viewed import asked, kept_documents

pytestmark = pytest.mark.made_up

VALIDATION = {"a": [1.0, 3.0], "b": [0.0, 2.0], "d": [5.0, 7.0]}


def events_of(
    agent: AgentConfig, budget: int = 10, score: float = 5.0, spread: float = 1.0, **ended: Any
) -> list[Event]:
    """Return a run's events: with a budget of 10 it spends all, with a greater one it leaves the rest."""
    opened, *events = takewhile(lambda event: not isinstance(event, RunClosed), known_run())
    assert isinstance(opened, RunOpened)
    opened = replace(opened, agent=agent, task=replace(opened.task, budget=BudgetRule(budget)))
    events = [replace(event, **ended) if isinstance(event, AgentEnded) else event for event in events]
    return closing([opened, *events], VALIDATION, [score - spread, score, score + spread])


def write_run(
    root: Path, agent: str, budget: int = 10, seed: int = 0, score: float = 5.0, spread: float = 1.0
) -> RunPaths:
    """Write a run of an agent."""
    opened, *events = events_of(AgentConfig(agent), budget, score, spread)
    return recorded(root, [replace(opened, seed=seed, run_id=root.name), *events]).paths


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Write two entries with two repeats at a budget of 10, and one of them with two at a budget of 12."""
    below = tmp_path / "runs"
    for seed in range(2):
        write_run(below / f"tuner-10-{seed}", "tuner", 10, seed, 5.0 + seed)
        write_run(below / f"random-10-{seed}", "random", 10, seed, 3.0 + seed)
        write_run(below / f"tuner-12-{seed}", "tuner", 12, seed, 40.0 + seed)
    return below


def served(runs: Path, *names: str) -> list[Any]:
    """Return documents by their names, as the site serves them."""
    with ServedViewer([runs]) as viewer:
        return [asked(viewer, f"/data/{name}.json").document for name in names]


def comparable(tables: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return leaderboards by their titles without what names runs by paths or by ids."""
    without = [{**table, "problems": None, "aggregates": None, "runs": None} for table in tables]
    for table in without:
        table["entries"] = [
            {**entry, "tasks": {name: {**score, "runs": len(score["runs"])} for name, score in entry["tasks"].items()}}
            for entry in table["entries"]
        ]
    return without


def ranked(shell: Shell, runs: Path, *more: str) -> list[dict[str, Any]]:
    """Return the tables that the program prints as JSON."""
    document = json.loads(shell.printed("leaderboard", runs, "--json", *more))
    return comparable(document.get("tables") or [{"title": "", **document}])


def test_the_same_groups_and_numbers_everywhere(runs: Path, tmp_path: Path, shell: Shell) -> None:
    """The program, the site and a report's pages have the same groups, entries, means and intervals, to the digit."""
    shell.printed("report", runs, "-o", tmp_path / "report", "--no-figures", "--tables", "paper")
    (suite, beside), kept = served(runs, "suite", "suite/paper"), kept_documents(tmp_path / "report")
    expected = ranked(shell, runs)

    assert [table["title"] for table in expected] == ["budget 10", "budget 12"]
    assert comparable(suite["groups"]) == expected
    assert comparable(kept["suite"]["groups"]) == expected
    assert kept["suite"] == suite
    assert comparable(beside["groups"]) == comparable(kept["suite/paper"]["groups"])
    assert comparable(beside["groups"]) == ranked(shell, runs, "--tables", "paper")


def test_a_report_keeps_the_leaderboards_that_were_asked_for(runs: Path, tmp_path: Path, shell: Shell) -> None:
    """Pages have the leaderboards with the tables of --tables and without any, and no further combination."""
    for name, tables in {"none": [], "two": ["--tables", "paper,anchors"]}.items():
        shell.printed("report", runs, "-o", tmp_path / name, "--no-figures", *tables)
    found = [
        {document for document in kept_documents(tmp_path / name) if document.startswith("suite")}
        for name in ("none", "two")
    ]

    assert found == [{"suite"}, {"suite", "suite/anchors,paper"}]


def test_repeats_are_runs_of_one_group(runs: Path) -> None:
    """Pages of the task and of the experiment keep runs of other budgets apart, with the leaderboard's numbers."""
    listed, task, suite = served(runs, "runs", "task/toy", "suite")
    (experiment,) = served(runs, f"experiment/{listed['runs'][0]['experiment_id']}")
    groups = {run["directory"]: run["group"] for run in listed["runs"]}
    cells = {(one["entry"], one["group"]): (one["mean"], one["standard_error"]) for one in experiment["cells"]}

    assert groups == {name: f"budget {name.split('-')[1]}" for name in groups}
    assert [(one["entry"], one["group"], len(one["runs"])) for one in task["entries"]] == [
        ("random", "budget 10", 2),
        ("tuner", "budget 10", 2),
        ("tuner", "budget 12", 2),
    ]
    assert cells == {
        (entry["entry"], group["title"]): (entry["tasks"]["toy"]["mean"], entry["tasks"]["toy"]["standard_error"])
        for group in suite["groups"]
        for entry in group["entries"]
        if entry["kind"] != "anchor"
    }


def test_a_copy_of_a_run_counts_once(runs: Path, shell: Shell) -> None:
    """A run that lies in two places is no repeat, and has the group of the other."""
    write_run(runs / "again" / "tuner-10-0", "tuner", 10, 0, 5.0)
    (suite, listed) = served(runs, "suite", "runs")

    assert comparable(suite["groups"]) == ranked(shell, runs)
    assert {run["group"] for run in listed["runs"] if "tuner-10-0" in run["directory"]} == {"budget 10"}


def test_a_run_that_goes_on_is_with_those_of_its_options(runs: Path) -> None:
    """It has the group of its entry's finished runs with the same options; where there are none, it has none yet."""
    for name, agent, budget in (("open-12", "tuner", 12), ("open-14", "tuner", 14), ("open-new", "neutral", 10)):
        paths = write_run(runs / name, agent, budget, 5)
        lines = paths.journal.read_bytes().splitlines(keepends=True)
        paths.journal.write_bytes(b"".join(lines[:4]))
        paths.document.unlink()
    (listed,) = served(runs, "runs")
    groups = {run["directory"]: run["group"] for run in listed["runs"] if run["directory"].startswith("open")}

    assert groups == {"open-12": "budget 12", "open-14": None, "open-new": None}


def test_two_runs_name_the_command_that_compares_them(runs: Path) -> None:
    """The page of two runs has the command with their directories; of runs of two groups, with --allow-incomparable."""
    with ServedViewer([runs]) as viewer:
        ids = {place.root.name: place.id for place in viewer.documents.index.directories().values()}
        one, other, far = ids["random-10-0"], ids["tuner-10-0"], ids["tuner-12-0"]
        alike, apart = (asked(viewer, f"/data/compare/{one}/{second}.json").document for second in (other, far))

    assert alike["command"] == f"evopolicygym compare {runs}/random-10-0 {runs}/tuner-10-0"
    assert apart["command"] == f"evopolicygym compare {runs}/random-10-0 {runs}/tuner-12-0 --allow-incomparable"


LIMITED = AgentConfig("neutral", "m", allowance=Allowance(tokens=500))
ENDS: Mapping[str, tuple[list[Event], str, int, str]] = {
    "budget": (events_of(AgentConfig("tuner")), "budget", 0, ""),
    "itself": (events_of(AgentConfig("tuner"), 12), "agent", 2, ""),
    "crash": (
        events_of(AgentConfig("tuner"), 12, end="crashed", message="Traceback:\n  here\nValueError: no\n"),
        "crash",
        2,
        "ValueError: no",
    ),
    "limit": (
        events_of(LIMITED, 12, end="allowance_spent", message="the limit of 500 tokens is reached"),
        "max_tokens",
        2,
        "the limit of 500 tokens is reached",
    ),
    "limit by what was used": (
        events_of(LIMITED, 12, end="allowance_spent"),
        "max_tokens",
        2,
        "the limit of 500 tokens is reached",
    ),
}


@pytest.mark.parametrize("case", ENDS)
def test_how_a_run_ended_is_said(case: str, tmp_path: Path) -> None:
    """The list of runs and the run's page say what ended it, with the episodes left and the limit or the error."""
    events, by, unspent, why = ENDS[case]
    recorded(tmp_path / "runs" / "one", events)
    with ServedViewer([tmp_path / "runs"]) as viewer:
        (run,) = asked(viewer, "/data/runs.json").document["runs"]
        page = asked(viewer, f"/data/run/{run['id']}.json").document

    assert (run["ended_by"], run["budget"] - run["spent"], run["ended"]["why"]) == (by, unspent, why)
    assert page["ended"] == run["ended"]


@pytest.mark.nightly
def test_a_suite_that_was_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    """A suite of two budgets is the same in the program's JSON, on the site, and in a report's pages and tables."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    played = evopolicygym.run_suite(
        "smoke", agents=["tuner", "random"], environments=["cartpole"], cross={"budget": [4, 8]}, repeats=2,
        validation=1, held_out=2, split="public", isolation="none", runs=str(tmp_path / "runs"),
    )  # fmt: skip
    shell.printed("report", tmp_path / "runs", "-o", tmp_path / "report", "--no-figures")
    (suite,), kept = served(tmp_path / "runs", "suite"), kept_documents(tmp_path / "report")
    expected = ranked(shell, tmp_path / "runs")
    tables = [
        json.loads(path.read_text()) for path in sorted((tmp_path / "report" / "tables").glob("leaderboard*.json"))
    ]

    assert played.ok
    assert {table["title"] for table in expected} == {"budget 4", "budget 8"}
    assert comparable(suite["groups"]) == comparable(kept["suite"]["groups"]) == expected
    assert [table["entries"] for table in comparable(tables)] == [table["entries"] for table in expected]
