"""``evopolicygym report``: one directory of tables and figures, its index, what it refuses, and without matplotlib."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from evopolicygym.analysis.drawing.figure import FIGURES
from evopolicygym.cli.main import app
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.report.contents import FORM, ORDER
from evopolicygym.report.tables import tables
from made_up import IN_ANOTHER_PROCESS
from reported import ENTRIES, write_reported
from viewed import documents_within, kept_documents
from whole_runs import config, played, state_kept_in

pytestmark = pytest.mark.made_up

WITHOUT_MATPLOTLIB = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")

sys.meta_path.insert(0, Absent())
@
from evopolicygym.cli.main import main
main()
""".replace("@", IN_ANOTHER_PROCESS)
"""The program, where matplotlib is not installed."""
LINK = re.compile(r"\]\(([^)]+)\)")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where runs of three entries on two tasks lie, with one that can't be read and one that isn't finished."""
    place = tmp_path_factory.mktemp("report") / "runs"
    found = write_reported(place, tasks=("acrobot", "door_key"))
    (place / "broken").mkdir()
    (place / "broken" / "run.json").write_text("{")
    (place / "open").mkdir()
    first_lines = found[0].paths.journal.read_bytes().splitlines(keepends=True)[:4]
    (place / "open" / "journal.jsonl").write_bytes(b"".join(first_lines))
    return place


def typed(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def report(*arguments: object) -> dict[str, Any]:
    """Return what the program tells of a report that it has written."""
    left = typed(*arguments, "--json")
    assert left.exit_code == 0, left.output
    document: dict[str, Any] = json.loads(left.stdout)
    return document


def without_matplotlib(*arguments: object) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, "-c", WITHOUT_MATPLOTLIB, "report", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(line, capture_output=True, text=True, timeout=120, check=False, env=environment)


def test_a_report_counts_the_tasks_of_its_runs(runs: Path, tmp_path: Path) -> None:
    """A shipped table beside them has sixteen tasks; the header counts the two that the runs played."""
    told = report(runs, "-o", tmp_path / "report", "--tables", "paper", "--no-figures", "--no-pages")

    assert told["tasks"] == ["acrobot", "door_key"]
    assert "2 tasks" in (tmp_path / "report" / "README.md").read_text(encoding="utf-8")


def test_a_real_suite(tmp_path: Path) -> None:
    """Runs that tuner and random have played on cartpole become a report with every part, through the program."""
    with state_kept_in(tmp_path / "state"):
        for agent in ("tuner", "random"):
            played(config(tmp_path / "runs", agent=agent, budget=4))

    told = report(tmp_path / "runs", "-o", tmp_path / "report", "--format", "svg")

    assert (told["runs"], sorted(told["entries"]), told["tasks"]) == (2, ["random", "tuner"], ["cartpole"])
    assert list(dict.fromkeys(part["name"] for part in told["parts"])) == [
        name for name in ORDER if name not in {"headroom", "published"}
    ]
    assert told["problems"] == []
    files = {file for part in told["parts"] for file in part["files"]}
    there = {path.relative_to(tmp_path / "report").as_posix() for path in (tmp_path / "report").rglob("*.*")}
    assert {file for file in there if not file.startswith("data/")} == files | {
        "README.md",
        "report.json",
        "index.html",
    }
    assert sum(file.startswith("data/") for file in there) == told["pages"]["documents"] + len(["pages.json"])


def test_the_index(runs: Path, tmp_path: Path) -> None:
    """The index shows every part in reading order, leads to every file, and tells what the report stands on."""
    told = report(
        runs, "-o", tmp_path, "--format", "svg", "--tables", "paper", *("--only", "leaderboard", "--only", "edits")
    )
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    links = LINK.findall(text)

    assert [link for link in links if not (tmp_path / link).exists()] == []
    assert {file for part in told["parts"] for file in part["files"]} <= set(links)
    assert all(part["caption"] in text and part["method"] in text for part in told["parts"])
    assert [
        one for one in ("none 12", "arXiv 2607.02440", "evopolicygym 0.", "not finished", "broken") if one not in text
    ] == []
    assert len(told["problems"]) == 2
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["form"] == FORM


def test_no_path_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables, contents, figures and pages name runs, copies and broken runs from the directory of the runs."""
    home = tmp_path / "home-of-\u00e4uthor"
    place = home / "runs"
    found = write_reported(place, entries=["tuner"], tasks=("acrobot",), repeats=1)
    shutil.copytree(found[0].paths.root, place / "copy")
    (place / "broken").mkdir()
    (place / "broken" / "journal.jsonl").write_text(f"{home}\n")
    found[0].paths.logs.mkdir(exist_ok=True)
    found[0].paths.transcript.write_text(f"cat {place}/x {home}/y\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(sys, "argv", ["evopolicygym", "report", str(place), f"--output={home}/out"])
    told = report(place, "-o", home / "out", "--format", "svg")
    single = home / "out" / "single.html"
    typed(place, "--single-file", single)
    texts = {path.name: path.read_text(encoding="utf-8") for path in (home / "out").rglob("*.*")}
    texts |= {name: json.dumps(made, ensure_ascii=False) for name, made in kept_documents(home / "out").items()}
    texts |= {name: json.dumps(made, ensure_ascii=False) for name, made in documents_within(single).items()}
    leaky = [name for name, text in texts.items() if "home-of" in text or str(tmp_path) in text]

    assert leaky == []
    assert told["command"] == "evopolicygym report runs --output=out"
    assert {problem["run"] for problem in told["problems"]} == {"broken", "entry-0/acrobot/0"}
    document = json.loads(texts["leaderboard.json"])
    assert [task["runs"] for task in document["entries"][0]["tasks"].values()] == [["copy"]]


@pytest.mark.nightly
def test_tables_hold_what_the_figures_show(runs: Path, tmp_path: Path) -> None:
    """Tables alone need no figures; files for programs have a row for each entry, task, kind."""
    told = report(runs, "-o", tmp_path, "--no-figures")
    names = [part["name"] for part in told["parts"]]
    read = {
        name: list(csv.DictReader((tmp_path / "tables" / f"{name}.csv").read_text(encoding="utf-8").splitlines()))
        for name in names
    }

    assert names == [
        name for name in ORDER if name not in {"families", "profiles", "published", "learning_families", "lineage"}
    ]
    assert [row["entry"] for row in read["leaderboard"]][:3] == ["tuner", "neutral a-model", "codex"]
    assert {row["task"] for row in read["tasks"]} == {"acrobot", "door_key"}
    assert {row["kind"] for row in read["edits"]} == {"tuning", "synthesis", "all"}
    assert len(read["compare"]) == 2
    assert "\\toprule" in (tmp_path / "tables" / "leaderboard.tex").read_text(encoding="utf-8")
    assert list((tmp_path / "figures").iterdir()) == []


def test_headroom_and_figures_of_other_protocols(tmp_path: Path) -> None:
    """Each has a section where there is something to show: a verdict, and figures of a task that was played."""
    write_reported(tmp_path / "runs", tasks=("acrobot", "half_cheetah"))
    told = report(tmp_path / "runs", "-o", tmp_path / "report", "--no-figures", "--tables", "published", "--no-pages")
    tables = tmp_path / "report" / "tables"
    known = list(csv.DictReader((tables / "headroom.csv").read_text(encoding="utf-8").splitlines()))
    elsewhere = list(csv.DictReader((tables / "published.csv").read_text(encoding="utf-8").splitlines()))

    assert {"headroom", "published"} <= {part["name"] for part in told["parts"]}
    assert {row["task"]: row["entries"] for row in known} == {"acrobot": "3", "half_cheetah": "3"}
    assert {row["task"] for row in elsewhere} == {"half-cheetah-v5"}
    assert "(ours" in elsewhere[0]["protocol"]
    assert "These tasks" in (tables / "headroom.md").read_text(encoding="utf-8")


def test_one_part_alone(runs: Path, tmp_path: Path) -> None:
    """Only what is asked for is written: a name's figure and its table, in the formats that are named."""
    told = report(runs, "-o", tmp_path, "--only", "edits", "--format", "png")

    assert [(part["kind"], part["files"]) for part in told["parts"]] == [
        ("figure", ["figures/edits.png"]),
        ("table", ["tables/edits.md", "tables/edits.csv", "tables/edits.tex"]),
    ]


def test_the_same_twice(runs: Path, tmp_path: Path) -> None:
    """A report is replaced by the next: no file of the old one stays, and the same command gives the same bytes."""
    report(runs, "-o", tmp_path, "--only", "cost", "--only", "leaderboard")
    first = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*.*"))}
    report(runs, "-o", tmp_path, "--only", "budget", "--no-figures")
    (tmp_path / "mine.txt").write_text("mine")
    between = {path.name for path in tmp_path.rglob("*.*")}
    report(runs, "-o", tmp_path, "--only", "cost", "--only", "leaderboard")

    assert between == {"README.md", "report.json", "budget.csv", "budget.md", "budget.tex", "mine.txt"}
    assert {path: path.read_bytes() for path in sorted(tmp_path.rglob("*.*")) if path.name != "mine.txt"} == first


def test_a_directory_of_something_else(runs: Path, tmp_path: Path) -> None:
    """Nothing is written among other files unasked, and a false report.json has no other file removed."""
    (tmp_path / "mine.txt").write_text("mine")
    left = typed(runs, "-o", tmp_path, "--no-figures")

    assert isinstance(left.exception, UsageError)
    assert "--force" in str(left.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]

    named = {"form": FORM, "parts": [{"files": ["mine.txt", "../x", "tables/../mine.txt", 3]}]}
    (tmp_path / "report.json").write_text(json.dumps(named))
    report(runs, "-o", tmp_path, "--no-figures", "--only", "cost", "--force")
    assert (tmp_path / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--only", "edit"], "'edits'"),
        (["--format", "gif"], "svg"),
        (["--only", "families", "--no-figures"], "--no-figures"),
        (["--tables", "papers"], "papers"),
    ],
)
def test_what_can_t_be_reported_is_told(runs: Path, tmp_path: Path, arguments: list[str], named: str) -> None:
    """A name that isn't known is refused with what is, before anything is written."""
    left = typed(runs, "-o", tmp_path / "new", *arguments)

    assert isinstance(left.exception, UsageError)
    assert named in str(left.exception)
    assert not (tmp_path / "new").exists()


