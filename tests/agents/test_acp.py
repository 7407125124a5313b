"""Any tool that speaks the Agent Client Protocol: whole runs, and what is said of tools that don't."""

import json
import shlex
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from threading import Event

import pytest

from enclosed import desk, needs_bubblewrap
from evopolicygym.agents.base import make
from evopolicygym.agents.kit import acp_client
from evopolicygym.agents.kit.scripted_model.conversation import Script
from evopolicygym.agents.kit.scripted_model.server import INPUT, OUTPUT, ScriptedModel
from evopolicygym.core.agent import AgentConfig, AgentEnd, Turn
from evopolicygym.core.errors import UsageError
from evopolicygym.core.event import AgentEnded
from evopolicygym.records.run_document import run_document
from fakes import OpenRun, RunMaker
from model_proxies import VARIABLE
from places import SUPPORT
from tool_runs import ENOUGH, SCRIPT, found, key_in, needs
from whole_runs import Told, config, events, played

pytestmark = pytest.mark.usefixtures("real_key")
TALKS = """\
import json, sys
def talk(answers):
    for line in sys.stdin:
        asked = json.loads(line)
        method = asked.get("method")
        if method not in answers:
            return
        print("a line that is no message")
        for answer in answers[method]:
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
READY = {"initialize": [{"result": {"protocolVersion": 1, "authMethods": [{"id": "api-key"}]}}]}
SESSION = [{"result": {"sessionId": "s"}}]
SIGN_IN, NO = [{"error": {"code": -32000, "message": "sign in"}}], [{"error": {"code": 1, "message": "no"}}]
"""


@pytest.fixture
def run(new_run: RunMaker) -> OpenRun:
    """Return an open run whose workspace is laid out."""
    return new_run()


def _config(command: str, model: ScriptedModel, **options: str) -> AgentConfig:
    given = {"command": command, "model_url": model.url, "model_key": VARIABLE, **options}
    return AgentConfig("acp", "scripted", given)


def _played(command: str, model: ScriptedModel, runs: Path, level: str, **options: str) -> Told:
    asked = config(runs, budget=2, isolation=level)
    return played(replace(asked, agent=_config(command, model, **options)))


def _turn(run: OpenRun, model: ScriptedModel, script: str, directory: Path) -> Turn:
    """Play one turn of a tool whose program is a script."""
    file = directory / "tool.py"
    file.write_text(TALKS + script, encoding="utf-8")
    agent = make(_config(f"{shlex.quote(sys.executable)} {shlex.quote(str(file))}", model))
    return agent.play(replace(desk(run), isolation="none"), run.door, Event())


@pytest.mark.parametrize("level", ["none", pytest.param("bubblewrap", marks=[pytest.mark.nightly, needs_bubblewrap])])
def test_whole_run(level: str, model: ScriptedModel, tmp_path: Path) -> None:
    """A tool of the official package is allowed what it asks for, goes on in its session, and is metered."""
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(SUPPORT / 'acp_tool.py'))}"
    told = _played(command, model, tmp_path / "runs", level, model_wire="chat")
    ends = [(event.end, event.message) for event in events(told.paths) if isinstance(event, AgentEnded)]
    document, transcript = run_document(told.paths), told.paths.transcript.read_text(encoding="utf-8")

    assert ends[0] == ("finished", "Submitted 0."), transcript
    assert [one.charged.env_instances for one in told.state.submissions] == [(0,), (1,)], transcript
    assert (document["outcome"]["closed"], told.state.held_out() is not None) == ("budget_spent", True)
    assert (document["usage"]["input"], document["usage"]["output"]) == (2 * INPUT, 2 * OUTPUT)
    assert document["tool_usage"]["input"] >= 5, "of the first turn; the second may be ended sooner"
    assert ("said before" in transcript, key_in(told)) == (False, [])


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("", "exited with code 0 before it answered initialize"),
        ("sys.exit('Usage: tool FILE')", "exited with code 1 before it answered initialize"),
        ("[print(line, end='', flush=True) for line in sys.stdin]", "rejects initialize"),
        ("talk({'initialize': [{'result': {'protocolVersion': 2}}]})", "expected 1, got 2"),
        ("talk({'initialize': [{'error': {'code': -1, 'message': 'not\\nnow'}}]})", "rejects initialize: not now"),
        ("talk({**READY, 'session/new': SIGN_IN, 'authenticate': NO})", "rejects authenticate: no"),
        ("talk({**READY, 'session/new': SESSION, 'session/prompt': NO})", "rejects session/prompt: no"),
        ("talk({**READY, 'session/new': SESSION})", "before it answered session/prompt"),
    ],
)  # fmt: skip
def test_what_is_no_tool_of_the_protocol(
    script: str, says: str, run: OpenRun, model: ScriptedModel, tmp_path: Path
) -> None:
    """Whatever a tool does in place of an answer, its turn has crashed, and one plain line says why."""
    ended = _turn(run, model, script, tmp_path)

    assert (ended.end, says in ended.message, "\n" in ended.message) == (AgentEnd.CRASHED, True, False), ended.message


