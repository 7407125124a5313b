"""The functions of `evopolicygym`: a run from Python, and what is read of runs that were played."""

import subprocess
import sys
import warnings
from pathlib import Path

import pandas as pd
import pytest

import evopolicygym
from evopolicygym.core.errors import RequestRefused, UnknownName, UsageError
from evopolicygym.core.event import Event, SubmissionPublished
from evopolicygym.core.run import RunState
from players import GOOD

SMALL = {"validation": 1, "held_out": 2, "split": "public", "workers": 1}


def balance(session: evopolicygym.Session) -> str:
    """Submit the policy that lies there, then one that balances the pole."""
    random = session.submit(episodes=2)
    better = session.submit(GOOD, episodes=[0, 1])
    assert better.mean is not None
    assert random.mean is not None
    return f"better by {better.mean - random.mean}"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> evopolicygym.Run:
    """Return a run whose agent is a function."""
    place = tmp_path_factory.mktemp("face")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        return evopolicygym.run("cartpole", balance, budget=4, runs=place / "runs", **SMALL)


def test_a_function_is_an_agent(played: evopolicygym.Run) -> None:
    """It submits what it is given a session for, and the best of its submissions is scored."""
    assert (played.task, played.agent, played.is_finished) == ("cartpole", "balance", True)
    assert (played.selected_submission, played.score) == (1, 500.0)
    assert len(played.held_out_returns) == 2
    assert played.path.joinpath("journal.jsonl").is_file()


def test_submissions_are_records(played: evopolicygym.Run) -> None:
    """pandas takes them as they are."""
    frame = pd.DataFrame(played.submissions)

    assert list(frame["episodes"]) == [2, 2]
    assert list(frame["is_selected"]) == [False, True]
    assert len(pd.DataFrame(played.episodes)) == 4 + 2 + 2


def test_a_run_is_shown_in_a_line_and_in_a_notebook(played: evopolicygym.Run) -> None:
    """Its repr names it with its score, and its HTML has a row for each submission."""
    assert repr(played) == f"<Run {played.id}: cartpole, balance, 500.00 ± 0.00>"
    assert played._repr_html_().count("<tr>") == 3


def test_a_run_is_loaded_again(played: evopolicygym.Run) -> None:
    """By its directory, its id or `latest`, it says the same."""
    below = played.path.parents[3]

    assert [evopolicygym.load_run(name, below) for name in (played.path, played.id, "latest")] == [played] * 3
    again, before = evopolicygym.load_run(played.path).summary, played.summary
    assert {**again, "record": ""} == {**before, "record": ""}  # the fixture played it as another user


def test_what_was_played_is_looked_at(played: evopolicygym.Run) -> None:
    """Leaderboards, comparisons and diagnoses give records, notes and HTML; a record is verified."""
    board = evopolicygym.leaderboard(played.path)
    pair = evopolicygym.compare("balance", "Uniform random", played.path)
    edits = evopolicygym.diagnose(played.path, only=["edits"])

    assert board.records[0]["entry"] == "balance"
    assert pair.document["first"] == "balance"
    assert [(one["parent"], one["edit"]) for one in edits.records] == [("starter", "none"), ("0", "structural")]
    assert all("<table>" in one._repr_html_() for one in (board, pair, edits))
    assert evopolicygym.verify(played.path).ok


def test_what_a_session_refuses(tmp_path: Path) -> None:
    """More episodes than are left are refused with nothing charged, and the function goes on."""
    seen = []

    def greedy(session: evopolicygym.Session) -> None:
        for episodes in ([0, 1, 2], 9):
            try:
                session.submit(episodes=episodes)
            except RequestRefused as error:
                seen.append((error.status, session.remaining))
        session.submit()  # as many as are left

    run = evopolicygym.run("cartpole", greedy, budget=2, runs=tmp_path / "runs", **SMALL)

    assert seen == [("budget_invalid", 2)] * 2
    assert [one["episodes"] for one in run.submissions] == [2]