def test_a_figure_from_outside(runs: Path, tmp_path: Path) -> None:
    """A figure of another package is named as package.module:ATTRIBUTE, and its files are named for it."""
    told = report(runs, "-o", tmp_path, "--only", "evopolicygym.analysis.figures.cost:FIGURE", "--format", "svg")

    assert [part["files"] for part in told["parts"]] == [["figures/evopolicygym_analysis_figures_cost_FIGURE.svg"]]
    with pytest.raises(UnknownName):
        FIGURES.load("canvas")


def test_without_matplotlib(runs: Path, tmp_path: Path) -> None:
    """Where matplotlib is missing the message names the extra, and tables can be had all the same."""
    left = without_matplotlib(runs, "-o", tmp_path / "new")
    tables_only = without_matplotlib(runs, "-o", tmp_path / "tables", "--no-figures", "--only", "leaderboard")

    assert left.returncode == 2
    assert "evopolicygym[figures]" in left.stderr
    assert "--no-figures" in left.stderr
    assert not (tmp_path / "new").exists()
    assert tables_only.returncode == 0, tables_only.stderr
    assert ENTRIES[0] in (tmp_path / "tables" / "README.md").read_text(encoding="utf-8")


def test_every_part_has_its_place() -> None:
    """The reading order names every table and figure of ours."""
    assert set(ORDER) == {*tables(), *FIGURES.names()}


def test_what_is_not_comparable_is_reported_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of two budgets share no table and no figure; titles say which is which, and the index shows all."""
    for budget in (32, 64):
        monkeypatch.setattr("reported.BUDGET", budget)
        write_reported(tmp_path / "runs" / str(budget), entries=["random"], tasks=["acrobot"], repeats=1)
    told = report(tmp_path / "runs", "-o", tmp_path / "report", "--only", "leaderboard", "--only", "budget")
    text = (tmp_path / "report" / "README.md").read_text(encoding="utf-8")

    assert [part["name"] for part in told["parts"] if part["kind"] == "table"] == [
        "leaderboard", "budget", "leaderboard_2", "budget_2",
    ]  # fmt: skip
    assert told["runs"] == 2
    assert "## Leaderboard (budget 32)" in text
    assert "## Leaderboard (budget 64)" in text
