"""What all command-line tools share: how each end of a call is told, the home and the conversation that outlive it."""

import json
from collections.abc import Iterator
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import pytest

from enclosed import needs_bubblewrap
from evopolicygym.agents.base import make
from evopolicygym.agents.builtin.codex import Codex
from evopolicygym.agents.kit import cli_agent, program
from evopolicygym.agents.kit.scripted_model.answers import INPUT, OUTPUT, Reply
from evopolicygym.agents.kit.scripted_model.server import ScriptedModel
from evopolicygym.core.agent import AgentConfig, AgentEnd
from evopolicygym.core.errors import AgentError, UsageError
from evopolicygym.core.event import AgentEnded
from evopolicygym.core.run import Stage
from evopolicygym.records.documents import decode_event, encode_event
from evopolicygym.records.jsontext import dumps
from evopolicygym.records.run_document import run_document
from evopolicygym.runs.run import resume
from fakes import TIME, OpenRun, RunMaker
from model_proxies import REAL_KEY, VARIABLE
from scripted_tools import program as scripted_tool
from scripted_tools import turn
from tool_runs import key_in, played_with
from whole_runs import Told

MOST_GROWTH_KB = 64 << 10
"""By which the memory of the process that hears a flood may grow: a tenth of what a whole one would be."""
QUICK = 1
"""Seconds without progress that are to pass."""


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, REAL_KEY)
    monkeypatch.setattr(program, "GRACE_S", 0.5)


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """Return a model server."""
    with ScriptedModel() as server:
        yield server


@pytest.fixture
def run(new_run: RunMaker) -> OpenRun:
    """Return an open run whose workspace is laid out."""
    return new_run()


FAILING = {
    500: AgentEnd.UNAVAILABLE, 529: AgentEnd.UNAVAILABLE, 401: AgentEnd.UNAUTHORIZED, 403: AgentEnd.UNAUTHORIZED,
    429: AgentEnd.LIMITED, 402: AgentEnd.LIMITED, 400: AgentEnd.GAVE_UP,
}  # fmt: skip


@needs_bubblewrap
@pytest.mark.parametrize(("status", "end"), FAILING.items())
def test_model_that_fails_for_ever(status: int, end: AgentEnd, run: OpenRun, model: ScriptedModel) -> None:
    """A tool that ends because its model's server only fails is told apart by how that fails; submissions stay."""
    model.replies = [Reply(), *[Reply("no", status)] * 9]
    ended = turn(run, model, "ask(); submit(); [ask() for _ in range(3)]; sys.exit(1)")

    assert (ended.end, str(status) in ended.message) == (end, True)
    assert len(run.session.state.submissions) == 1
    assert (ended.usage["failed"], ended.usage["input"]) == (3, INPUT)


@needs_bubblewrap
def test_model_that_fails_once(run: OpenRun, model: ScriptedModel) -> None:
    """A passing 429 that the tool itself gets over is no end."""
    model.replies = [Reply("later", 429)]
    ended = turn(run, model, "while ask() != 200: time.sleep(0.05)\nsubmit()")

    assert (ended.end, ended.usage["failed"], ended.usage["output"]) == (AgentEnd.FINISHED, 1, OUTPUT)


@needs_bubblewrap
def test_tool_that_asks_for_ever(run: OpenRun, model: ScriptedModel) -> None:
    """A tool that asks a failing server again and again, and says so, is ended; it is the server that failed."""
    model.replies = [Reply("broken", 500)] * 1000
    script = "while True: ask(); tell(type='error', message='once more'); time.sleep(0.05)"
    ended = turn(run, model, script, quiet_s=QUICK)

    assert (ended.end, "500" in ended.message) == (AgentEnd.UNAVAILABLE, True)


@needs_bubblewrap
def test_tool_that_hangs(run: OpenRun, model: ScriptedModel) -> None:
    """A tool in which nothing moves is ended; what it had submitted stays."""
    ended = turn(run, model, "ask(); submit(); time.sleep(600)", quiet_s=QUICK)

    assert (ended.end, "nothing moved for 1 s" in ended.message) == (AgentEnd.HUNG, True)
    assert len(run.session.state.submissions) == 1


@needs_bubblewrap
def test_tool_that_moves_is_not_ended(run: OpenRun, model: ScriptedModel) -> None:
    """What a tool prints, while its model answers, is progress."""
    script = "ask()\nfor _ in range(8): time.sleep(0.4); tell(type='turn.started')\nsubmit()"
    ended = turn(run, model, script, quiet_s=2)

    assert ended.end is AgentEnd.FINISHED


@needs_bubblewrap
def test_tool_that_crashes(run: OpenRun, model: ScriptedModel) -> None:
    """A tool that dies in the middle has crashed; what it had submitted stays."""
    ended = turn(run, model, "ask(); submit(); os.kill(os.getpid(), 11)")

    assert ended.end is AgentEnd.CRASHED
    assert len(run.session.state.submissions) == 1


