"""An agent's name through every door, and the tables of a leaderboard by name."""

import csv
import inspect
import io
from pathlib import Path

import pytest
from typer.main import get_command

import evopolicygym
from evopolicygym.cli.main import app
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.options import RUN_OPTIONS
from places import ROOT
from shell import Shell

LABELS = ["=1+1", 'say "a", b', "ünïcode, 雪", "-5", "@cmd"]
SMALL = {"validation": 1, "held_out": 2, "split": "public", "workers": 1, "isolation": "none"}


def submit_nothing(_session: evopolicygym.Session) -> None:
    """End without a submission, so that nothing is scored."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a run for each of the labels; nothing in it is scored."""
    place = tmp_path_factory.mktemp("labelled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        for label in LABELS:
            evopolicygym.run("cartpole", submit_nothing, label=label, budget=1, runs=place / "runs", **SMALL)
    return place / "runs"


def column(text: str, name: str) -> set[str]:
    """Return the values of a column of a CSV."""
    return {row[name] for row in csv.DictReader(io.StringIO(text, newline=""))}


def test_tables_are_joined_on_the_agents_name(runs: Path, tmp_path: Path) -> None:
    """CSV of the leaderboard, of an export and of a report spell an agent alike, however it is called."""
    evopolicygym.export_runs("csv", runs, tmp_path / "data", tables=["runs"])
    evopolicygym.write_report(runs, tmp_path / "report", only=["leaderboard"], figures=False)
    of_board = column(evopolicygym.leaderboard(runs).to_csv(), "entry") - {"Uniform random"}
    of_export = column((tmp_path / "data" / "runs.csv").read_text(encoding="utf-8"), "agent")
    (file,) = (tmp_path / "report").rglob("leaderboard.csv")
    of_report = column(file.read_text(encoding="utf-8"), "entry") - {"Uniform random"}

    assert len(of_board) == len(LABELS)
    assert of_board == of_export == of_report


def test_show_names_the_entry(runs: Path, shell: Shell) -> None:
    """``show`` prints what tables call the agent, and its kind beside; JSON and ``Run`` have the same name."""
    root = next(path.parent for path in runs.rglob("run.json") if evopolicygym.load_run(path.parent).agent == "=1+1")

    assert "=1+1 (function)" in shell.printed("show", str(root))
    assert shell.json("show", str(root))["entry"] == "=1+1"


def test_a_table_without_scores_is_shown(runs: Path, shell: Shell) -> None:
    """Where nothing is scored, each table of a leaderboard is there, and has no numbers."""
    for name in ("ranks", "scores", "harnesses", "aggregates", "optimism"):
        assert shell("leaderboard", str(runs), "--show", name).code == 0


def test_several_tables_are_shown(runs: Path, shell: Shell) -> None:
    """``--show`` takes several names, with commas or given several times; CSV, and an unknown name, are refused."""
    asked = ("--show", "aggregates", "--show", "optimism,harnesses", "--format", "markdown")
    printed = shell.printed("leaderboard", str(runs), *asked)
    found = evopolicygym.leaderboard(runs, show=["aggregates", "optimism", "harnesses"])

    assert len(found.tables) >= 3
    assert printed.count("\n**") + 1 == len(found.arranged())
    with pytest.raises(UsageError):
        evopolicygym.leaderboard(runs, show=["aggregates", "optimism"]).to_csv()
    with pytest.raises(UnknownName, match="'scores'"):
        evopolicygym.leaderboard(runs, show="score")


FUNCTIONS = {
    "run": evopolicygym.run, "suite": evopolicygym.run_suite, "serve": evopolicygym.serve,
    "resume": evopolicygym.resume, "verify": evopolicygym.verify, "leaderboard": evopolicygym.leaderboard,
    "compare": evopolicygym.compare, "diagnose": evopolicygym.diagnose, "audit": evopolicygym.audit,
    "effects": evopolicygym.effects, "headroom": evopolicygym.headroom, "power": evopolicygym.power,
    "report": evopolicygym.write_report, "export": evopolicygym.export_runs, "bundle": evopolicygym.bundle,
    "post-hoc": evopolicygym.post_hoc,
}  # fmt: skip
"""The function that does what a verb does."""


@pytest.mark.parametrize("verb", FUNCTIONS)
def test_a_parameter_has_one_name(verb: str) -> None:
    """An option has the name of the function's argument, but for plurals and ``--no-``; the page names all others."""
    parameters = inspect.signature(FUNCTIONS[verb]).parameters
    options = {option.name for option in RUN_OPTIONS} if "options" in parameters else set()
    names = parameters.keys() | options
    program = get_command(app)
    command = program.get_command(program.make_context("", [], resilient_parsing=True), verb)  # type: ignore[attr-defined]
    flags = [option.opts[0] for option in command.params if option.param_type_name == "option"]
    alone = [flag for flag in flags if names.isdisjoint({(name := flag[2:].replace("-", "_")), f"{name}s", name[3:]})]
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    section = page.partition("## Names of arguments")[2].partition("\n## ")[0]

    assert [flag for flag in alone if f"`{flag}`" not in section] == []
    assert [option.opts for option in command.params if any(flag.startswith("--") for flag in option.opts[1:])] == []
