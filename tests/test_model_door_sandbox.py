"""A06: a program in a workplace, with the model's door as its only way out. Needs bubblewrap."""

import json
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox.bubblewrap import Backend
from evopolicygym.sandbox.workplace import enclosed
from model_doors import REAL_KEY, VARIABLE, open_door
from scripted_model import ScriptedModel

PROGRAM = """
import http.client, json, os, socket, sys, urllib.parse, urllib.request
door = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
key = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
hosts, told = sys.argv[1:], {"environment": dict(os.environ)}

def ask(method, target, **headers):
    connection = http.client.HTTPConnection(door.hostname, door.port, timeout=20)
    body = b'{"model": "scripted", "messages": []}' if method == "POST" else None
    connection.request(method, target, body, key | headers)
    answer = connection.getresponse()
    return [answer.status, answer.read().decode()]

def reach(host):
    name, _, port = host.rpartition(":")
    try:
        socket.create_connection((name, int(port)), timeout=5).close()
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


def why_not() -> str:
    """Return why bubblewrap can't work here; empty where it can."""
    try:
        Backend().findings()
    except SandboxError as error:
        return str(error)
    return ""


pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


def told(directory: Path, serve: Any, *hosts: str) -> dict[str, Any]:
    """Return what the program prints that runs in a workplace."""
    workspace = directory / "workspace"
    for name in ("system", "feedback"):
        (workspace / name).mkdir(parents=True)
    occupant = enclosed(["python3", "-c", PROGRAM, *hosts], workspace, serve)
    try:
        printed, _ = occupant.process.communicate(timeout=100)
    finally:
        occupant.leave(1.0)
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
