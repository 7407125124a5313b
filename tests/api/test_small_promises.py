"""What a new user stumbled over in the Python interface, a promise each."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import evopolicygym
from evopolicygym.core.errors import RequestRefused, StorageError, UsageError
from evopolicygym.records import experiment
from evopolicygym.records.rows import SubmissionRow
from records_of_runs import changed, real_document, write
from shell import Shell
from whole_runs import state_kept_in
from workspace_client import lay_client

pytestmark = pytest.mark.made_up


def test_entries_that_are_not_compared_don_t_matter(tmp_path: Path) -> None:
    """Runs of a third entry with another budget make no two others incomparable."""
    document = real_document(tmp_path / "real")
    runs = [changed(document, "acrobot", agent, [-90.0, -80.0], 0) for agent in ("tuner", "random", "third")]
    runs[2]["budget"]["episodes"] += 1
    for run in runs:
        write(tmp_path / "runs", run)
    found = evopolicygym.compare("tuner", "random", tmp_path / "runs")

    assert {found.pair.first.label, found.pair.second.label} == {"tuner", "random"}
    with pytest.raises(UsageError, match="episode budget"):
        evopolicygym.compare("tuner", "third", tmp_path / "runs")


def test_rows_are_read_by_key_and_by_attribute(tmp_path: Path) -> None:
    """A row of a table is a record as a run's own are."""
    policy = "raise ValueError('no such idea')"
    feedback: list[evopolicygym.Feedback] = []

    def agent(session: evopolicygym.Session) -> None:
        with pytest.raises(RequestRefused):
            session.submit(policy, episodes=2)
        feedback.append(session.submit(policy, episodes=np.int64(1)))

    small = {"budget": np.int64(1), "validation": np.int8(1), "held_out": 1, "split": "public", "workers": 1}
    run = evopolicygym.run("cartpole", agent, runs=tmp_path / "runs", **small)
    (row,) = evopolicygym.load_runs(tmp_path / "runs").submissions

    assert isinstance(row, SubmissionRow)
    assert (row["status"], row.status) == ("import_error", "import_error")
    assert dict(row) == dict(run.submissions[0])
    with pytest.raises(KeyError):
        row["no_such_column"]
    assert (feedback[0].status, "no such idea" in feedback[0].error) == ("import_error", True)


def test_a_directory_of_runs_that_can_t_be_written_is_named(tmp_path: Path) -> None:
    """It is an invalid argument, with nothing made of the experiment's secret."""
    (tmp_path / "file").write_text("")
    with state_kept_in(tmp_path / "state"), pytest.raises(StorageError, match=str(tmp_path / "file")):
        experiment.begin(tmp_path / "file", "default")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("option", ["--repeats", "--jobs"])
def test_no_repeats_and_no_jobs_are_refused(shell: Shell, tmp_path: Path, option: str) -> None:
    """0 is a number that was given, and an invalid one."""
    left = shell("suite", "smoke", option, "0", "--runs", tmp_path, "--dry-run")

    assert (left.code, option.removeprefix("--") in left.err) == (2, True)


@pytest.fixture
def nobody() -> Iterator[int]:
    """Return a port that is taken, and not listened on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_a_judge_that_does_not_run_charged_nothing(tmp_path: Path, nobody: int) -> None:
    """Where nobody listens nothing was sent; the client says so, and no key to ask again by."""
    place = {"EVOPOLICYGYM_INFO_URL": f"http://127.0.0.1:{nobody}/t/info"}
    client = lay_client(tmp_path) / "judge_client" / "client.py"
    client.write_text(client.read_text().replace("TIMEOUT_S = 8, 1.0,", "TIMEOUT_S = 2, 0.0,"))
    words = [sys.executable, str(tmp_path / "judge"), "submit", "0"]
    left = subprocess.run(words, env=place, capture_output=True, text=True, check=False)

    assert left.returncode == 3
    assert ("--key" in left.stderr, "nothing was charged" in left.stderr) == (False, True)
