"""A Harbor task is played as Harbor plays it: judge, agent, collect hook, verifier; each is a process here."""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from evopolicygym.api.play.harbor import export_harbor
from harbor_topology import Topology, topology

pytestmark = pytest.mark.nightly

FEW = {"budget": 4, "validation": 1, "held_out": 2}


@pytest.fixture
def task(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a task of few cases."""
    (written,) = export_harbor(tmp_path / "tasks", environments=[getattr(request, "param", "reacher")], **FEW)
    return written.directory


def documents(harbor: Topology) -> tuple[float, dict[str, object]]:
    """Return the reward and its details."""
    reward = harbor.read("reward.json")
    assert list(reward) == ["reward"]
    return reward["reward"], harbor.read("reward-details.json")


def test_an_agent_that_does_nothing_has_the_reward_of_random_play(task: Path) -> None:
    """The run is closed by the collect hook, and without a submission the reward is 0."""
    with topology(task) as harbor:
        assert harbor.workspace
        assert harbor.collect() == 0
        assert harbor.verify() == 0
        reward, details = documents(harbor)

    assert reward == 0.0
    assert (details["status"], details["closed"]) == ("no_ok_submit", "finish_asked")


@pytest.mark.parametrize("task", ["acrobot", "reacher"], indirect=True)
def test_the_oracle_has_the_reward_of_the_reference(task: Path) -> None:
    """The details say which isolation held; nobody but root can enter where scores lie in the judge's container."""
    with topology(task) as harbor:
        harbor.solve()
        assert harbor.collect() == 0
        assert harbor.verify() == 0
        reward, details = documents(harbor)
        mode = harbor.artifacts().stat().st_mode & 0o777

    assert reward == pytest.approx(1.0, abs=0.15)
    assert details["isolation"]["level"] in {"bubblewrap", "process"}  # type: ignore[index]
    assert details["budget"] == {"episodes": 4, "spent": 1, "submissions": 1}
    assert mode == 0o700


def test_a_killed_verifier_leaves_the_record(task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the collect hook leaves can be verified to the last episode by anyone, as its cases are revealed."""
    with topology(task) as harbor:
        harbor.solve()
        assert harbor.collect() == 0
        verifier = harbor.verifying()
        verifier.kill()
        verifier.wait()
        outcome = json.loads((harbor.artifacts() / "outcome.json").read_bytes())
        with tarfile.open(harbor.artifacts() / "record.tar.gz") as archive:
            # Python 3.11.4 and later have the filter.
            archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _path: member)
            archive.extractall(tmp_path)  # noqa: S202 - our own archive
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of-somebody-else"))
    line = [sys.executable, "-m", "evopolicygym", "verify", "--replay", "latest", "--runs", "runs"]
    verified = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, env=os.environ, check=False)

    assert outcome["outcome"]["status"] == "scored"
    assert verified.returncode == 0, verified.stdout


def test_an_agent_can_not_keep_its_score_from_the_verifier(task: Path) -> None:
    """It may remove what leads to the judge and lay links in its workspace: the way to the score is another."""
    with topology(task) as harbor:
        harbor.solve()
        workspace = harbor.workspace
        for path in (workspace / "judge.env", workspace / "judge", harbor.root / "socket" / "judge.sock"):
            path.unlink()
        (workspace / "judge.env").symlink_to("/dev/null")
        (workspace / "system").rename(workspace / "was")
        (workspace / "system").symlink_to(harbor.artifacts())
        assert harbor.collect() == 0
        assert harbor.verify() == 0
        reward, details = documents(harbor)

    assert reward == pytest.approx(1.0, abs=0.15)
    assert details["closed"] == "finish_asked"


def test_a_judge_that_dies_is_resumed(task: Path) -> None:
    """What was charged stays charged, and the workspace finds the judge again."""
    with topology(task) as harbor:
        harbor.solve()
        harbor.kill_served()
        harbor.solve()
        assert harbor.collect() == 0
        assert harbor.verify() == 0
        details = harbor.read("reward-details.json")

    assert details["budget"] == {"episodes": 4, "spent": 2, "submissions": 2}


def test_a_judge_that_fails_gives_no_reward(task: Path) -> None:
    """Harbor then reports an error, and no score of the agent's; the details say what the judge said."""
    with topology(task) as harbor:
        assert harbor.workspace
        failed = {"exit_code": 4, "said": ["The simulator crashed."]}
        (harbor.artifacts() / "failed.json").write_text(json.dumps(failed), encoding="utf-8")
        code = harbor.verify()
        details = harbor.read("reward-details.json")
        written = sorted(path.name for path in (harbor.root / "logs" / "verifier").iterdir())

    assert code == 1
    assert details == {
        "reward": None,
        "problem": "The judge failed with exit code 4.",
        "judge_said": ["The simulator crashed."],
    }
    assert written == ["reward-details.json"]


FORGER = """
import json, os, pathlib, sys, time
logs = pathlib.Path(sys.argv[1])
reward, places = json.dumps({"reward": 1000.0}), ("verifier", "artifacts", "agent")
while True:
    for place in places:
        for name, text in (("reward.json", reward), ("reward.txt", "1000"), ("reward-details.json", reward)):
            try:
                (logs / place / name).write_text(text)
            except OSError:
                pass
    print("planted", flush=True)
    time.sleep(0.01)
"""


def test_a_reward_can_not_be_forged(task: Path) -> None:
    """Files that an agent plants, and a process that it leaves to plant them, change nothing once its container ends.

    The directory of rewards is the agent's own until then, as Harbor mounts it; the score is elsewhere.
    """
    with topology(task) as harbor:
        assert harbor.workspace
        line = [sys.executable, "-c", FORGER, str(harbor.root / "logs")]
        with subprocess.Popen(line, stdout=subprocess.PIPE) as left:
            assert left.stdout
            assert left.stdout.readline()
            harbor.end_agent(left)
            for name in ("outcome.json", "reward.json"):
                (harbor.root / "logs" / "artifacts" / name).write_text('{"reward": 1000.0}', encoding="utf-8")
            assert harbor.collect() == 0
            assert harbor.verify() == 0
            reward, details = documents(harbor)
            left.kill()
        written = sorted(path.name for path in (harbor.root / "logs" / "verifier").iterdir())

    assert (reward, details["status"]) == (0.0, "no_ok_submit")
    assert written == ["reward-details.json", "reward.json"]
