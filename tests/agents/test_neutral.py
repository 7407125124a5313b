"""The reference harness: whole runs and single turns with a scripted model on both wires."""

import json
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from enclosed import needs_bubblewrap
from evopolicygym.agents.base import make
from evopolicygym.agents.kit.neutral_harness import bash_session
from evopolicygym.agents.kit.scripted_model.server import CACHED, INPUT, OUTPUT, Reply, ScriptedModel
from evopolicygym.cli import main as cli
from evopolicygym.core.agent import AgentConfig, AgentEnd
from evopolicygym.core.errors import UsageError
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.records.run_document import run_document
from evopolicygym.runs import turns
from fakes import RunMaker
from lifeline import PATIENCE_S
from model_proxies import REAL_KEY, VARIABLE
from neutral_models import agent, calling, raw_calling, told, transcript, turn
from players import GOOD
from whole_runs import config, played

WRITE = f"cat > system/policy.py <<'POLICY'\n{GOOD}POLICY"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the real key in its variable."""
    monkeypatch.setenv(VARIABLE, REAL_KEY)


@needs_bubblewrap
@pytest.mark.parametrize("wire", [ApiFormat.CHAT, pytest.param(ApiFormat.MESSAGES, marks=pytest.mark.nightly)])
def test_a_whole_run(wire: ApiFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model reads the task, writes a policy, spends the budget; its tokens are in the record, and no key is."""
    monkeypatch.setattr(turns, "AGENT_LAST_WORDS_S", PATIENCE_S)  # it ends by itself, however busy the machine
    with ScriptedModel() as model:
        model.replies += [calling(wire, "cat AGENTS.md", "./judge task"), calling(wire, WRITE, "./judge submit 0")]
        model.replies += [calling(wire, "./judge submit 1")]
        run = played(replace(config(tmp_path / "runs", budget=2, isolation="bubblewrap"), agent=agent(model, wire)))
        seen = told(model)
    document = run_document(run.paths)
    usage = document["usage"]

    assert run.state.held_out() is not None
    assert [submission.charged.env_instances for submission in run.state.submissions] == [(0,), (1,)]
    assert "./judge submit" in seen[0]
    assert "cartpole" in seen[1].lower()
    assert (len(model.asked), usage["requests"], usage["generations"], usage["failed"], usage["unknown"]) == (
        3,
        3,
        3,
        0,
        0,
    )
    assert (usage["input"], usage["cached_input"], usage["output"]) == (3 * INPUT, 3 * CACHED, 3 * OUTPUT)
    assert [path for path, text in run.texts() if REAL_KEY in text] == []
    assert REAL_KEY in json.dumps(dict(model.asked[0].headers))
    lines = run.paths.transcript.with_name("model.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["input"] for line in lines] == [INPUT] * 3
    roles = [json.loads(line)["role"] for line in run.paths.transcript.read_text(encoding="utf-8").splitlines()]
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "tool", "tool", "assistant", "tool"]


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The line of the docs plays a run; a server below /v1 is taken to speak chat; commands need no sandbox."""
    with ScriptedModel() as model:
        model.replies += [calling(ApiFormat.CHAT, f"{WRITE}\n./judge submit 0-1")]
        words = f"run cartpole --agent neutral --model scripted --model-url {model.url}/v1 --model-key {VARIABLE}"
        rest = "--budget 2 --validation 1 --held-out 2 --workers 1 --isolation none --json"
        monkeypatch.setattr(
            "sys.argv", ["evopolicygym", *words.split(), *rest.split(), "--runs", str(tmp_path / "runs")]
        )
        with pytest.raises(SystemExit) as left:
            cli.main()

    assert left.value.code in {0, None}
    assert json.loads(capsys.readouterr().out)["outcome"]["score"] > 100
    assert [file for file in tmp_path.rglob("*") if file.is_file() and REAL_KEY.encode() in file.read_bytes()] == []


def test_history_is_linear(new_run: RunMaker) -> None:
    """Each request is the one before, with the answer in its server's own words and what came of its calls."""
    with ScriptedModel() as model:
        turn(
            new_run(),
            model,
            *(calling(ApiFormat.MESSAGES, f"echo {n}") for n in range(3)),
            wire=ApiFormat.MESSAGES,
            level="none",
        )
        texts = [
            json.dumps(asked.body["messages"]).replace(', "cache_control": {"type": "ephemeral"}', "")
            for asked in model.asked
        ]

    assert all(later.startswith(earlier[:-1]) for earlier, later in pairwise(texts))
    assert '"signature": "signed"' in texts[1]
    assert told(model) == [f"{n}\n[exit code 0]" for n in range(3)]