@needs_bubblewrap
def test_tool_that_gives_up(run: OpenRun, model: ScriptedModel) -> None:
    """A tool that ends well, with budget left and nothing submitted, gave up; its last word is told."""
    said = "tell(type='item.completed', item={'type': 'agent_message', 'text': 'That is all.'})"
    ended = turn(run, model, f"ask(); {said}")

    assert (ended.end, ended.message) == (AgentEnd.GAVE_UP, "That is all.")


@needs_bubblewrap
@pytest.mark.parametrize("mebibytes", [64, pytest.param(1024, marks=pytest.mark.nightly)])
def test_flood(mebibytes: int, run: OpenRun, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood without a line's end fills neither the transcript nor memory; what comes after it is heard."""
    monkeypatch.setattr(program, "OUTPUT_BYTES", 100_000)
    flood = f"submit()\nfor _ in range({mebibytes}): os.write(1, b'{{' * (1 << 20))\nprint()\n"
    before = getrusage(RUSAGE_SELF).ru_maxrss
    ended = turn(run, model, f"{flood}tell(type='turn.failed', error={{'message': 'x'}})\nsys.exit(1)")

    assert (ended.end, ended.message) == (AgentEnd.CRASHED, "x")
    assert run.paths.transcript.stat().st_size < 101_000
    assert getrusage(RUSAGE_SELF).ru_maxrss - before < MOST_GROWTH_KB
    assert len(run.session.state.submissions) == 1


@pytest.mark.parametrize("level", ["process", "none"])
def test_weaker_levels(level: str, model: ScriptedModel, tmp_path: Path) -> None:
    """Where there is no sandbox, a tool works in the same home, with the dummy key alone, and goes on as anywhere."""
    seen = "ask(); tell(key=os.environ['OPENAI_API_KEY'], home=home.name, real=os.environ.get('SCRIPTED_MODEL_KEY'))"
    tool = scripted_tool(tmp_path, f"{seen}; tell(resumed=resumed); submit()")
    told = played_with("codex", tool, model, tmp_path / "runs", level)
    lines = [json.loads(line) for line in told.paths.transcript.read_text(encoding="utf-8").splitlines() if "{" in line]
    first = next(line for line in lines if "home" in line)

    assert told.state.held_out() is not None
    assert (told.state.opened.isolation, len(told.state.submissions)) == (level, 2)
    assert (first["home"], first["real"], first["key"] != REAL_KEY) == ("home", None, True)
    assert [line["resumed"] for line in lines if "resumed" in line] == [False, True]
    assert key_in(told) == []


@pytest.mark.parametrize(
    "line", [b"{}", b"{[", b'{"type": 3}', b'{"type": "turn.completed", "usage": [1]}', b"{" * 5000, b"\xff{"]
)
def test_events_of_any_kind(line: bytes, tmp_path: Path) -> None:
    """What a tool prints may be anything: it is passed over, and the next event is read."""
    listener = cli_agent.Listener(Codex(), tmp_path / "conversation.json")
    listener.hear(line + b"\n" + b'{"type": "thread.sta')
    listener.hear(b'rted", "thread_id": "one"}\n')

    assert listener.conversation == "one"


@pytest.mark.parametrize("amount", ["1" + "0" * 400, "-1", "NaN", "1e999", "9007199254740992"])
def test_usage_that_no_record_could_hold(amount: str, tmp_path: Path) -> None:
    """A number of tokens that can't be is passed over, so that no tool spoils its run's journal with one."""
    listener = cli_agent.Listener(Codex(), tmp_path / "conversation.json")
    said = '{"type": "turn.completed", "usage": {"input_tokens": %s, "output_tokens": 9}}\n'
    listener.hear((said % 7 + said % amount).encode())
    ended = AgentEnded(TIME, 0, "finished", tool_usage=listener.of_this_call())

    assert decode_event(json.loads(dumps(encode_event(ended)))) == ended
    assert listener.of_this_call()["input"] == 7


def test_usage_of_a_conversation_that_begins_anew(tmp_path: Path) -> None:
    """A tool that goes on in another conversation than it was told counts from there, and nothing is taken off."""
    told = ('{"type": "thread.started", "thread_id": "%s"}\n{"type": "turn.completed", "usage": {"input_tokens": %d, '
            '"output_tokens": 9}}\n')  # fmt: skip
    used = []
    for name, amount in (("one", 700), ("one", 900), ("other", 50)):
        listener = cli_agent.Listener(Codex(), tmp_path / "conversation.json")
        listener.recall()
        listener.hear((told % (name, amount)).encode())
        used.append(listener.of_this_call()["input"])
        listener.keep()

    assert used == [700, 200, 50]


@pytest.mark.parametrize("name", ["--last", "../x", "a b", "x" * 200, ""])
def test_names_of_conversations(name: str, tmp_path: Path) -> None:
    """A conversation's name that could be an option or a path is none."""
    listener = cli_agent.Listener(Codex(), tmp_path / "conversation.json")
    listener.hear(json.dumps({"type": "thread.started", "thread_id": name}).encode() + b"\n")

    assert (listener.conversation, listener.known.exists()) == ("", False)


@needs_bubblewrap
def test_home_and_conversation_outlive_a_turn(run: OpenRun, model: ScriptedModel) -> None:
    """The next call finds the home as it was left, and is told which conversation is to go on and what is left."""
    script = "left = home / 'left'; tell(seen=left.exists(), said=sys.argv[2:]); left.touch(); submit()"
    for _ in range(2):
        turn(run, model, script)
    lines = [json.loads(line) for line in run.paths.transcript.read_text().splitlines() if line.startswith('{"seen')]

    assert [line["seen"] for line in lines] == [False, True]
    assert "AGENTS.md first" in lines[0]["said"][-1]
    assert lines[1]["said"][-3:-1] == ["resume", "thread-1"]
    assert f"{run.session.state.budget - 1} episodes are left" in lines[1]["said"][-1]


@needs_bubblewrap
def test_conversation_that_cannot_go_on(run: OpenRun, model: ScriptedModel) -> None:
    """Where a conversation can't even be resumed, the call after begins a new one."""
    script = "tell(resumed=resumed)\nif resumed: sys.exit('no such conversation')\nask(); submit()"
    ends = [turn(run, model, script).end for _ in range(3)]
    lines = [json.loads(line) for line in run.paths.transcript.read_text().splitlines() if "resumed" in line]

    assert ends == [AgentEnd.FINISHED, AgentEnd.CRASHED, AgentEnd.FINISHED]
    assert [line["resumed"] for line in lines] == [False, True, False]


@needs_bubblewrap
def test_home_is_bounded(run: OpenRun, model: ScriptedModel) -> None:
    """A tool whose home grows over the limit is ended."""
    script = "(home / 'large').write_bytes(bytes(24 << 20)); time.sleep(60)"
    ended = turn(run, model, script, scratch_mb=16)

    assert (ended.end, "The home holds more than 16 MiB" in ended.message) == (AgentEnd.CRASHED, True)


@needs_bubblewrap
@pytest.mark.parametrize("left", [".codex", ".codex/config.toml"])
def test_links_left_in_the_home(left: str, run: OpenRun, model: ScriptedModel, tmp_path: Path) -> None:
    """Links that a tool leaves where its settings go lead nobody out of the home."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "config.toml").write_text("mine", encoding="utf-8")
    target = victim if left == ".codex" else victim / "config.toml"
    script = f"import shutil; place = home / {left!r}; shutil.rmtree(place, True); place.unlink(missing_ok=True)\n"
    turn(run, model, f"{script}place.symlink_to({str(target)!r}); submit()")
    turn(run, model, "submit()")

    assert [(file.name, file.read_text(encoding="utf-8")) for file in victim.iterdir()] == [("config.toml", "mine")]
    assert len(run.session.state.submissions) == 2


@needs_bubblewrap
def test_limit_of_the_provider_pauses_a_run(tmp_path: Path) -> None:
    """A run whose model takes no more requests is put down, not scored; it is resumed and its turns don't suffer."""
    script = "assert ask() == 200; submit(); assert ask() == 200; submit()"
    paths = []
    with ScriptedModel() as model:
        model.replies = [Reply(), Reply("the 5-hour limit is reached", 429)]
        with pytest.raises(AgentError, match=r"no more requests for now \(HTTP 429\)[^$]*evopolicygym resume"):
            played_with("codex", scripted_tool(tmp_path, script), model, tmp_path / "runs", max_turns=1)
        (root,) = (file.parent for file in (tmp_path / "runs").rglob("journal.jsonl"))
        before = json.loads((root / "run.json").read_text(encoding="utf-8"))
        state = resume(root, 1, lambda opened, _: paths.append(opened), lambda _event, _state: None)
    after = run_document(paths[0])

    assert (before["stage"], before["outcome"]["score"], before["budget"]["spent"]) == (Stage.OPEN.value, None, 1)
    assert (state.stage, state.turns, state.pauses) == (Stage.FINISHED, 2, 1)
    assert after["outcome"]["score"] is not None
    assert after["usage"]["requests"] == len(model.asked)
    assert key_in(Told(paths[0], state)) == []


@pytest.mark.parametrize(
    ("model_name", "options", "said"),
    [
        ("", {}, "--model NAME"),
        ("m", {"program": "no-such-tool"}, r"npm install -g @openai/codex@0\.\d+"),
        ("m", {"model_wire": "messages"}, "speaks responses, not messages"),
        ("m", {"max_turns": 0}, "max_turns = 0"),
        ("m", {"quiet": 3}, "can't be given quiet = 3"),
        ("m", {"model_url": "", "model_key": "NOT_SET_ANYWHERE"}, "NOT_SET_ANYWHERE, which is not set"),
    ],
)
def test_what_cannot_be_set_up(model_name: str, options: dict[str, Any], said: str) -> None:
    """What is missing or can't be is told before a run begins, with what would work."""
    given = {"program": "python3", "model_url": "http://127.0.0.1:9", **options}
    with pytest.raises(UsageError, match=said):
        make(AgentConfig("codex", model_name, given))
