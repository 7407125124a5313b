"""Kills in the middle: of a client, whose session is reaped, and of the server, which leaves nothing behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.training.environment import TextEnvironment
from training_clients import ask

PATIENCE_S = 120.0
SLOW = """\
import time


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        time.sleep(0.05)
        return 0
"""
COMMON = ("--task", "cartpole", "--interface", "standard", "--text", "terse", "--budget", "8", "--workers", "1")


@contextmanager
def served(*options: str) -> Iterator[tuple[int, str]]:
    """Start a server; yield its process's id and its address, and end it."""
    command = [sys.executable, "-m", "evopolicygym", "train", "serve", *COMMON, "--listen", "127.0.0.1:0", "--json"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.pid, json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")["url"]
        process.send_signal(signal.SIGINT)


def children(pid: int) -> set[int]:
    """Return a process's descendants."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    found = {int(child) for file in files for child in file.read_text(encoding="ascii").split()}
    return found.union(*(children(child) for child in found))


@pytest.mark.nightly
def test_a_killed_server_leaves_nothing_and_says_so() -> None:
    """Its workers and their files go; the client is told, and a new server doesn't know the session."""
    with served("--wait", "0") as (pid, url):
        environment = TextEnvironment(url)
        environment.reset(seed=1)
        seat: Any = environment._seat
        environment.step({"action": "write", "arguments": {"path": "policy.py", "content": SLOW}})
        ask(f"{url}/act", {"action": "submit", "wait_s": 0}, **{"x-session-id": seat._id})
        workers, opened = children(pid), {file.resolve() for file in Path(f"/proc/{pid}/fd").iterdir()}
        files = [file for file in opened if file.name.startswith("evopolicygym-layers-")]
        assert workers
        assert files
        os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + PATIENCE_S
        while any(Path(f"/proc/{worker}").exists() for worker in workers):
            assert time.monotonic() < until
            time.sleep(0.1)
    with pytest.raises(EvoPolicyGymError, match="doesn't answer"):
        environment.step("/look")

    with served() as (_, url):
        lost = ask(f"{url}/look", {}, **{"x-session-id": seat._id})
        assert lost.status == 410
        assert "a server that was restarted has no sessions" in lost.body["error"]
        assert not [file for file in files if file.exists()]


@pytest.mark.nightly
def test_a_killed_client_is_reaped() -> None:
    """A client that dies while it waits for its step: the step is played to its end, and then the session is closed."""
    with served("--idle", "0.1", "--wait", "600") as (_, url):
        seeded = ask(f"{url}/seed_session", {"seed": 1}).body["session"]
        session = {"x-session-id": seeded}
        ask(f"{url}/write", {"path": "policy.py", "content": SLOW}, **session)
        host, _, rest = url.removeprefix("http://").partition("/")
        name, _, port = host.partition(":")
        body = json.dumps({"episodes": 2})
        head = f"POST /{rest}/submit HTTP/1.1\r\nhost: {host}\r\nx-session-id: {seeded}\r\n"
        until = time.monotonic() + PATIENCE_S
        with socket.create_connection((name, int(port))) as connection:
            connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
            while not ask(f"{url}/session", **session).body["episodes_spent"]:
                assert time.monotonic() < until
        while (status := ask(f"{url}/status").body)["open"]:
            assert time.monotonic() < until
            time.sleep(0.2)
        assert status["reaped"] == 1
        assert "without a request" in ask(f"{url}/look", {}, **session).body["error"]
