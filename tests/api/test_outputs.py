"""What a program writes and shows of runs: tables as text, data frames, notebooks, exports, reports, suites."""

import subprocess
import sys
from pathlib import Path

import pytest

import evopolicygym
from evopolicygym.records.rows import SubmissionRow
from players import GOOD

SMALL = {"validation": 1, "held_out": 2, "split": "public", "workers": 1}


def two_gains(session: evopolicygym.Session) -> None:
    """Submit the policy that lies there, then one that balances the pole."""
    session.submit(episodes=2)
    session.submit(GOOD, episodes=2)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> evopolicygym.Run:
    """Return a small run."""
    place = tmp_path_factory.mktemp("outputs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        return evopolicygym.run("cartpole", two_gains, budget=4, runs=place / "runs", **SMALL)


def test_submissions_are_typed_rows(run: evopolicygym.Run) -> None:
    """A column is an attribute and a key, and all tables are data frames."""
    first = run.submissions[0]

    assert isinstance(first, SubmissionRow)
    assert (first.status, first["status"], dict(first)["status"]) == ("ok", "ok", "ok")
    assert list(run.to_pandas()["submission"]) == list(range(len(run.submissions)))
    assert [len(run.to_pandas(table)) for table in ("runs", "episodes")] == [1, len(run.episodes)]
    with pytest.raises(evopolicygym.errors.UnknownName):
        run.to_pandas("policies")


def test_a_run_says_what_it_was_asked_for(run: evopolicygym.Run) -> None:
    """The budget, the model and the options are attributes."""
    assert (run.budget, run.model, dict(run.options)) == (4, None, {})


def test_runs_are_data_frames_of_the_same_types(run: evopolicygym.Run) -> None:
    """Numbers, truth values and times have the types of their kinds, also where all are missing."""
    loaded = evopolicygym.load_runs(run.path)
    frames = {
        table: loaded.to_pandas(table) for table in ("runs", "tasks", "submissions", "edits", "episodes", "steps")
    }
    runs, episodes = frames["runs"].dtypes.map(str), frames["episodes"].dtypes.map(str)
    alone = run.to_pandas("episodes")

    assert {table: len(frame) for table, frame in frames.items() if table != "steps"} == {
        "runs": 1, "tasks": 1, "submissions": 2, "edits": 2, "episodes": len(run.episodes),
    }  # fmt: skip
    assert (runs["budget"], runs["max_turns"], runs["max_cost_usd"]) == ("int64", "Int64", "float64")
    assert (runs["finished_at"], episodes["success"]) == ("datetime64[ms, UTC]", "boolean")
    assert list(alone.dtypes) == list(frames["episodes"].dtypes)
    with pytest.raises(evopolicygym.errors.UnknownName):
        loaded.to_pandas("policies")


def test_pandas_may_be_missing(run: evopolicygym.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the package."""
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(evopolicygym.errors.MissingPackage, match="pip install pandas"):
        run.to_pandas()


def test_a_notebook_shows_a_run_with_its_figure(run: evopolicygym.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a row for each submission and a figure; without matplotlib there is no figure."""
    with_figure = run._repr_html_()
    monkeypatch.setattr("evopolicygym.api.read.run.find_spec", lambda _name: None)

    assert with_figure.count("<svg") == 1
    assert with_figure.count("<tr>") >= 1 + len(run.submissions)
    assert "<svg" not in run._repr_html_()


def test_a_leaderboard_is_one_object(run: evopolicygym.Run) -> None:
    """It has its groups, and is written as Markdown, LaTeX, CSV and HTML."""
    board = evopolicygym.leaderboard(run.path)

    assert [[one.entry.label for one in group.standings] for group in board.groups] == [["two_gains", "Uniform random"]]
    texts = board.to_markdown(), board.to_latex(), board.to_csv()
    assert texts == tuple(board.written(form) for form in ("markdown", "latex", "csv"))
    assert "<table>" in board._repr_html_()


def test_runs_are_exported_and_reported(run: evopolicygym.Run, tmp_path: Path) -> None:
    """An export names its files with their rows, a report its parts and the page to begin with."""
    exported = evopolicygym.export_runs("csv", run.path, tmp_path / "data", tables=["submissions"])
    report = evopolicygym.write_report(run.path, tmp_path / "report", figures=False)
    part = evopolicygym.write_report(run.path, tmp_path / "part", only=["leaderboard"])

    assert [(one.path.name, one.rows) for one in exported.written] == [("submissions.csv", len(run.submissions))]
    assert report.page == tmp_path / "report" / "index.html"
    assert report.page.is_file()
    assert (part.page, {one.name for one in part.contents.parts}) == (None, {"leaderboard"})


def test_held_out_cases_are_played_post_hoc(run: evopolicygym.Run) -> None:
    """Checkpoints that were not selected are played once."""
    counted: list[int] = []
    played = evopolicygym.post_hoc(run.path, workers=1, on_episode=lambda: counted.append(1))
    again = evopolicygym.post_hoc(run.path)

    assert len(counted) == 2 * played[run.path].checkpoints
    assert played[run.path].checkpoints > 0
    assert again[run.path].checkpoints == 0


def test_an_environment_is_checked() -> None:
    """Findings pass, and an environment that isn't there is a finding."""
    assert all(finding.ok for finding in evopolicygym.check_environment("cartpole"))
    assert [finding.ok for finding in evopolicygym.check_environment("cartpol")] == [False]


def test_a_suite_is_played(tmp_path: Path) -> None:
    """All its runs are finished, a second call plays nothing, and an option of one agent is refused."""
    program = (
        "import evopolicygym\n"
        "for _ in range(2):\n"
        "    played = evopolicygym.run_suite('smoke', agents=['random'], environments=['cartpole'], jobs=1,\n"
        "        repeats=1, budget=2, validation=1, held_out=2, split='public', runs='runs')\n"
        "    print(played.ok, len(played), played.interrupted, played.results[0].root.name)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    first, second = done.stdout.splitlines()

    assert first.startswith("True 1 False ")
    assert first == second
    with pytest.raises(evopolicygym.errors.UnknownName):
        evopolicygym.run_suite("smoke", model="m", runs=tmp_path / "runs")
