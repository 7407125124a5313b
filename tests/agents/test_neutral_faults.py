"""The reference harness before a model server that fails, refuses, hangs or has had enough. Needs bubblewrap."""

import json
import threading
import time

import pytest

from enclosed import command_lines, needs_bubblewrap
from evopolicygym.agents.kit.neutral_harness import provider
from evopolicygym.agents.kit.scripted_model.answers import Reply
from evopolicygym.agents.kit.scripted_model.server import ScriptedModel
from evopolicygym.core.agent import AgentEnd
from evopolicygym.core.errors import AgentError
from evopolicygym.model_proxy.wire import Wire
from fakes import RunMaker
from model_proxies import REAL_KEY, VARIABLE
from neutral_models import calling, told, turn

pytestmark = needs_bubblewrap
ONE = calling(Wire.CHAT, "echo one")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the real key in its variable, and short pauses."""
    monkeypatch.setenv(VARIABLE, REAL_KEY)
    monkeypatch.setattr(provider, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(provider, "LONGEST_PAUSE_S", 0.05)


@pytest.mark.parametrize(
    "fault",
    [
        Reply(status=429, headers={"retry-after": "0"}),
        Reply(status=500),
        Reply(status=529),
        Reply(cut=True),
        Reply(raw=b"no json"),
        Reply(raw=b'{"error": {"message": "overloaded"}}'),
        Reply(raw=b'{"choices": []}'),
    ],
    ids=["429", "500", "529", "cut", "no-json", "error-in-200", "no-choice"],
)
def test_what_passes_is_tried_again(fault: Reply, new_run: RunMaker) -> None:
    """A fault that may pass is no end of the turn; it is counted as failed."""
    with ScriptedModel() as model:
        ended = turn(new_run(), model, fault, fault, ONE)
        seen = told(model)

    assert (ended.end, seen) == (AgentEnd.FINISHED, ["one\n[exit code 0]"])
    assert (ended.usage["requests"], ended.usage["failed"]) == (6, 2)


def test_retry_after_is_kept_to(new_run: RunMaker) -> None:
    """A server that asks for a pause gets it."""
    with ScriptedModel() as model:
        began = time.monotonic()
        turn(new_run(), model, Reply(status=429, headers={"retry-after": "1"}), ONE)

    assert time.monotonic() - began >= 1.0


def test_endless_faults_end_a_turn(new_run: RunMaker) -> None:
    """A server that stays broken is given up; work that was done is counted, and before any the agent can't start."""
    with ScriptedModel() as model:
        ended = turn(new_run("begun"), model, ONE, *[Reply(status=500)] * provider.TRIES)
        begun = len(model.asked)
        with pytest.raises(AgentError, match="8 times in a row: it answered 500"):
            turn(new_run("never"), model, *[Reply(status=500)] * provider.TRIES)

    assert begun == 1 + provider.TRIES
    assert (ended.end, ended.usage["generations"], ended.usage["failed"]) == (AgentEnd.CRASHED, 9, 8)


def test_a_pause_that_is_too_long(new_run: RunMaker) -> None:
    """A server that asks for a longer pause than there is patience is given up at once."""
    with ScriptedModel() as model, pytest.raises(AgentError, match="1 times in a row"):
        turn(new_run(), model, Reply(status=429, headers={"retry-after": "86400"}))


@pytest.mark.parametrize("status", [401, 403, 404])
def test_refusals_are_not_tried_again(status: int, new_run: RunMaker) -> None:
    """A key or a model that isn't taken ends the turn at once, with what to look at; an echoed key is not told."""
    with ScriptedModel() as model, pytest.raises(AgentError, match=f"{status}.*--model") as raised:
        turn(new_run(), model, Reply(status=status, text=f"Incorrect API key provided: {REAL_KEY}"))

    assert len(model.asked) == 1
    assert REAL_KEY not in str(raised.value)


def test_an_echoed_key_is_not_kept(new_run: RunMaker) -> None:
    """A server that says the key in an answer puts it neither into the transcript nor back into the conversation."""
    run = new_run()
    with ScriptedModel() as model:
        turn(run, model, Reply(text=f"Your key is {REAL_KEY}."), ONE)
        sent = json.dumps([asked.body for asked in model.asked])

    assert "Your key is ***" in run.paths.transcript.read_text(encoding="utf-8")
    assert REAL_KEY not in run.paths.transcript.read_text(encoding="utf-8") + sent


def test_a_spent_account_is_not_tried_again(new_run: RunMaker) -> None:
    """An account without money is no passing fault."""
    with ScriptedModel() as model:
        body = json.dumps({"error": {"code": "insufficient_quota"}}).encode()
        ended = turn(new_run(), model, ONE, Reply(status=429, raw=body))

    assert (ended.end, len(model.asked)) == (AgentEnd.CRASHED, 2)


@pytest.mark.parametrize(
    ("wire", "words"),
    [
        (Wire.CHAT, "This model's maximum context length is 128000 tokens. However, you requested 200000 tokens"),
        (Wire.MESSAGES, "prompt is too long: 210000 tokens > 200000 maximum"),
    ],
)
def test_a_conversation_that_is_too_long(wire: Wire, words: str, new_run: RunMaker) -> None:
    """A conversation that outgrows the model ends the turn as finished, and that is told."""
    with ScriptedModel() as model:
        ended = turn(new_run(), model, calling(wire, "true"), Reply(status=400, text=words), wire=wire)

    assert ended.end is AgentEnd.FINISHED
    assert "outgrew" in ended.message


def test_stop_while_the_model_hangs(new_run: RunMaker) -> None:
    """An agent that waits for its model leaves when it is asked to, and so does its request."""
    stop = threading.Event()
    with ScriptedModel() as model:
        threading.Thread(target=lambda: (model.came.wait(30), stop.set()), daemon=True).start()
        ended = turn(new_run(), model, Reply(hang="before"), stop=stop)

        assert model.left.wait(10)
    assert ended.end is AgentEnd.STOPPED
    assert ended.usage["unknown"] == 1


def test_stop_while_a_command_runs(new_run: RunMaker) -> None:
    """An agent whose command runs leaves when it is asked to, and nothing of the command is left."""
    run, stop = new_run(), threading.Event()

    def watch() -> None:
        while not (run.paths.system / "begun").exists() and not stop.wait(0.02):
            pass
        stop.set()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    with ScriptedModel() as model:
        began = time.monotonic()
        ended = turn(run, model, calling(Wire.CHAT, "touch system/begun; setsid sleep 4321 & sleep 1234"), stop=stop)
    thread.join(30)

    assert ended.end is AgentEnd.STOPPED
    assert time.monotonic() - began < 60
    assert "sleep 4321" not in command_lines()
