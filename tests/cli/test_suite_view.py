"""What a person sees of a suite, from its plan to its end."""

import json
import re
import tomllib
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from evopolicygym.cli import main as cli
from evopolicygym.cli.suite_view import SuiteView, failures, plan_table, score_table
from evopolicygym.core.run import Stage
from evopolicygym.runs.progress import RunProgress
from evopolicygym.runs.suites.play import ProcessStarted
from evopolicygym.runs.suites.records import PlannedRunResult, PlannedRunVerdict
from evopolicygym.runs.suites.suite import decode_suite, plan
from places import ROOT
from shell import Shell
from suites import suite

DOCS = ROOT / "docs"


def screen(*, terminal: bool) -> Console:
    return Console(file=StringIO(), force_terminal=terminal, width=120, color_system=None)


def shown(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def typed(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> object:
    """Type a command; return its exit code."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("sys.argv", ["evopolicygym", *map(str, arguments)])
    try:
        cli.main()
    except SystemExit as leaving:
        return leaving.code or 0
    return 0


def test_cells(tmp_path: Path) -> None:
    """A cell tells the score, how far a run is, why it failed, or that it waits; of repeats, their mean."""
    runs = plan(suite(tmp_path, "tuner", "random", "codex:a", "codex:b", "scripted", repeats=2))
    begun = {run.number: PlannedRunResult(run) for run in runs}
    console = screen(terminal=True)
    view = SuiteView(console, begun)
    for run in runs[:2]:
        view.observe(run, ProcessStarted(1, (0,)))
        view.observe(run, RunProgress(Stage.OPEN, 2, 6))
    view.observe(runs[1], RunProgress(Stage.CLOSED, 1, 4))
    for number, returns in ((2, (0.0, 2.0)), (7, (2.0, 4.0))):
        result = PlannedRunResult(runs[number], PlannedRunVerdict.FINISHED, tmp_path, returns=returns)
        view.observe(runs[number], result)
    view.observe(
        runs[3], PlannedRunResult(runs[3], PlannedRunVerdict.FAILED, tmp_path, reason="limited", message="for now")
    )
    console.print(view._draw())
    text = shown(console)

    assert re.search(r"tuner +random +codex:a +codex:b +scripted", text)
    assert re.search(
        r"cartpole +2/6, 1 waiting +validation 1/4, 1 waiting +2.00 ± 1.41 \(2\) +failed: limited, 1 waiting", text
    )
    assert "2 waiting" in text
    assert "2/10 runs" in text


def test_a_log_gets_a_line_for_each_run(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """Without a terminal, a line is printed when a run has ended, and no other."""
    runs = plan(suite(tmp_path, "tuner", "random"))
    console = screen(terminal=False)
    view = SuiteView(console, {run.number: PlannedRunResult(run) for run in runs})
    with view.live():
        view.observe(runs[0], RunProgress(Stage.OPEN, 1, 6))
        view.observe(runs[0], PlannedRunResult(runs[0], PlannedRunVerdict.FINISHED, tmp_path, 7.0, 1.0))
        view.observe(
            runs[1],
            PlannedRunResult(runs[1], PlannedRunVerdict.FAILED, None, reason="UsageError", message="no\nand more"),
        )

    assert shown(console) == snapshot


def test_the_end(tmp_path: Path) -> None:
    """At the end stand all scores, and what is not finished with why, and how to go on."""
    runs = plan(suite(tmp_path, "tuner", "random", "scripted"))
    results = [
        PlannedRunResult(runs[0], PlannedRunVerdict.FINISHED, tmp_path, None, None, "crashed", "the model is gone"),
        PlannedRunResult(runs[1], PlannedRunVerdict.FAILED, Path("runs/it"), reason="limited", message="for now"),
        PlannedRunResult(runs[2]),
    ]
    console = screen(terminal=False)
    console.print(score_table(results), failures(results))
    text = shown(console)

    assert re.search(r"cartpole +no score +failed: limited +waiting", text)
    assert re.search(r"cartpole · random · repeat 0 +failed: limited: for now +.*evopolicygym", text)
    assert "tuner · repeat" not in text


def test_scores_say_what_stands_behind_them(tmp_path: Path) -> None:
    """The header of each table with scores says that ± is the standard error, of one run and of repeats alike."""
    runs = plan(suite(tmp_path, "tuner", repeats=2))
    results = [
        PlannedRunResult(run, PlannedRunVerdict.FINISHED, tmp_path, 1.0, 0.5, returns=(0.5, 1.5)) for run in runs
    ]
    for table in (score_table(results), plan_table(results)):
        console = screen(terminal=False)
        console.print(table)
        text = shown(console)

        assert "held-out mean ± s.e." in text.splitlines()[0]
        assert re.search(r"1\.0+ ± 0\.", text)


def test_the_list_of_suites(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """suites tells what there is, to a person and to a script."""
    assert typed(monkeypatch, "suites") == 0
    text = capsys.readouterr().out
    assert typed(monkeypatch, "suites", "--json") == 0
    listed = json.loads(capsys.readouterr().out)

    assert re.search(r"core16 +16 +128 +All sixteen", text)
    assert {one["name"]: len(one["environments"]) for one in listed}["smoke"] == 3


def test_what_a_suite_holds(shell: Shell) -> None:
    """suites show says of each task of which pack it is, why it is hard and what known policies score; so does JSON."""
    text = shell.printed("suites", "show", "frontier16")
    found = shell.json("suites", "show", "frontier16")
    (listed,) = [one for one in shell.json("suites") if one["name"] == "frontier16"]

    assert "\nprocgen-chaser procgen · 1000 steps\n    pixels, long horizon: A maze that differs" in text
    assert "\n    open: best known 14.2; 0.019 s an episode" in text
    assert listed == found
    assert [one["name"] for one in found["tasks"]] == found["environments"]
    assert {"pack": "nle", "max_steps": 5000}.items() <= found["tasks"][7].items()


def test_a_suite_of_specs_shows_their_anchors(shell: Shell) -> None:
    """An environment with a spec of its own is shown with the spec's limit and anchors."""
    text = shell.printed("suites", "show", "smoke")

    assert "\npendulum 200 steps\n" in text
    assert text.count("(mean ± s.e.)") == 3


def test_a_dry_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """--dry-run says what would be played, and leaves nothing behind."""
    asked = ("suite", "smoke", "--agent", "tuner", "--agent", "random", "--repeats", 2, "--runs", tmp_path / "runs")
    assert typed(monkeypatch, *asked, "--dry-run") == 0
    text = capsys.readouterr().out
    assert typed(monkeypatch, *asked, "--dry-run", "--json") == 0
    listed = json.loads(capsys.readouterr().out)

    assert text.count("new") == 12
    assert [(one["agent"], one["seed"], one["verdict"]) for one in listed[:2]] == [
        ("tuner", 0, "waiting"),
        ("random", 0, "waiting"),
    ]
    assert not (tmp_path / "runs").exists()


def test_a_suite_that_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What can't be asked for is answered with exit code 2, before anything is played."""
    for wrong in (["smok"], ["smoke", "--agent", "nobody"], ["smoke", "--environment", "nowhere"], ["no.toml"]):
        assert typed(monkeypatch, "suite", *wrong, "--runs", tmp_path / "runs") == 2
        assert "Error: " in capsys.readouterr().err

    assert not (tmp_path / "runs").exists()


def test_the_examples_in_the_docs() -> None:
    """The files that docs/use/suites.md shows are suites."""
    example, crossed = re.findall(
        r"```toml\n(.*?)```", (DOCS / "use" / "suites.md").read_text(encoding="utf-8"), re.DOTALL
    )
    shown_suite = decode_suite({**tomllib.loads(example), "experiment": "thinking"}, "here")
    planned = plan(shown_suite)

    assert len(planned) == 27
    assert {run.entry for run in planned} == {"tuner", "little thought", "much thought"}
    assert planned[2].config.agent.effort == "high"
    assert planned[2].config.agent.allowance.cost == 5.0
    assert planned[1].config.agent.allowance.cost is None
    assert len(plan(decode_suite({**tomllib.loads(crossed), "experiment": "practice"}, "here"))) == 8


def test_levels_are_shown(tmp_path: Path) -> None:
    """Of a suite that crosses knobs, tables have a row for each combination, and columns that say which."""
    planned = plan(suite(tmp_path, "tuner", cross={"budget": [2, 6], "policy_packages": [[], ["numba"]]}))
    results = [PlannedRunResult(run) for run in planned]
    console = screen(terminal=False)
    console.print(plan_table(results))
    console.print(score_table(results))

    assert re.search(r"environment +agent +budget +policy_packages +repeat", shown(console))
    assert re.search(r"cartpole +tuner +6 +numba +0 +0 +new", shown(console))
    assert re.search(r"cartpole +2 +none +waiting", shown(console))
