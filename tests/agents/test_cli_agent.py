"""What all command-line tools share: how each end of a call is told, the home and the conversation that outlive it."""

import json
from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from enclosed import needs_bubblewrap
from evopolicygym.agents.base import make
from evopolicygym.agents.builtin.codex import Codex
from evopolicygym.agents.kit import program, tool
from evopolicygym.agents.kit.scripted_model.server import INPUT, OUTPUT, Reply, ScriptedModel
from evopolicygym.core.agent import AgentConfig, AgentEnd
from evopolicygym.core.errors import AgentError, UsageError
from evopolicygym.core.event import AgentEnded
from evopolicygym.core.run import Stage
from evopolicygym.core.strict_json import dumps
from evopolicygym.records.journal import decode_event, encode_event
from evopolicygym.records.run_document import run_document
from evopolicygym.runs.run import resume
from fakes import TIME, OpenRun, RunMaker
from model_proxies import REAL_KEY
from scripted_tools import program as scripted_tool
from scripted_tools import turn
from tool_runs import key_in, played_with
from whole_runs import Told

pytestmark = pytest.mark.usefixtures("real_key")
MOST_GROWTH_KB = 64 << 10
"""By which the memory of the process that hears a flood may grow: a tenth of what a whole one would be."""
FAR_S = tool.QUIET_S * 0.7
"""By which a clock jumps at each look: at the second look without progress a tool has been quiet for too long."""


@pytest.fixture
def run(new_run: RunMaker) -> OpenRun:
    """Return an open run whose workspace is laid out."""
    return new_run()


class JumpingClock:
    """A clock that is right until something has happened, and then jumps ahead whenever somebody looks at it."""

    def __init__(self, happened: Callable[[], bool]) -> None:
        self._happened, self._ahead = happened, 0.0

    def __call__(self) -> float:
        """Return the time."""
        self._ahead += FAR_S * self._happened()
        return monotonic() + self._ahead


@pytest.mark.parametrize(
    ("status", "end"),
    [
        (500, AgentEnd.UNAVAILABLE), (529, AgentEnd.UNAVAILABLE), (404, AgentEnd.UNAVAILABLE),
        (401, AgentEnd.UNAUTHORIZED), (403, AgentEnd.UNAUTHORIZED),
        (429, AgentEnd.LIMITED), (402, AgentEnd.LIMITED), (413, AgentEnd.CONTEXT_EXCEEDED),
    ],
)  # fmt: skip
def test_how_a_model_fails(status: int, end: AgentEnd, run: OpenRun, model: ScriptedModel) -> None:
    """The end of a tool whose model's server only fails is told apart by how that fails."""
    model.replies = [Reply("no", status)] * 2
    ended = turn(run, model, "ask(); sys.exit(1)")

    assert (ended.end, str(status) in ended.message) == (end, True)


def test_model_that_fails_for_ever(run: OpenRun, model: ScriptedModel) -> None:
    """A tool that ends because its model's server only fails is no tool that crashed; submissions stay."""
    model.replies = [Reply(), *[Reply("no", 500)] * 9]
    ended = turn(run, model, "ask(); submit(); [ask() for _ in range(3)]; sys.exit(1)")

    assert (ended.end, "500" in ended.message) == (AgentEnd.UNAVAILABLE, True)
    assert len(run.session.state.submissions) == 1
    assert (ended.usage["failed"], ended.usage["input"]) == (3, INPUT)


def test_model_that_fails_once(run: OpenRun, model: ScriptedModel) -> None:
    """A passing 429 that the tool itself gets over is no end."""
    model.replies = [Reply("later", 429)]
    ended = turn(run, model, "while ask() != 200: time.sleep(0.05)\nsubmit()")

    assert (ended.end, ended.usage["failed"], ended.usage["output"]) == (AgentEnd.FINISHED, 1, OUTPUT)


