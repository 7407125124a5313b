"""Whole runs with a real model, however small, at llama.cpp's own server; run by `make test-model`.

``EVOPOLICYGYM_TEST_MODEL`` names a file of weights with a chat template, such as SmolLM2-135M-Instruct, and
``EVOPOLICYGYM_TEST_MODEL_PYTHON`` a Python with the package xllamacpp. What the model writes is of no matter here.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from evopolicygym.core.event import AgentEnded
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import find_runs
from model_proxies import TLS
from places import SUPPORT
from whole_runs import events

WEIGHTS = os.environ.get("EVOPOLICYGYM_TEST_MODEL", "")
PYTHON = os.environ.get("EVOPOLICYGYM_TEST_MODEL_PYTHON", "")
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        not (WEIGHTS and PYTHON),
        reason="EVOPOLICYGYM_TEST_MODEL (weights) and EVOPOLICYGYM_TEST_MODEL_PYTHON (with xllamacpp) are not set",
    ),
]
NAME = "tested"
CONTEXT = 2048
"""Holds a request of ``rewrite``, and bounds what the model writes."""
START_S, RUN_S = 120.0, 1500.0
LOOK_S = 0.1
SHORT = "<task>\nAnswer with one short ```python block, not this program:\n```python\n<program>\n```\n<tries>\n"
ASKER = """\
import json, os, subprocess, urllib.request
body = {"model": "tested", "input": "Say hello.", "max_output_tokens": 8, "stream": True}
headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/responses", json.dumps(body).encode(), headers)
answer = urllib.request.urlopen(request).read().decode()
assert "response.completed" in answer or "response.incomplete" in answer, answer
subprocess.run(["./judge", "submit", "0", "1"], check=True)
"""


@dataclass(slots=True)
class RealServer:
    """A server that can be killed and started again at its address."""

    port: int
    context: int = CONTEXT
    process: "subprocess.Popen[bytes]" = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until the model is loaded."""
        words = (PYTHON, SUPPORT / "model_server.py", WEIGHTS, NAME, str(self.port), str(self.context))
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            assert self.process.poll() is None, "the server has ended"
            try:
                if httpx2.get(f"{self.url}/health", verify=TLS, timeout=START_S).is_success:
                    return
            except httpx2.TransportError:
                pass
            time.sleep(LOOK_S)
        raise AssertionError("the server does not answer")

    def kill(self) -> None:
        """Kill it as the machine would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def counted(self) -> tuple[int, int]:
        """Return the tokens that it has read and written by its own count."""
        text = httpx2.get(f"{self.url}/metrics", verify=TLS, timeout=START_S).text
        read, written = (
            int(float(re.findall(rf"^llamacpp:{name} (\S+)$", text, re.MULTILINE)[0]))
            for name in ("prompt_tokens_total", "tokens_predicted_total")
        )
        return read, written


@contextmanager
def serving(context: int = CONTEXT) -> Iterator[RealServer]:
    """Serve the model, at a port that was free."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    server = RealServer(port, context)
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def server() -> Iterator[RealServer]:
    with serving() as started:
        yield started