def test_a_tool_that_never_answers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It is ended, and the message names the protocol."""
    monkeypatch.setattr(acp_client, "END_S", 0.01)
    monkeypatch.setattr(acp_client.Connection.call, "__defaults__", (0.01,))
    code = acp_client.main(["prompt", "", "", sys.executable, "-c", "import time; time.sleep(60)"])
    told = json.loads(capsys.readouterr().out)

    assert (code, told["type"], "Agent Client Protocol" in told["message"]) == (1, "error", True)


def test_a_session_that_was_not_kept(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A new one begins with the first prompt before the further one, and nothing has crashed."""
    file = tmp_path / "tool.py"
    script = """
READY["initialize"][0]["result"]["agentCapabilities"] = {"loadSession": True}
for line in sys.stdin:
    asked = json.loads(line)
    answers = {**READY, "session/load": NO, "session/new": SESSION}
    answer = answers.get(asked["method"], [{"result": {"stopReason": asked["params"].get("prompt")}}])[0]
    print(json.dumps({"id": asked["id"], **answer}), flush=True)
"""
    file.write_text(TALKS + script, encoding="utf-8")
    code = acp_client.main(["go on", "begin", "lost", sys.executable, str(file)])
    told = [json.loads(line) for line in capfd.readouterr().out.splitlines() if line.startswith("{")]

    session, prompt, stop = told
    assert code == 0
    assert [session[name] for name in ("type", "id", "loads")] == ["session", "s", True]
    assert [prompt[name] for name in ("type", "text")] == ["prompt", "begin\n\ngo on"]
    assert stop["reason"] == [{"type": "text", "text": "begin\n\ngo on"}]


def test_what_the_model_thought_is_told(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A thought comes whole, before what the model said and did after it, each with its time."""
    file = tmp_path / "tool.py"
    script = """
def update(name, **fields):
    print(json.dumps({"method": "session/update", "params": {"update": {"sessionUpdate": name, **fields}}}), flush=True)

for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "session/prompt":
        for text in ("Bal", "ance."):
            update("agent_thought_chunk", content={"type": "text", "text": text})
        update("tool_call", toolCallId="c", title="ls", kind="execute")
        update("agent_message_chunk", content={"type": "text", "text": "Done."})
    answer = {**READY, "session/new": SESSION}.get(asked["method"], [{"result": {"stopReason": "end_turn"}}])[0]
    print(json.dumps({"id": asked["id"], **answer}), flush=True)
"""
    file.write_text(TALKS + script, encoding="utf-8")
    code = acp_client.main(["go on", "", "", sys.executable, str(file)])
    told = [json.loads(line) for line in capfd.readouterr().out.splitlines() if line.startswith("{")]

    assert code == 0
    assert [event["type"] for event in told] == ["session", "prompt", "thought", "update", "message", "stop"]
    assert [event["text"] for event in told if "text" in event] == ["go on", "Balance.", "Done."]
    assert all(datetime.fromisoformat(event["time"]).tzinfo for event in told)


def test_a_request_that_is_not_offered_is_refused(run: OpenRun, model: ScriptedModel, tmp_path: Path) -> None:
    """A tool that reads files by the client is answered by an error, and its turn ends as it ends."""
    script = """
def ask(line):
    print(json.dumps({"jsonrpc": "2.0", "id": 7, "method": "fs/read_text_file", "params": {}}), flush=True)
    code = json.loads(sys.stdin.readline())["error"]["code"]
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": str(code)}}
    print(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": {"update": update}}), flush=True)
    print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {"stopReason": "end_turn"}}))
for answer in (READY["initialize"][0], {"result": {"sessionId": "s"}}):
    print(json.dumps({"jsonrpc": "2.0", "id": json.loads(sys.stdin.readline())["id"], **answer}), flush=True)
ask(sys.stdin.readline())
"""
    ended = _turn(run, model, script, tmp_path)

    assert (ended.end, ended.message) == (AgentEnd.GAVE_UP, str(acp_client.NO_METHOD))


@pytest.mark.parametrize(
    "options",
    [{}, {"command": ""}, {"command": "'open"}, {"command": "no-such-program acp"}, {"command": "sh", "program": "sh"},
     {"command": "sh"}],
)  # fmt: skip
def test_a_command_that_cant_be_started(options: dict[str, str]) -> None:
    """It is refused before a run begins: none, no words, not found, two programs, or no address of a model."""
    with pytest.raises(UsageError):
        make(AgentConfig("acp", "scripted", options))


def test_known_programs_bring_their_settings(model: ScriptedModel, tmp_path: Path) -> None:
    """Their model's format, and so how they are asked, are those of the agents of their names."""
    program = tmp_path / "gemini"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    with pytest.raises(UsageError, match="gemini"):
        make(_config(f"{program} --acp", model, model_wire="chat"))
    assert make(_config(f"{program} --acp", model))


@pytest.mark.nightly
@pytest.mark.tools
@pytest.mark.parametrize(
    ("program", "arguments", "second"),
    [
        pytest.param("gemini", "--acp", 0, marks=needs("gemini")),
        pytest.param("opencode", "acp", 1, marks=needs("opencode")),
    ],
)
def test_whole_run_of_a_tool(program: str, arguments: str, second: int, tmp_path: Path) -> None:
    """A tool as it is installed edits, submits, gives up, and submits again, in its session where it kept that."""
    with ScriptedModel(Script(SCRIPT)) as server:
        told = _played(f"{found(program)} {arguments}", server, tmp_path / "runs", "bubblewrap")
    ends = [(event.end, event.message) for event in events(told.paths) if isinstance(event, AgentEnded)]
    transcript = told.paths.transcript.read_text(encoding="utf-8")

    assert ends[0] == ("finished", ENOUGH), transcript[-3000:]
    assert [one.charged.env_instances for one in told.state.submissions] == [(0,), (second,)]
    assert {end for end, _ in ends} == {"finished"}
    assert (told.state.held_out() is not None, key_in(told)) == (True, [])