def test_a_function_that_fails_is_recorded(tmp_path: Path) -> None:
    """What it raises ends its turn, not the run."""

    def broken(session: evopolicygym.Session) -> None:
        session.submit(episodes=1)
        raise ZeroDivisionError("an idea")

    with pytest.warns(UserWarning, match="an idea"):
        run = evopolicygym.run("cartpole", broken, budget=2, runs=tmp_path / "runs", **SMALL)

    assert run.is_finished
    assert "ZeroDivisionError: an idea" in (run.path / "journal.jsonl").read_text()


def test_a_function_is_given_again_to_resume(tmp_path: Path) -> None:
    """A run whose agent is a function goes on with the function; without it, the error says what works."""

    def stop(event: Event, _state: RunState) -> None:
        if isinstance(event, SubmissionPublished) and event.submit_index == 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evopolicygym.run("cartpole", balance, budget=4, runs=tmp_path / "runs", on_event=stop, **SMALL)
    with pytest.raises(UsageError, match="agent=balance"):
        evopolicygym.resume("latest", runs=tmp_path / "runs")
    run = evopolicygym.resume("latest", agent=balance, runs=tmp_path / "runs", workers=1)

    assert (run.score, len(run.submissions)) == (500.0, 2)


def test_an_interrupted_run_says_where_it_lies(tmp_path: Path) -> None:
    """Ctrl-C once there is a record names it, and the run is resumed from there; before, it is like any other."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(evopolicygym.RunInterrupted) as interrupted:
        evopolicygym.run("cartpole", "random", budget=2, runs=tmp_path / "runs", on_event=interrupt, **SMALL)
    many = {**SMALL, "workers": 512}  # which is remarked before there is a record
    with pytest.raises(KeyboardInterrupt) as early:
        evopolicygym.run("cartpole", "random", budget=2, runs=tmp_path / "runs", on_warning=interrupt, **many)
    run = evopolicygym.resume(interrupted.value.path, workers=1)

    assert run.path == interrupted.value.path
    assert not isinstance(early.value, evopolicygym.RunInterrupted)


def test_a_run_is_logged_for_a_program_that_listens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """The package's logger says where the record lies and what is played; nothing is printed where nobody looks."""
    with caplog.at_level("INFO", logger="evopolicygym"):
        run = evopolicygym.run("cartpole", "random", budget=2, runs=tmp_path / "runs", **SMALL)
    quiet = capsys.readouterr()

    assert any(str(run.path) in line for line in caplog.messages)
    assert any(line.startswith("train episode 1 of submission 0") for line in caplog.messages)
    assert (quiet.out, quiet.err) == ("", "")


def test_what_is_wrong_is_said_before_anything_is_made(tmp_path: Path) -> None:
    """A misspelt option, an unknown environment and a function without a parameter are refused with what works."""
    with pytest.raises(UnknownName, match="'budget'"):
        evopolicygym.run("cartpole", buget=3, runs=tmp_path / "runs")  # type: ignore[call-arg]
    with pytest.raises(UnknownName, match="'cartpole'"):
        evopolicygym.run("cartpol", runs=tmp_path / "runs")
    with pytest.raises(UsageError, match="session"):
        evopolicygym.run("cartpole", lambda: None, runs=tmp_path / "runs")  # type: ignore[arg-type, misc]
    with pytest.raises(UsageError):
        evopolicygym.run(runs=tmp_path / "runs")

    assert not (tmp_path / "runs").exists()


def test_progress_is_shown_where_it_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There is a line for each submission, and a warning where more workers are asked for than have anything to do."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        many = {**SMALL, "workers": 512}
        evopolicygym.run("cartpole", "random", budget=2, runs=tmp_path / "runs", progress=True, **many)

    assert "submission 0" in capsys.readouterr().err
    assert [str(one.message) for one in said if "--workers 512" in str(one.message)] != []


def test_importing_the_package_loads_nothing() -> None:
    """The public names are listed without loading what they stand for."""
    program = "import sys, evopolicygym; dir(evopolicygym); print(sorted(n for n in sys.modules if 'evopol' in n))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert found.strip() == "['evopolicygym', 'evopolicygym.version']"


@pytest.mark.parametrize("name", evopolicygym.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """Each can be asked for, and says what it is."""
    assert getattr(evopolicygym, name).__doc__
