"""`evopolicygym.serve`: a program that is the agent itself, from outside of the run."""

import json
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import evopolicygym
from evopolicygym.core.errors import RefusalStatus, RequestRefused, UsageError
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.executors.local import LocalExecutor
from players import GOOD

SMALL = {"validation": 1, "held_out": 2, "split": "public", "workers": 1}


def test_a_program_is_the_agent(tmp_path: Path) -> None:
    """It has the session of a function that is an agent; the run is scored when the block ends."""
    with evopolicygym.serve("cartpole", label="mine", budget=4, runs=tmp_path / "runs", **SMALL) as session:
        returns = session.submit(GOOD, episodes=2).returns
        with pytest.raises(RequestRefused, match=r"\b2\b"):
            session.submit(episodes=[0, 1, 2])
        file = session.workspace / "judge.env"
        mode, lines = stat.S_IMODE(file.stat().st_mode), file.read_text(encoding="utf-8").splitlines()
    document = json.loads((session.run.path / "run.json").read_bytes()) if session.run else {}

    assert returns == (500.0, 500.0)
    assert (document["outcome"]["score"], document["outcome"]["closed"]) == (500.0, "agent_ended")
    assert (document["agent"]["name"], document["agent"]["label"]) == ("outside", "mine")
    assert "outside" in document["isolation"]["agent"]
    assert mode == 0o600
    assert f"export EVOPOLICYGYM_INFO_URL={session.variables['EVOPOLICYGYM_INFO_URL']}" in lines
    assert not file.exists()


def test_tables_say_that_an_agent_was_outside(tmp_path: Path) -> None:
    """Runs of an agent outside are never pooled with those of one that is kept in and called the same."""

    def mine(session: evopolicygym.Session) -> None:
        session.submit(episodes=2)

    with evopolicygym.serve("cartpole", label="mine", budget=2, runs=tmp_path / "runs", **SMALL) as session:
        session.submit(episodes=2)
    evopolicygym.run("cartpole", mine, budget=2, runs=tmp_path / "runs", **SMALL)
    entries = {row["entry"] for row in evopolicygym.leaderboard(tmp_path / "runs").records}

    assert {"mine", "mine (outside)"} <= entries


