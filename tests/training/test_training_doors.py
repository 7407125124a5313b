"""Training sessions by the owners' own clients and validators, each in an environment of its own (``make doors``)."""

import json
import math
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.training.server import TrainingServer
from evopolicygym.training.sessions import training_config
from places import ROOT, SUPPORT
from shell import Shell
from training_clients import OPTIONS, ask

DOORS = ROOT / ".doors"
EXAMPLES = ROOT / "examples"
PROGRAM, TRAINING = SUPPORT / "training_doors.py", SUPPORT / "grpo_steps.py"
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
    """Its validator, static too, its runtime graders and its client agree: rewards add up to the score."""
    validate = (DOORS / "trl/bin/openenv", "validate")
    assert "Verdict: PASS" in printed(*validate, "--url", server.url)
    assert "Verdict: PASS" in printed(*validate, "--level", "static", EXAMPLES / "openenv")
    found = json.loads(printed(DOORS / "trl/bin/python", PROGRAM, "openenv", server.url))

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
    package = str(EXAMPLES / "verifiers")
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


@pytest.mark.parametrize("wire", ["tools", "openenv"])
def test_trl(server: TrainingServer, wire: str) -> None:
    """Two optimiser steps of its GRPOTrainer: rewards differ within groups, weights move, no session is left open."""
    found = json.loads(printed(DOORS / "trl/bin/python", TRAINING, wire, server.url).splitlines()[-1])

    assert len(found["steps"]) == 2
    for step in found["steps"]:
        assert all(math.isfinite(step[name]) for name in ("loss", "grad_norm", "reward", "reward_std", "entropy"))
        assert step["reward_std"] > 0
        assert step["frac_reward_zero_std"] < 1
        assert step["tools/call_frequency"] > 0
    assert 0 < found["moved"] < found["norm"]
    assert ask(f"{server.url}/status").body["open"] == 0


SERVERS = (
    "resources_servers/evopolicygym",
    "responses_api_agents/simple_agent",
    "responses_api_models/vllm_model",
    "environment_servers/legacy_agent",
)


@pytest.fixture
def gym(server: TrainingServer, model: str, tmp_path: Path) -> Iterator[Path]:
    """NeMo Gym's program, while its servers run; all have one Python environment instead of one each."""
    shutil.copytree(EXAMPLES / "nemo_gym", tmp_path, dirs_exist_ok=True)
    for name in SERVERS:
        (tmp_path / "environments" / name).mkdir(parents=True)
        (tmp_path / "environments" / name / ".venv").symlink_to(DOORS / "nemo_gym")
    command = DOORS / "nemo_gym" / "bin" / "gym"
    words = (
        *("env", "start", "--resources-server", "evopolicygym", "--model-type", "vllm_model", "--model", "scripted"),
        *("--model-url", model, "--model-api-key", "none", "+skip_venv_if_present=true"),
        f"+uv_venv_dir={tmp_path / 'environments'}",
        f"++evopolicygym_resources_server.resources_servers.evopolicygym.url={server.url}",
    )
    with subprocess.Popen(
        [str(command), *words], cwd=tmp_path, env=_without_ours(), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        seen = []
        for line in process.stdout:
            seen.append(line)
            if "servers ready!" in line:
                break
        else:
            pytest.fail("".join(seen))
        drain = threading.Thread(target=process.stdout.read)
        drain.start()
        yield command
        process.terminate()
        drain.join()


@pytest.mark.skipif(not (DOORS / "nemo_gym/bin/gym").exists(), reason="NeMo Gym needs Python 3.13")
def test_nemo_gym(server: TrainingServer, gym: Path, shell: Shell, tmp_path: Path) -> None:
    """Rows of `train rows` are evaluated by the folder in examples/nemo_gym: four rollouts at once are scored."""
    drawn = ("--task", "cartpole", "--interface", "standard", "--text", "terse", "--budget", "8")
    shell.printed("train", "rows", *drawn, "--seeds", "0-1", "-o", tmp_path / "rows.jsonl")
    files = ("--input", tmp_path / "rows.jsonl", "--output", tmp_path / "out.jsonl")
    rollouts = ("--num-repeats", "2", "--concurrency", "4")
    printed(gym, "eval", "run", "--no-serve", "--agent", "evopolicygym_simple_agent", *files, *rollouts, cwd=tmp_path)

    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sorted(row["seed"] for row in found) == [0, 0, 1, 1]
    for row in found:
        assert row["reward"] == pytest.approx(sum(row["curve"])) == 1.0
        assert (row["episodes"], row["submissions"], row["mask_sample"]) == (2, 1, False)
    status = ask(f"{server.url}/status").body
    assert (status["open"], status["opened"]) == (0, 4)