def test_tool_that_asks_for_ever(run: OpenRun, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that asks a failing server again and again, and says so, is ended; it is the server that failed."""
    model.replies = [Reply("broken", 500)] * 10_000
    monkeypatch.setattr(tool, "monotonic", JumpingClock(lambda: len(model.asked) > 2))
    ended = turn(run, model, "while True: ask(); tell(type='error', message='once more'); time.sleep(0.05)")

    assert (ended.end, "500" in ended.message) == (AgentEnd.UNAVAILABLE, True)


def test_tool_that_hangs(run: OpenRun, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool in which nothing moves is ended; what it had submitted stays."""
    monkeypatch.setattr(tool, "monotonic", JumpingClock(lambda: bool(run.session.state.submissions)))
    ended = turn(run, model, "ask(); submit(); time.sleep(600)")

    assert (ended.end, f"{tool.QUIET_S} s" in ended.message) == (AgentEnd.HUNG, True)
    assert len(run.session.state.submissions) == 1


def test_what_is_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a tool prints while its model answers, answers, and what the judge counts are progress; all else is none."""
    time, usage = [0.0], SimpleNamespace(requests=0, failed=0)
    judge = SimpleNamespace(submissions=lambda: {"submissions": count[0]})
    trouble, count = [None], ["0"]
    model = SimpleNamespace(usage=lambda: usage, trouble=lambda: trouble[0], is_waiting=False)
    monkeypatch.setattr(tool, "monotonic", lambda: time[0])
    listener = tool.Listener(Codex(), tmp_path / "conversation.json")
    first = judge.submissions()
    watch = tool.StallWatch(listener, model, judge, 10.0, _since=0.0, _submissions=first)  # type: ignore[arg-type]

    def after(seconds: float) -> bool:
        time[0] += seconds
        return bool(watch.stall())

    assert not after(9)
    listener.feed(b"something\n")
    assert [after(9), after(9)] == [False, False]
    usage.requests += 1
    assert [after(9), after(9)] == [False, False]
    count[0] = "1"
    assert [after(2), after(9)] == [False, False]
    trouble[0] = 500  # type: ignore[call-overload]
    usage.requests, usage.failed = 2, 1
    listener.feed(b"once more\n")
    model.is_waiting = True
    assert [after(99), after(99)] == [False, False]
    model.is_waiting = False
    assert after(11)


@pytest.mark.nightly
def test_tool_that_moves_is_not_ended(run: OpenRun, model: ScriptedModel) -> None:
    """What a tool prints, while its model answers, is progress."""
    script = "ask()\nfor _ in range(8): time.sleep(0.4); tell(type='turn.started')\nsubmit()"
    ended = turn(run, model, script, quiet_s=2)

    assert ended.end is AgentEnd.FINISHED


def test_tool_that_crashes(run: OpenRun, model: ScriptedModel) -> None:
    """A tool that dies in the middle has crashed; what it had submitted stays."""
    ended = turn(run, model, "ask(); submit(); os.kill(os.getpid(), 11)")

    assert ended.end is AgentEnd.CRASHED
    assert len(run.session.state.submissions) == 1


def test_tool_that_gives_up(run: OpenRun, model: ScriptedModel) -> None:
    """A tool that ends well, with budget left and nothing submitted, gave up; its last word is told."""
    said = "tell(type='item.completed', item={'type': 'agent_message', 'text': 'That is all.'})"
    ended = turn(run, model, f"ask(); {said}")

    assert (ended.end, ended.message) == (AgentEnd.GAVE_UP, "That is all.")


def assert_flood_is_survived(
    mebibytes: int, run: OpenRun, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "OUTPUT_BYTES", 100_000)
    flood = f"submit()\nfor _ in range({mebibytes}): os.write(1, b'{{' * (1 << 20))\nprint()\n"
    ended = turn(run, model, f"{flood}tell(type='turn.failed', error={{'message': 'x'}})\nsys.exit(1)")

    assert (ended.end, ended.message) == (AgentEnd.CRASHED, "x")
    assert run.paths.transcript.stat().st_size < 101_000
    assert len(run.session.state.submissions) == 1


def test_flood(run: OpenRun, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood without a line's end doesn't fill the transcript; what comes after it is heard."""
    assert_flood_is_survived(2 * tool.LINE_BYTES >> 20, run, model, monkeypatch)


def test_a_flood_is_not_kept(tmp_path: Path) -> None:
    """Of a line without an end no more is kept than a line may have, and the line after it is read."""
    listener = tool.Listener(Codex(), tmp_path / "conversation.json")
    for _ in range(3 * tool.LINE_BYTES >> 20):
        listener.feed(b"{" * (1 << 20))
        assert len(listener._line) <= tool.LINE_BYTES
    listener.feed(b'\n{"type": "thread.started", "thread_id": "one"}\n')

    assert listener.conversation == "one"


@pytest.mark.nightly
@pytest.mark.parametrize("mebibytes", [64, 1024])
def test_flood_and_memory(mebibytes: int, run: OpenRun, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood without a line's end doesn't fill the memory of the process that hears it."""
    before = getrusage(RUSAGE_SELF).ru_maxrss
    assert_flood_is_survived(mebibytes, run, model, monkeypatch)

    assert getrusage(RUSAGE_SELF).ru_maxrss - before < MOST_GROWTH_KB


@pytest.mark.parametrize("level", [pytest.param("process", marks=pytest.mark.nightly), "none"])
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
    listener = tool.Listener(Codex(), tmp_path / "conversation.json")
    listener.feed(line + b"\n" + b'{"type": "thread.sta')
    listener.feed(b'rted", "thread_id": "one"}\n')

    assert listener.conversation == "one"


@pytest.mark.parametrize("amount", ["1" + "0" * 400, "-1", "NaN", "1e999", "9007199254740992"])
def test_usage_that_no_record_could_hold(amount: str, tmp_path: Path) -> None:
    """A number of tokens that can't be is passed over, so that no tool spoils its run's journal with one."""
    listener = tool.Listener(Codex(), tmp_path / "conversation.json")
    said = '{"type": "turn.completed", "usage": {"input_tokens": %s, "output_tokens": 9}}\n'
    listener.feed((said % 7 + said % amount).encode())
    ended = AgentEnded(TIME, 0, "finished", tool_usage=listener.call_usage())

    assert decode_event(json.loads(dumps(encode_event(ended)))) == ended
    assert listener.call_usage()["input"] == 7


def test_usage_of_a_conversation_that_begins_anew(tmp_path: Path) -> None:
    """A tool that goes on in another conversation than it was told counts from there, and nothing is taken off."""
    told = ('{"type": "thread.started", "thread_id": "%s"}\n{"type": "turn.completed", "usage": {"input_tokens": %d, '
            '"output_tokens": 9}}\n')  # fmt: skip
    used = []
    for name, amount in (("one", 700), ("one", 900), ("other", 50)):
        listener = tool.Listener(Codex(), tmp_path / "conversation.json")
        listener.load()
        listener.feed((told % (name, amount)).encode())
        used.append(listener.call_usage()["input"])
        listener.save()

    assert used == [700, 200, 50]


@pytest.mark.parametrize("name", ["--last", "../x", "a b", "x" * 200, ""])
def test_names_of_conversations(name: str, tmp_path: Path) -> None:
    """A conversation's name that could be an option or a path is none."""
    listener = tool.Listener(Codex(), tmp_path / "conversation.json")
    listener.feed(json.dumps({"type": "thread.started", "thread_id": name}).encode() + b"\n")

    assert (listener.conversation, listener.state_file.exists()) == ("", False)


@needs_bubblewrap
def test_home_and_conversation_outlive_a_turn(run: OpenRun, model: ScriptedModel) -> None:
    """The next call finds the home as it was left, and is told which conversation is to go on and what is left."""
    script = "left = home / 'left'; tell(seen=left.exists(), said=sys.argv[2:]); left.touch(); submit()"
    for _ in range(2):
        turn(run, model, script, level="bubblewrap")
    lines = [json.loads(line) for line in run.paths.transcript.read_text().splitlines() if line.startswith('{"seen')]

    assert [line["seen"] for line in lines] == [False, True]
    assert "AGENTS.md" in lines[0]["said"][-1]
    assert lines[1]["said"][-3:-1] == ["resume", "thread-1"]
    assert f"{run.session.state.budget - 1} episodes" in lines[1]["said"][-1]


def test_conversation_that_cannot_go_on(run: OpenRun, model: ScriptedModel) -> None:
    """Where a conversation can't even be resumed, the call after begins a new one."""
    script = "tell(resumed=resumed)\nif resumed: sys.exit('no such conversation')\nask(); submit()"
    ends = [turn(run, model, script).end for _ in range(3)]
    lines = [json.loads(line) for line in run.paths.transcript.read_text().splitlines() if "resumed" in line]

    assert ends == [AgentEnd.FINISHED, AgentEnd.CRASHED, AgentEnd.FINISHED]
    assert [line["resumed"] for line in lines] == [False, True, False]


def test_home_is_bounded(run: OpenRun, model: ScriptedModel) -> None:
    """A tool whose home grows over the limit is ended."""
    script = "(home / 'large').write_bytes(bytes(24 << 20)); time.sleep(600)"
    ended = turn(run, model, script, scratch_mb=16)

    assert (ended.end, "16 MiB" in ended.message) == (AgentEnd.CRASHED, True)


@pytest.mark.parametrize("left", [".codex", ".codex/config.toml"])
def test_links_left_in_the_home(left: str, tmp_path: Path) -> None:
    """Links that a tool leaves where its settings go lead nobody out of the home."""
    victim, home = tmp_path / "victim", tmp_path / "home"
    victim.mkdir()
    (victim / "config.toml").write_text("mine", encoding="utf-8")
    (home / left).parent.mkdir(parents=True)
    (home / left).symlink_to(victim if left == ".codex" else victim / "config.toml")
    tool._write_into_home(home, ".codex/config.toml", "ours")

    assert [(file.name, file.read_text(encoding="utf-8")) for file in victim.iterdir()] == [("config.toml", "mine")]
    assert (home / ".codex/config.toml").read_text(encoding="utf-8") == "ours"
    assert not (home / ".codex").is_symlink()


def test_limit_of_the_provider_pauses_a_run(tmp_path: Path) -> None:
    """A run whose model takes no more requests is put down, not scored; it is resumed and its turns don't suffer."""
    script = "assert ask() == 200; submit(); assert ask() == 200; submit()"
    paths = []
    with ScriptedModel() as model:
        model.replies = [Reply(), Reply("the 5-hour limit is reached", 429)]
        with pytest.raises(AgentError, match=r"(?s)HTTP 429.*evopolicygym resume"):
            played_with("codex", scripted_tool(tmp_path, script), model, tmp_path / "runs", "none", max_turns=1)
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
        ("m", {"model_wire": "messages"}, "responses.* messages"),
        ("m", {"max_turns": 0}, "max_turns"),
        ("m", {"quiet": 3}, "quiet"),
        ("m", {"model_url": "", "model_key": "NOT_SET_ANYWHERE"}, "NOT_SET_ANYWHERE"),
    ],
)
def test_what_cannot_be_set_up(model_name: str, options: dict[str, Any], said: str) -> None:
    """What is missing or can't be is told before a run begins, with what would work."""
    given = {"program": "python3", "model_url": "http://127.0.0.1:9", **options}
    with pytest.raises(UsageError, match=said):
        make(AgentConfig("codex", model_name, given))