def test_what_ends_the_block_early_is_recorded(tmp_path: Path) -> None:
    """An exception ends the agent's turn, is raised, and leaves a run that is scored."""

    def fail() -> None:
        with evopolicygym.serve("cartpole", budget=4, runs=tmp_path / "runs", **SMALL) as session:
            session.submit(episodes=2)
            raise ZeroDivisionError("an idea")

    with pytest.raises(ZeroDivisionError, match="an idea"):
        fail()
    run = evopolicygym.load_run("latest", tmp_path / "runs")

    assert run.is_finished
    assert "ZeroDivisionError: an idea" in (run.path / "journal.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"listen": "8000"}, "HOST:PORT"),
        ({"listen": "192.0.2.1:0"}, "192.0.2.1:0"),
        ({"socket": "no/such/place"}, "no/such/place"),
        ({"max_cost": 1.0}, "proxy|cost"),
        ({"agent": "tuner"}, "outside"),
        ({"workspace": "occupied"}, r"policy\.py"),
        ({"workspace": "occupied/policy.py"}, "Not a directory"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_made(tmp_path: Path, arguments: dict[str, object], said: str) -> None:
    """Where the judge can't listen, what can't be asked of an agent outside, and where no workspace can be laid."""
    (tmp_path / "occupied").mkdir()
    (tmp_path / "occupied" / "policy.py").touch()
    if "workspace" in arguments:
        arguments = {"workspace": tmp_path / str(arguments["workspace"])}

    def begin() -> None:
        with evopolicygym.serve("cartpole", budget=2, runs=tmp_path / "runs", **SMALL, **arguments):  # type: ignore[arg-type]
            raise AssertionError

    with pytest.raises(UsageError, match=said):
        begin()

    assert not list(tmp_path.rglob("journal.jsonl"))


def test_a_workspace_lies_where_the_user_says(tmp_path: Path) -> None:
    """What is edited there is submitted, and feedback is read there; a resumed run finds it again, or makes it anew."""
    place = tmp_path / "elsewhere" / "work"
    with evopolicygym.serve("cartpole", workspace=place, budget=4, runs=tmp_path / "runs", **SMALL) as session:
        (place / "system" / "policy.py").write_text(GOOD, encoding="utf-8")
        feedback = session.submit(episodes=2)
        mean = json.loads((place / "feedback" / "submit_000" / "summary.json").read_bytes())["mean_return"]
    recorded = session.run.path if session.run else tmp_path

    assert session.workspace == place
    assert feedback.directory == place / "feedback" / "submit_000"
    assert mean == feedback.mean == 500.0
    assert sorted(path.name for path in feedback.directory.rglob("*")) == sorted(
        path.name for path in (recorded / "workspace" / "feedback" / "submit_000").rglob("*")
    )
    assert {"AGENTS.md", "judge", "system", "feedback"} <= {path.name for path in place.iterdir()}


def test_a_workspace_is_of_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another program lays in the directory while a run is opened is left alone; nor do two runs share it."""
    place = tmp_path / "work"
    start = LocalExecutor.__init__

    def occupied(executor: LocalExecutor, config: ExecutorConfig) -> None:
        place.mkdir()
        (place / "theirs").touch()
        start(executor, config)

    monkeypatch.setattr(LocalExecutor, "__init__", occupied)
    served = evopolicygym.serve("cartpole", workspace=place, budget=2, runs=tmp_path / "runs", **SMALL)
    with pytest.raises(UsageError), served:
        pass
    monkeypatch.undo()
    assert [path.name for path in place.iterdir()] == ["theirs"]
    assert not list(tmp_path.rglob("journal.jsonl"))
    (place / "theirs").unlink()

    with pytest.raises(KeyboardInterrupt), evopolicygym.serve("cartpole", runs=tmp_path / "runs", **SMALL) as left:
        raise KeyboardInterrupt
    with evopolicygym.serve("cartpole", workspace=place, budget=2, runs=tmp_path / "runs", **SMALL) as session:
        with pytest.raises(UsageError), evopolicygym.serve(resume=left.workspace.parent, workspace=place):
            pass
        assert session.submit(GOOD, episodes=2).mean == 500.0


@pytest.mark.parametrize(
    "swapped", ["", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("system", "feedback"))]
)
def test_a_workspace_that_is_swapped_for_a_link_is_refused(tmp_path: Path, swapped: str) -> None:
    """Nothing is charged, nothing is read or written where the link leads, and the first one may be put back."""
    place, trap = tmp_path / "work", tmp_path / "trap"
    with evopolicygym.serve("cartpole", workspace=place, budget=4, runs=tmp_path / "runs", **SMALL) as session:
        shutil.copytree(place, trap)
        put_away = (place / swapped).rename(tmp_path / "put_away")
        (place / swapped).symlink_to(trap / swapped)
        with pytest.raises(RequestRefused) as refused:
            session.submit(episodes=2)
        remaining = session.remaining
        (place / swapped).unlink()
        put_away.rename(place / swapped)
        session.submit(episodes=2)

    assert refused.value.status == RefusalStatus.INVALID_CHECKPOINT
    assert remaining == 4
    assert not list((trap / "feedback").iterdir())
    assert [path.name for path in (place / "feedback").iterdir()] == ["submit_000"]


def test_a_run_that_cannot_be_played_again_is_one_finding_of_many(tmp_path: Path) -> None:
    """Of several runs the others are replayed: one without a score has nothing to play, an unfinished one fails."""
    scored, unscored, unfinished = (
        evopolicygym.serve("cartpole", budget=2, runs=tmp_path / "runs", **SMALL) for _ in range(3)
    )
    with scored as session:
        session.submit(GOOD, episodes=2)
    with unscored as session:
        session.submit("raise ValueError", episodes=2)
    finished = evopolicygym.verify(tmp_path / "runs", replay=True, isolation="none")
    with pytest.raises(KeyboardInterrupt), unfinished as session:
        raise KeyboardInterrupt
    every = evopolicygym.verify(tmp_path / "runs", replay=True, isolation="none")

    assert [(one.ok, one.verdict) for one in finished if one.name.endswith(" replay")] == [(True, "same"), (True, "")]
    left = session.workspace.parent
    assert every.failed == (f"{left.name} replay",)
    with pytest.raises(UsageError):
        evopolicygym.verify(left, replay=True)


def test_feedback_that_cannot_be_delivered_stops_nothing(tmp_path: Path) -> None:
    """Where the agent keeps it from being written, its submission is answered, and its feedback is in the record."""
    place = tmp_path / "work"
    with evopolicygym.serve("cartpole", workspace=place, budget=2, runs=tmp_path / "runs", **SMALL) as session:
        (place / "feedback" / ".submit_000").write_text("in the way", encoding="utf-8")
        (place / "feedback" / "submit_000").symlink_to(tmp_path)
        returns = session.submit(GOOD, episodes=2).returns

    assert returns == (500.0, 500.0)
    assert {path.name for path in tmp_path.iterdir()} <= {"runs", "state", "work"}
    assert session.run is not None
    assert (session.run.path / "workspace" / "feedback" / "submit_000" / "summary.json").is_file()


PROGRAM = """
import os, signal, sys
import evopolicygym

small = {"validation": 1, "held_out": 2, "split": "public", "workers": 1}
with evopolicygym.serve("cartpole", budget=6, runs=sys.argv[1], **small) as session:
    session.submit(episodes=2)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_program_that_is_killed_resumes_with_the_exact_budget(tmp_path: Path) -> None:
    """What was charged stays charged, and a submission after it is a new one."""
    killed = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path / "runs")], check=False)
    with evopolicygym.serve(resume="latest", runs=tmp_path / "runs", workers=1) as session:
        left, feedback = session.remaining, session.submit(GOOD, episodes=4)
    document = json.loads((session.run.path / "run.json").read_bytes()) if session.run else {}

    assert killed.returncode == -signal.SIGKILL
    assert left == 4
    assert (feedback.submission, feedback.returns, feedback.remaining) == (1, (500.0,) * 4, 0)
    assert document["budget"] == {"episodes": 6, "spent": 6, "submissions": 2}
    assert document["outcome"]["closed"] == "budget_spent"


def test_a_run_is_resumed_as_it_was_begun(tmp_path: Path) -> None:
    """With a task or options of a run besides, nothing happens."""

    def begin(**given: object) -> None:
        with evopolicygym.serve(resume="latest", runs=tmp_path / "runs", **given):  # type: ignore[arg-type]
            raise AssertionError

    for given in ({"task": "cartpole"}, {"name": "mine"}, {"budget": 4}):
        with pytest.raises(UsageError):
            begin(**given)
