"""Training sessions by the owners' own clients and validators, each in an environment of its own (``make doors``)."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.training.server import TrainingServer
from evopolicygym.training.sessions import training_config
from places import ROOT
from training_clients import OPTIONS, ask

DOORS = ROOT / ".doors"
PROGRAM = ROOT / "tests" / "support" / "training_doors.py"
PATIENCE_S = 900
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not DOORS.is_dir(), reason="`make doors` installs the owners' packages"),
]


@pytest.fixture
def server() -> Iterator[TrainingServer]:
    """A training server with WebSockets."""
    pytest.importorskip("websockets")
    with TrainingServer(training_config(**{**OPTIONS, "price": 0.0})) as started:
        yield started


def _without_ours() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def printed(*command: object, cwd: Path = ROOT, **environment: str) -> str:
    """Return what a command prints; it must leave with 0."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, env={**_without_ours(), **environment}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_openenv(server: TrainingServer) -> None:
    """Its validator, its runtime graders and its client agree: rewards add up to the score."""
    assert "Verdict: PASS" in printed(DOORS / "openenv/bin/openenv", "validate", "--url", server.url)
    found = json.loads(printed(DOORS / "openenv/bin/python", PROGRAM, "openenv", server.url))

    assert found["failure"] is None
    assert all("PASS" in status for status, _ in found["grades"].values()), found["grades"]
    assert sum(found["rewards"]) == pytest.approx(1.0)
    assert (found["done"], found["steps"], found["episode"]) == ([False, False, True], 3, "mine")
    assert ask(f"{server.url}/status").body["open"] == 0


@pytest.fixture
def model() -> Iterator[str]:
    """A scripted model's address."""
    with subprocess.Popen([sys.executable, str(PROGRAM), "model"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}/v1"
        process.kill()


def test_verifiers(server: TrainingServer, model: str, tmp_path: Path) -> None:
    """Four rollouts at once by the package in examples/verifiers: they stop, are scored, and leave no session."""
    configuration = f"""
model = "scripted"
num_rollouts = 2
max_concurrent = 4
push = false
output_dir = "out"
client = {{ base_url = "{model}", api_key_var = "KEY" }}
env.taskset = {{ id = "evopolicygym_train", url = "{server.url}" }}
env.agent.harness = {{ id = "null" }}
env.agent.runtime = {{ type = "subprocess" }}
"""
    (tmp_path / "eval.toml").write_text(configuration, encoding="utf-8")
    package = str(ROOT / "examples" / "verifiers")
    evaluate = (DOORS / "verifiers/bin/vf-eval", "@", "eval.toml", "-n", "2", "--no-rich")
    printed(*evaluate, cwd=tmp_path, KEY="none", PYTHONPATH=package)

    (file,) = tmp_path.glob("out/*/traces.jsonl")
    episodes: list[dict[str, Any]] = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    traces = [trace for episode in episodes for trace in episode["traces"]]
    assert len(traces) == 4
    for trace in traces:
        assert trace["rewards"]["value"]["score"] == 1.0
        assert trace["stop_condition"] == "finished"
        assert sum(trace["info"]["evopolicygym"]["curve"]) == pytest.approx(1.0)
    status = ask(f"{server.url}/status").body
    assert (status["open"], status["opened"]) == (0, 4)