def program(*words: object) -> "subprocess.Popen[str]":
    """Start the command line."""
    line = [sys.executable, "-m", "evopolicygym", *map(str, words)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def begin(server: RealServer, runs: Path, *agent: object, most_tokens: int = 2000) -> "subprocess.Popen[str]":
    """Begin a small run."""
    shown = ("--budget", 8, "--validation", 1, "--held-out", 1, "--workers", 1, "--isolation", "none", "--runs", runs)
    limits = ("--max-tokens", most_tokens)
    return program("run", "cartpole", *shown, *limits, "--model", NAME, "--model-url", server.url, *agent)


def rewrite(directory: Path) -> tuple[object, ...]:
    """Return the arguments of ``rewrite`` with a short prompt."""
    (directory / "short.md").write_text(SHORT, encoding="utf-8")
    return ("--agent", "rewrite", "--option", f"prompt={directory / 'short.md'}", "--option", "episodes=4")


def left(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Return how a program has left, and what it printed."""
    out, _ = process.communicate(timeout=RUN_S)
    return process.returncode, out


def only_run(runs: Path) -> RunPaths:
    """Return the one run below a directory."""
    (root,) = find_runs(runs)
    return RunPaths(root)


def usage(paths: RunPaths) -> dict[str, Any]:
    """Return what a run used."""
    return dict(json.loads(paths.document.read_bytes())["usage"])


@pytest.mark.parametrize(
    "agent", [["rewrite"], ["neutral", "--option", "actions=text"], ["neutral", "--model-wire", "messages"]], ids=str
)
def test_a_whole_run(server: RealServer, tmp_path: Path, agent: list[str]) -> None:
    """A run is scored, whatever the model writes; its tokens are those that the server has counted."""
    words = rewrite(tmp_path) if agent == ["rewrite"] else ("--agent", *agent)
    code, out = left(begin(server, tmp_path / "runs", *words))
    used, (read, written) = usage(only_run(tmp_path / "runs")), server.counted()

    assert code == 0, out
    assert (used["failed"], used["unknown"]) == (0, 0)
    assert used["generations"] >= 1
    assert (used["input"] - used["cached_input"], used["output"]) == (read, written)


def test_responses(server: RealServer, tmp_path: Path) -> None:
    """A program that speaks Responses is answered as a stream, and its tokens are counted."""
    (tmp_path / "asker.py").write_text(ASKER, encoding="utf-8")
    code, out = left(begin(server, tmp_path / "runs", "--", sys.executable, tmp_path / "asker.py"))
    used, (read, written) = usage(only_run(tmp_path / "runs")), server.counted()

    assert code == 0, out
    assert (used["generations"], used["unknown"], used["output"]) == (1, 0, written)
    assert used["input"] - used["cached_input"] == read


def test_the_model_is_played_again(server: RealServer, tmp_path: Path) -> None:
    """The same server gives every answer again, byte for byte, also after it was started anew."""
    code, out = left(begin(server, tmp_path / "runs", *rewrite(tmp_path)))
    root = only_run(tmp_path / "runs").root
    again = ("verify", root, "--replay", "--agent", "--isolation", "none", "--workers", 1, "--json")
    first = left(program(*again))
    server.kill()
    server.start()
    second = left(program(*again))

    assert (code, first[0], second[0]) == (0, 0, 0), (out, first[1], second[1])
    assert "byte for byte" in first[1]


def test_killed_and_started_again(server: RealServer, tmp_path: Path) -> None:
    """A server that is killed in the middle of an answer, and started again, is asked again, and the run goes on."""
    started = begin(server, tmp_path / "runs", *rewrite(tmp_path))
    while not server.counted()[0] and started.poll() is None:
        time.sleep(LOOK_S)
    server.kill()
    server.start()
    code, out = left(started)
    used = usage(only_run(tmp_path / "runs"))

    assert code == 0, out
    assert used["failed"] >= 1
    assert used["generations"] > used["failed"]


def test_two_runs_on_one_slot(server: RealServer, tmp_path: Path) -> None:
    """A second run waits for the first one's answers, and none takes the wait for a failure."""
    words = rewrite(tmp_path)
    started = [begin(server, tmp_path / name, *words) for name in ("first", "second")]
    ended = [left(process) for process in started]
    used, (read, written) = [usage(only_run(tmp_path / name)) for name in ("first", "second")], server.counted()

    assert [code for code, _ in ended] == [0, 0], ended
    assert [figures["failed"] for figures in used] == [0, 0]
    assert sum(figures["output"] for figures in used) == written
    assert sum(figures["input"] - figures["cached_input"] for figures in used) == read


def test_a_context_that_is_too_small(tmp_path: Path) -> None:
    """A first request that doesn't fit stops the run and says so; a larger context and ``resume`` play it."""
    with serving(context=256) as server:
        code, out = left(begin(server, tmp_path / "runs", *rewrite(tmp_path)))
        root = only_run(tmp_path / "runs").root
        server.kill()
        server.context = CONTEXT
        server.start()
        again, more = left(program("resume", root))

    assert (code not in {0, 1}, "context" in out) == (True, True), out
    assert again == 0, more
    assert [event for event in events(RunPaths(root)) if isinstance(event, AgentEnded)]
