"""A run is logged to a tracker behind its journal, and nothing that the tracker does reaches the run."""

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import evopolicygym
from enclosed import needs_bubblewrap
from evopolicygym.api.play.run import RunInterrupted
from evopolicygym.api.play.serve import host
from evopolicygym.core.errors import MissingExtra, UnknownName
from evopolicygym.core.event import AgentMetered, AgentStarted, Event, RunClosed
from evopolicygym.core.run import RunState, fold
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.tracking import sink
from evopolicygym.tracking.process import make_tracker
from evopolicygym.tracking.sink import submission_point
from evopolicygym.tracking.tracker import TRACKERS, TrackedRun
from fakes import TIME, opening, submitted, whole_run
from players import GOOD
from sameness import told
from shell import Shell

SMALL: dict[str, Any] = {"budget": 4, "validation": 1, "held_out": 2, "split": "public", "workers": 1}
LINES = "odd_trackers:Lines"
LONG = 120


def two_submissions(session: evopolicygym.Session) -> None:
    """Submit the policy that lies there, then one that balances the pole."""
    session.submit(episodes=2)
    session.submit(GOOD, episodes=[0, 1])


def played(place: Path, **options: Any) -> evopolicygym.Run:
    return evopolicygym.run("cartpole", two_submissions, runs=place / "runs", **{**SMALL, **options})


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> evopolicygym.Run:
    """Return a run that is logged as it should be."""
    place = tmp_path_factory.mktemp("logged")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        patch.setattr(sink, "EXIT_S", LONG)
        return played(place, track=LINES, seed=3)


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a tracker's process come to its end on a machine that is busy with other tests."""
    monkeypatch.setattr(sink, "EXIT_S", LONG)


