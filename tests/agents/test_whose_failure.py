"""Whose failure it is, at each door by which an agent asks a model: the server's pauses the run, whatever the agent.

Each is a whole run from the command line: what it leaves with, what it is recorded as, what it is charged, and whether
it can be resumed and is scored then.
"""

import json
import re
import shlex
import shutil
import ssl
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from evopolicygym.agents.kit.neutral_harness import model_client
from evopolicygym.agents.kit.scripted_model.server import Reply, ScriptedModel, answer_pieces
from evopolicygym.core.event import AgentEnded
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.forward import tls_context
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import find_runs
from libraries import needs_library
from model_proxies import REAL_KEY, VARIABLE
from neutral_models import calling
from places import SUPPORT
from players import GOOD
from scripted_tools import program as scripted_tool
from shell import Left, Shell
from whole_runs import events

PRICE = "input=1,output=2"
PAUSED, SCORED = 5, 0
ASKER = """\
import json, os, subprocess, sys, urllib.error, urllib.request
url, key = os.environ["OPENAI_BASE_URL"] + "/chat/completions", "Bearer " + os.environ["OPENAI_API_KEY"]
body = {"model": "scripted", "messages": [{"role": "user", "content": "What now?"}]}
for case in ("0", "1"):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Authorization": key})
    try:
        if "choices" not in json.loads(urllib.request.urlopen(request).read()):
            sys.exit("no answer")
    except (urllib.error.HTTPError, OSError, ValueError) as error:
        sys.exit(f"the model failed: {error}")
    subprocess.run(["./judge", "submit", case], check=True)
"""


@dataclass(frozen=True, slots=True)
class Situation:
    """What a model's server does after it has answered a number of requests."""

    name: str
    reply: Reply
    end: str
    answered: int = 1
    code: int = PAUSED


OVERLOADED = json.dumps({"error": {"type": "overloaded_error", "message": "Overloaded"}}).encode()
BROKE = {"type": "insufficient_quota", "message": "You exceeded your current quota."}
LONG = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens."
SITUATIONS = [
    Situation("overloaded", Reply(status=529, raw=OVERLOADED), "unavailable"),
    Situation("overloaded at first", Reply(status=529, raw=OVERLOADED), "unavailable", answered=0),
    Situation("overloaded inside", Reply(raw=OVERLOADED), "unavailable"),
    Situation("no credit", Reply(status=402, text="Insufficient Balance"), "limited"),
    Situation("no credit at first", Reply(status=403, text="Key limit exceeded"), "limited", answered=0),
    Situation("no credit as 400", Reply(status=400, text="Your credit balance is too low"), "limited"),
    Situation("a page", Reply(status=402, raw=b"<html><title>Payment Required</title></html>"), "limited"),
    Situation("key", Reply(status=401, text="Unknown key"), "unauthorized", answered=0),
    Situation("breaks off", Reply(cut=True), "unavailable"),
    Situation("context", Reply(status=500, text=LONG), "context_exceeded", code=SCORED),
]


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the key in its variable, and no pause between tries."""
    monkeypatch.setenv(VARIABLE, REAL_KEY)
    monkeypatch.setattr(model_client, "FIRST_PAUSE_S", 0.0)


def door(name: str, model: ScriptedModel, directory: Path) -> list[object]:
    """Return the arguments for an agent that submits two cases, one for each answer of its model."""
    (directory / "asker.py").write_text(ASKER, encoding="utf-8")
    agents: dict[str, list[object]] = {
        "neutral": ["--agent", "neutral", "--model-url", f"{model.url}/v1"],
        "openevolve": ["--agent", "openevolve", "--model-url", f"{model.url}/v1"],
        "gepa": ["--agent", "gepa", "--model-url", f"{model.url}/v1"],
        "codex": [
            *("--agent", "codex", "--model-url", model.url, "--option"),
            f"program={scripted_tool(directory, TOOL)}",
        ],
        "acp": [
            *("--agent", "acp", "--model-url", f"{model.url}/v1", "--model-wire", "chat", "--option"),
            f"command={shlex.quote(sys.executable)} {shlex.quote(str(SUPPORT / 'acp_tool.py'))}",
        ],
        "command": ["--model-url", f"{model.url}/v1", "--model-wire", "chat"],
    }
    rest = ["--", sys.executable, directory / "asker.py"] if name == "command" else ["--model", "scripted"]
    return [*agents[name], "--model-key", VARIABLE, "--price", PRICE, *rest]


TOOL = """
for case in range(int((home / "case").read_text()) if (home / "case").exists() else 0, 2):
    if ask() != 200:
        sys.exit(1)
    subprocess.run(["./judge", "submit", str(case)], check=True)
    (home / "case").write_text(str(case + 1))