@needs_bubblewrap
def test_a_command_is_held_in(new_run: RunMaker, tmp_path: Path, state_home: Path) -> None:
    """A command sees no key, no file of the host, no network, and none of the harness's own doors."""
    state_home.mkdir()
    run = new_run()
    with ScriptedModel() as model:
        port = model.url.rpartition(":")[2]
        look = f"ls -d {run.paths.journal} {state_home} {tmp_path} {Path.home() / '.profile'} /etc/shadow 2>/dev/null"
        ports = f"{port} {bash_session.COMMANDS_PORT}"
        reach = f"for p in {ports}; do (echo > /dev/tcp/127.0.0.1/$p) 2>/dev/null && echo reached $p; done"
        search = "env; cat /proc/*/environ | tr '\\0' '\\n'; cat /proc/*/cmdline | tr '\\0' ' '"
        turn(run, model, calling(ApiFormat.CHAT, look, reach, search, "cat /proc/net/dev | grep -v lo: | wc -l"))
        seen = told(model)

    assert seen[0] == "[exit code 2]"
    assert "reached" not in seen[1]
    assert "EVOPOLICYGYM_SUBMIT_URL" in seen[2]
    assert REAL_KEY not in seen[2]
    assert VARIABLE not in seen[2]
    assert str(run.paths.root) not in seen[2]
    assert seen[3] == "2\n[exit code 0]"


@needs_bubblewrap
def test_what_comes_of_a_command(new_run: RunMaker) -> None:
    """Exit codes are told, floods cut in the middle; shells are fresh, files stay, nothing holds a command up."""
    commands = [
        "exit 3",
        "cd /tmp; x=1; echo kept > note",
        "echo $PWD $x $(cat /tmp/note)",
        "echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo last",
        "sleep 600 & echo started",
        "printf '\\377'; printf no-newline",
    ]
    with ScriptedModel() as model:
        turn(new_run(), model, calling(ApiFormat.CHAT, *commands))
        seen = told(model)

    assert seen[:3] == ["[exit code 3]", "[exit code 0]", "/workspace kept\n[exit code 0]"]
    assert len(seen[3]) < bash_session.KEEP_BYTES + 200
    assert seen[3].startswith("first\nxxx")
    assert "left out" in seen[3]
    assert seen[3].endswith("xxxlast\n[exit code 0]")
    assert seen[4] == "started\n[exit code 0]"
    assert seen[5] == "\ufffdno-newline\n[exit code 0]"


@needs_bubblewrap
def test_a_command_that_hangs(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that runs longer than it may is killed, and that is told."""
    monkeypatch.setattr(bash_session, "COMMAND_S", 0.5)
    with ScriptedModel() as model:
        turn(new_run(), model, calling(ApiFormat.CHAT, "sleep 600"))
        (seen,) = told(model)

    assert seen.startswith("[killed")
    assert "0.5 s" in seen


@needs_bubblewrap
def test_a_command_that_ends_its_sandbox(new_run: RunMaker) -> None:
    """A command that kills everything gets a new sandbox, and the model is told."""
    with ScriptedModel() as model:
        ended = turn(new_run(), model, calling(ApiFormat.CHAT, "kill -9 -1", "echo back"))
        seen = told(model)

    assert seen == [bash_session.LOST, "back\n[exit code 0]"]
    assert ended.end is AgentEnd.GAVE_UP


def test_calls_that_cannot_be_read(new_run: RunMaker) -> None:
    """A call of no known tool, with no JSON or no command is told to the model, and goes back as JSON."""
    with ScriptedModel() as model:
        replies = [
            raw_calling(ApiFormat.CHAT, *given)
            for given in (["{not json", '{"cmd": 1}', "[]"], ['{"command": "a\\u0000b"}'])
        ]
        turn(
            new_run(), model, *replies, raw_calling(ApiFormat.CHAT, '{"command": "true"}', name="python"), level="none"
        )
        seen = told(model)
        sent = [call["function"]["arguments"] for call in model.asked[-1].body["messages"][1]["tool_calls"]]

    assert [text.startswith("[invalid call") for text in seen] == [True, True, True, False, True]
    assert "null byte" in seen[3]
    assert [isinstance(json.loads(text), dict) for text in sent] == [True] * 3


@pytest.mark.parametrize("wire", [ApiFormat.CHAT, ApiFormat.MESSAGES])
def test_a_model_that_only_talks(wire: ApiFormat, new_run: RunMaker) -> None:
    """A model that calls nothing is asked to go on, thrice in a row at most; then the turn is over."""
    run = new_run()
    with ScriptedModel() as model:
        replies = [Reply(), Reply(), calling(wire, "true"), Reply(), Reply(text=""), Reply()]
        ended = turn(run, model, *replies, wire=wire, level="none")

    assert (ended.end, len(model.asked)) == (AgentEnd.GAVE_UP, 6)
    assert "8 episodes" in ended.message
    assert "8 of 8" in transcript(run)[-2]["text"]


@pytest.mark.parametrize(
    ("options", "model", "words"),
    [
        ({}, "m", "--model-url"),
        ({"model_url": "http://a/v1"}, "", "--model NAME"),
        ({"model_url": "http://a/other"}, "m", "--model-wire"),
        ({"model_url": "http://a", "model_wire": "gemini"}, "m", "chat.* messages"),
        ({"model_url": "http://a/v1", "model_key": "UNSET"}, "m", "UNSET"),
        ({"model_url": "http://a/v1", "memory_mb": 5}, "m", "memory_mb"),
    ],
)
def test_choices_that_can_t_be_made(options: dict[str, object], model: str, words: str) -> None:
    """What is missing or can't be told is refused before a run begins, with what would work."""
    assert "UNSET" not in os.environ
    with pytest.raises(UsageError, match=words):
        make(AgentConfig("neutral", model, options))