def lines(place: Path) -> list[dict[str, Any]]:
    text = (place / "runs" / ".tracking" / "lines.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_a_run_is_logged(logged: evopolicygym.Run) -> None:
    """Its configuration, a point for each submission at the episodes spent, and at last what hidden cases gave."""
    begun, first, second, *validation, held_out, summary = lines(logged.path.parents[4])
    means = [one["train_mean"] for one in logged.submissions]

    assert (begun["run"], begun["resumed"]) == (logged.id, False)
    assert begun["config"].items() >= {"task": "cartpole", "agent": "two_submissions", "budget": 4, "seed": 3}.items()
    assert first == {"step": 2, "submission": 0, "mean_return": means[0], "best_so_far": means[0]}
    assert second == {"step": 4, "submission": 1, "mean_return": means[1], "best_so_far": max(means)}
    assert [one["step"] for one in validation] == [2, 4]
    assert held_out == {"step": 4, "held_out_score": logged.score, "held_out_standard_error": logged.standard_error}
    assert summary["summary"]["status"] == "scored"


def test_no_path_is_logged(logged: evopolicygym.Run) -> None:
    """The configuration holds nothing of this machine."""
    place = logged.path.parents[4]

    assert str(place) not in json.dumps(lines(place)[0]["config"])


def test_hidden_results_come_after_the_run_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the agent may submit, no point holds a validation or held-out result."""
    sent: list[str] = []
    monkeypatch.setattr(sink.TrackerSink, "_send", lambda _self, message: sent.append(json.dumps(message)))
    no_process = SimpleNamespace(stdin=None)
    monkeypatch.setattr(sink.TrackerSink, "_start", lambda self: setattr(self, "_process", no_process))
    events, before = whole_run(), 0
    with sink.attach_tracker(LINES, lambda *_: None, lambda *_: None) as (opened, observe):
        opened(RunPaths(tmp_path / "run"), fold(events[:1]))
        for count, event in enumerate(events[1:], 2):
            observe(event, fold(events[:count]))
            before = len(sent) if isinstance(event, RunClosed) else before

    assert before == 3
    assert not [message for message in sent[:before] if "validation_mean" in message or "held_out_s" in message]
    assert [message for message in sent[before:] if "validation_mean" in message]
    assert [message for message in sent[before:] if "held_out_s" in message]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("tracker", "why"),
    [
        ("odd_trackers:Raises", "OSError: no point at 2 can be stored"),
        ("odd_trackers:Blocks", "it had not ended 1 s after the run"),
        ("odd_trackers:Exits", "odd_trackers:Exits stopped"),
        ("odd_trackers:NeverMade", "No module named 'a_tracker_that_nobody_has'"),
        ("nowhere.at.all:make", "can't be loaded"),
    ],
)
def test_a_tracker_that_fails_changes_nothing(
    tracker: str, why: str, logged: evopolicygym.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Record and result are those of a run whose tracker works, and there is one note about it."""
    if "Blocks" in tracker:
        monkeypatch.setattr(sink, "EXIT_S", 1)
    notes: list[str] = []
    failing = played(tmp_path, track=tracker, seed=3, on_warning=notes.append)
    files = [sorted(file.relative_to(one.path) for file in one.path.rglob("*")) for one in (failing, logged)]

    assert told(read_run(failing.path).state) == told(read_run(logged.path).state)
    assert files[0] == files[1]
    assert evopolicygym.verify(failing.path).ok
    (note,) = [note for note in notes if "tracker" in note]
    assert why in note


@pytest.mark.nightly
def test_a_program_that_refuses_warnings_is_not_stopped(tmp_path: Path) -> None:
    """Where a warning is an error, as in these tests, a tracker that fails still reaches nothing."""
    assert played(tmp_path, track="odd_trackers:Raises").is_finished


def test_a_tracker_that_does_not_keep_up_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run never waits for it: what doesn't fit into the pipe ends the tracking, with one note."""
    monkeypatch.setattr(sink, "PIPE_BYTES", 1 << 16)
    first, *others = [opening(), *submitted(0, [1.0, 2.0])]
    state = fold([first, *others])
    notes: list[str] = []
    with sink.attach_tracker("odd_trackers:Blocks", lambda *_: None, lambda *_: None, notes.append) as (
        opened,
        observe,
    ):
        opened(RunPaths(tmp_path / "run"), fold([first]))
        for _ in range(2000):
            observe(others[-1], state)

    assert len(notes) == 1
    assert "odd_trackers:Blocks" in notes[0]


def test_tokens_and_cost_are_logged() -> None:
    """A submission's point has what the agent had used by then; one that is logged later doesn't."""
    used = {"input": 900.0, "output": 100.0, "cost": 0.25}
    state = fold([opening(), AgentStarted(TIME, 0), AgentMetered(TIME, 0, 1.0, used), *submitted(0, [1.0, 3.0])])
    now, later = (submission_point(state, state.submissions[0], is_now=is_now) for is_now in (True, False))

    assert dict(now.values) == {"submission": 0, "mean_return": 2, "best_so_far": 2, "tokens": 1000, "cost": 0.25}
    assert dict(later.values) == {"submission": 0, "mean_return": 2, "best_so_far": 2}


def test_what_is_no_number_is_left_out() -> None:
    """A mean that is infinite or not a number is no point in a chart."""
    state = fold([opening(), *submitted(0, [math.nan, 1.0])])

    assert dict(submission_point(state, state.submissions[0], is_now=True).values) == {"submission": 0}


@pytest.mark.nightly
def test_a_run_that_is_resumed_goes_on_in_its_tracker(tmp_path: Path) -> None:
    """The same tracker, which is not named again, logs what is missing and nothing twice."""

    def interrupt(event: Event, _state: RunState) -> None:
        if isinstance(event, RunClosed):
            raise KeyboardInterrupt

    with pytest.raises(RunInterrupted) as stopped:
        played(tmp_path, track=LINES, on_event=interrupt)
    evopolicygym.resume(stopped.value.path, agent=two_submissions)
    logged = lines(tmp_path)

    assert [one["run"] for one in logged if "run" in one] == [stopped.value.path.name] * 2
    assert [one["resumed"] for one in logged if "resumed" in one] == [False, True]
    assert [one["submission"] for one in logged if "submission" in one] == [0, 1]
    assert [one["step"] for one in logged if "validation_mean_return" in one] == [2, 4]
    assert [one["summary"]["status"] for one in logged if "summary" in one] == ["stopped", "scored"]


@pytest.mark.nightly
def test_a_run_that_was_not_logged_is_logged_afterwards(tmp_path: Path) -> None:
    """`resume` with a tracker hands it a finished run; a second time there is nothing to log."""
    run = played(tmp_path)
    for _ in range(2):
        evopolicygym.resume(run.path, track=LINES)
    logged = lines(tmp_path)

    assert [one["step"] for one in logged if "mean_return" in one] == [2, 4]
    assert [one["summary"]["held_out_score"] for one in logged if "summary" in one] == [run.score]


@pytest.mark.nightly
def test_a_suite_logs_its_runs(tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run of a suite is a run in the tracker."""
    monkeypatch.chdir(tmp_path)
    suite = "environments = ['cartpole']\nrepeats = 1\nbudget = 2\nvalidation = 1\nheld_out = 1\nsplit = 'public'\n"
    Path("two.toml").write_text(f"{suite}track = '{LINES}'\n[[agents]]\nname = 'random'\n", encoding="utf-8")
    ran = shell("suite", "two.toml", "-q")
    summaries = [one["summary"] for one in lines(tmp_path) if "summary" in one]

    assert ran.code == 0, ran.err
    assert [one["status"] for one in summaries] == ["scored"]
    assert "track" not in (tmp_path / "runs" / "two" / "suite.json").read_text(encoding="utf-8")


@needs_bubblewrap
def test_a_hosted_run_is_logged(tmp_path: Path) -> None:
    """A run whose agent another program drives is a run in the tracker too."""
    small = {**SMALL, "isolation": "bubblewrap"}
    run = host("cartpole", "inspect_ai", {"driven by": "a test"}, dict, runs=tmp_path / "runs", track=LINES, **small)
    run.workplace.execute(["./judge", "submit", "0-1"], limit_s=LONG)
    scored = run.finish()

    assert [one["summary"]["held_out_score"] for one in lines(tmp_path) if "summary" in one] == [scored.score]


def test_an_unknown_tracker_is_refused(tmp_path: Path) -> None:
    """Before anything is make_tracker; the message names those that there are."""
    with pytest.raises(UnknownName, match=r"'trackoi'.*'trackio'.*mlflow, tensorboard, trackio, wandb"):
        played(tmp_path, track="trackoi")

    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", ["mlflow", "tensorboard", "trackio", "wandb"])
def test_a_missing_package_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a tracker's package is not installed, the reason names the extra that installs it."""
    for loaded in [one for one in sys.modules if one.partition(".")[0] == name]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(MissingExtra, match=rf"evopolicygym\[{name}\]"):
        make_tracker(name, TrackedRun("id", "name", "task", {}, tmp_path))
    assert name in TRACKERS.names()
