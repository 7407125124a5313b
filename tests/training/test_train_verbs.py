"""``evopolicygym train serve`` and ``train rows``."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evopolicygym.training.environment import TextEnvironment
from shell import Shell
from training_clients import ask

COMMON = ("--task", "cartpole", "--interface", "standard", "--text", "terse", "--budget", "8", "--workers", "1")


def test_rows_name_sessions_of_the_server(shell: Shell, tmp_path: Path) -> None:
    """A row's prompt is the task of the session that a server with the same options opens for its seed."""
    rows = tmp_path / "rows.jsonl"
    shell("train", "rows", *COMMON, "--seeds", "3-4", "-o", str(rows))
    first, second = (json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines())
    assert (first["seed"], second["seed"]) == (3, 4)

    command = [sys.executable, "-m", "evopolicygym", "train", "serve", *COMMON, "--listen", "127.0.0.1:0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")["url"]
        assert ask(f"{url}/seed_session", first).body["task"] == first["responses_create_params"]["input"][0]["content"]
        environment = TextEnvironment(url)
        environment.reset(seed=3)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    with pytest.raises(Exception, match="The training server doesn't answer"):
        environment.step("/submit 1")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("serve", "--listen", "8000"), "Invalid --listen '8000': expected HOST:PORT"),
        (("serve", "--task", "acrobot"), "got one of benchmark"),
        (("serve", "--no-token", "--listen", "0.0.0.0:0"), "expected 127.0.0.1 for a server without a token"),
        (("rows", "--seeds", "9-3", "-o", "rows.jsonl"), "Invalid --seeds '9-3'"),
    ],
)
def test_invalid_options_are_refused(shell: Shell, words: tuple[str, ...], message: str) -> None:
    """Nothing is served or written."""
    left = shell("train", *words)
    assert left.code == 2
    assert message in " ".join(left.err.split())