"""


def playing(shell: Shell, runs: Path, arguments: list[object]) -> tuple[Left, RunPaths]:
    """Play a small run, and return how the program left, and the run."""
    shown = ("--budget", 2, "--validation", 1, "--held-out", 1, "--workers", 1, "--isolation", "none", "--runs", runs)
    left = shell("run", "cartpole", *shown, *arguments)
    (root,) = find_runs(runs)
    return left, RunPaths(root)


IN_THE_GATE = {
    ("neutral", "overloaded at first"),
    ("neutral", "no credit"),
    ("neutral", "context"),
    ("codex", "overloaded inside"),
    ("codex", "context"),
    ("command", "overloaded inside"),
    ("command", "no credit at first"),
    ("acp", "breaks off"),
}
"""A door of each kind with each kind of failure; the whole matrix is played nightly."""


@pytest.mark.parametrize(
    ("name", "situation"),
    [
        pytest.param(
            name,
            situation,
            id=f"{name}-{situation.name}",
            marks=[] if (name, situation.name) in IN_THE_GATE else [pytest.mark.nightly],
        )
        for name in ("neutral", "codex", "command", "acp")
        for situation in SITUATIONS
    ],
)
def test_whose_failure_it_is(name: str, situation: Situation, shell: Shell, tmp_path: Path) -> None:
    """The same failure ends a run in the same way at every door; paused, it is resumed and scored."""
    with ScriptedModel() as model:
        submitting = calling(ApiFormat.CHAT, "./judge submit 0") if name == "neutral" else Reply()
        model.replies = [*[submitting] * situation.answered, *[situation.reply] * 40]
        left, paths = playing(shell, tmp_path / "runs", door(name, model, tmp_path))
        ends = [event for event in events(paths) if isinstance(event, AgentEnded)]
        usage = json.loads(paths.document.read_text(encoding="utf-8"))["usage"]
        model.replies = [calling(ApiFormat.CHAT, "./judge submit 0-1")] * 3 if name == "neutral" else []
        resumed = shell("resume", paths.root)

    assert (left.code, "Traceback" in left.err) == (situation.code, False), left.err
    assert situation.end in {event.end for event in ends}
    assert (usage["assumed_cost"] > 0) == situation.reply.cut
    assert resumed.code == 0, resumed.err
    assert json.loads(paths.document.read_text(encoding="utf-8"))["outcome"]["score"] is not None


@pytest.mark.nightly  # what is installed for the gate brings no library
@pytest.mark.parametrize("name", [pytest.param(name, marks=needs_library(name)) for name in ("openevolve", "gepa")])
@pytest.mark.parametrize("situation", SITUATIONS[:-1], ids=lambda situation: situation.name)
def test_whose_failure_it_is_for_a_library(name: str, situation: Situation, shell: Shell, tmp_path: Path) -> None:
    """A library that submits before it asks is paused as others are, and goes on."""
    with ScriptedModel() as model:
        model.replies = [*[Reply(f"```python\n{GOOD}```")] * situation.answered, *[situation.reply] * 40]
        arguments = ["--budget", 8, *door(name, model, tmp_path)]
        left, paths = playing(shell, tmp_path / "runs", arguments)
        model.replies = []
        model.answer = lambda path, body, _reply: answer_pieces(path, body, Reply(f"```python\n{GOOD}```"))
        resumed = shell("resume", paths.root)

    assert (left.code, "Traceback" in left.err) == (PAUSED, False), left.err
    assert left.err.count(model.url) <= 9
    assert resumed.code == 0, resumed.err


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_certificates_that_are_not_there(
    content: str | None, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of certificates that is missing, or is none, is named before a run is opened."""
    file = tmp_path / "authority.pem"
    if content:
        file.write_text(content, encoding="utf-8")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    model = ("--model", "m", "--model-url", "https://127.0.0.1:9/v1", "--model-key", VARIABLE)
    left = shell("run", "cartpole", "--agent", "neutral", *model, "--runs", tmp_path / "runs")

    assert (left.code, str(file) in left.err, "SSL_CERT_FILE" in left.err) == (2, True, True)
    assert not (tmp_path / "runs").exists()


def test_a_certificate_of_one_s_own(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose authority is unknown pauses the run at once, with the variable to set; named, it is trusted."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    made = ("-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", certificate, *names)
    openssl = shutil.which("openssl") or "openssl"
    subprocess.run([openssl, "req", *map(str, made)], check=True, capture_output=True)
    with ScriptedModel() as model:
        served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        served.load_cert_chain(certificate, key)
        model.secure(served)
        model.replies = [calling(ApiFormat.CHAT, "./judge submit 0-1")]
        left, paths = playing(shell, tmp_path / "runs", door("neutral", model, tmp_path))
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        tls_context.cache_clear()
        resumed = shell("resume", paths.root)
        tls_context.cache_clear()

    assert (left.code, "SSL_CERT_FILE" in left.err, "Attempt" in left.err) == (PAUSED, True, False)
    assert resumed.code == 0, resumed.err


@pytest.mark.parametrize("name", ["neutral", "codex"])
def test_time_that_runs_out_while_a_request_hangs(name: str, shell: Shell, tmp_path: Path) -> None:
    """A run whose time was up while its model's server said nothing says so."""
    with ScriptedModel() as model:
        model.replies = [Reply(hang="before")] * 3
        left, paths = playing(shell, tmp_path / "runs", ["--max-time", 2, *door(name, model, tmp_path)])
        (ended,) = [event for event in events(paths) if isinstance(event, AgentEnded)]

    assert left.code == 0
    assert ended.end == "allowance_spent"
    assert re.search(r"request to the model server had waited for \d+ s", ended.message)
