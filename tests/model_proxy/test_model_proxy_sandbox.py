"""A06: a program in a workplace, with the model's door as its only way out. Needs bubblewrap."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from enclosed import needs_bubblewrap
from evopolicygym.agents.kit.scripted_model.server import CACHED, INPUT, OUTPUT, REASONING, ScriptedModel
from evopolicygym.core.agent import AgentConfig, AgentLimits
from evopolicygym.records.run_document import run_document
from evopolicygym.sandbox.base import MODEL_PORT
from evopolicygym.sandbox.program.enclosed import enclosed
from lifeline import PATIENCE_S
from model_proxies import REAL_KEY, VARIABLE, open_door
from players import GOOD
from whole_runs import config, played

PROGRAM = """
import http.client, json, os, socket, sys, urllib.parse, urllib.request
door = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
key = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
hosts, told = sys.argv[1:], {"environment": dict(os.environ)}

def ask(method, target, **headers):
    connection = http.client.HTTPConnection(door.hostname, door.port, timeout=120)
    body = b'{"model": "scripted", "messages": []}' if method == "POST" else None
    connection.request(method, target, body, key | headers)
    answer = connection.getresponse()
    return [answer.status, answer.read().decode()]

def reach(host):
    name, _, port = host.rpartition(":")
    try:
        socket.create_connection((name, int(port)), timeout=120).close()
    except OSError as error:
        return type(error).__name__
    return "reached"

told["asked"] = ask("POST", "/v1/chat/completions")
told["reached"] = [reach(host) for host in hosts]
told["tunnels"] = [
    ask(*way)[0]
    for host in hosts
    for way in (("CONNECT", host), ("GET", f"http://{host}/v1/models"), ("GET", f"//{host}/v1/models"))
] + [ask("GET", "/v1/models", Host="example.org")[0] for host in hosts]
try:
    told["name"] = socket.gethostbyname("example.org")
except OSError as error:
    told["name"] = None
print(json.dumps(told))
"""


pytestmark = needs_bubblewrap


def told(directory: Path, serve: Any, *hosts: str) -> dict[str, Any]:
    """Return what the program prints that runs in a workplace."""
    workspace = directory / "workspace"
    for name in ("system", "feedback"):
        (workspace / name).mkdir(parents=True)
    occupant = enclosed(["python3", "-c", PROGRAM, *hosts], workspace, {MODEL_PORT: serve}, AgentLimits())
    try:
        printed, _ = occupant.process.communicate(timeout=PATIENCE_S)
    finally:
        occupant.terminate(1.0)
    found: dict[str, Any] = json.loads(printed)
    return found


def test_only_the_model_answers_in_a_workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From inside, the door answers; no host, not even the model server itself, is reached directly or through it."""
    monkeypatch.setenv(VARIABLE, REAL_KEY)
    with ScriptedModel() as other, open_door(tmp_path) as door:
        hosts = [server.url.removeprefix("http://") for server in (other, door.model)]
        found = told(tmp_path, lambda listener: door.door.serve(listener).environment, *hosts)

        assert found["asked"][0] == 200
        assert found["reached"] == ["ConnectionRefusedError"] * 2
        assert set(found["tunnels"]) <= {400, 403}
        assert (len(found["tunnels"]), found["name"]) == (8, None)
        assert (other.asked, len(door.model.asked)) == ([], 1)
        assert REAL_KEY not in json.dumps(found)
        assert ["refused" in line for line in door.lines()] == [False] + [True] * 8


AGENT = """
import json, os, pathlib, subprocess, sys, urllib.request
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "What now?"}]}).encode(),
    {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
)
for place in range(2):
    print(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"], dict(os.environ))
    pathlib.Path("system/policy.py").write_text(sys.argv[1])
    subprocess.run(["./judge", "submit", str(place)], check=True)
"""


@pytest.mark.parametrize("level", ["bubblewrap", pytest.param("none", marks=pytest.mark.nightly)])
def test_a_run_whose_agent_asks_a_model(level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program plays a run with its judge and its model; the tokens are in the record, and the key is nowhere."""
    monkeypatch.setenv(VARIABLE, REAL_KEY)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with ScriptedModel() as model:
        options = {"model_url": model.url, "model_key": VARIABLE}
        agent = AgentConfig("command", "scripted", options, ("python3", "-c", AGENT, GOOD))
        run = played(replace(config(tmp_path / "runs", budget=2, isolation=level), agent=agent))
    usage = run_document(run.paths)["usage"]

    assert run.state.held_out() is not None
    assert (usage["requests"], usage["unknown"], usage["input"], usage["cached_input"]) == (2, 0, 2 * INPUT, 2 * CACHED)
    assert (usage["output"], usage["reasoning"]) == (2 * OUTPUT, 2 * REASONING)
    assert {asked.headers["authorization"] for asked in model.asked} == {f"Bearer {REAL_KEY}"}
    assert [path for path, text in run.texts() if REAL_KEY in text] == []
    assert len(run.paths.transcript.with_name("model.jsonl").read_text(encoding="utf-8").splitlines()) == 2
