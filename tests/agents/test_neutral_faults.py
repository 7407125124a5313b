"""The reference harness before a model server that fails, refuses, hangs or has had enough."""

import json
from functools import partial
from threading import Event, Thread

import pytest

import neutral_models
from enclosed import needs_bubblewrap
from evopolicygym.agents.kit.neutral_harness import model_client
from evopolicygym.agents.kit.scripted_model.server import Reply, ScriptedModel
from evopolicygym.core.agent import AgentEnd
from evopolicygym.core.errors import AgentError
from evopolicygym.model_proxy.formats import ApiFormat
from fakes import RunMaker
from lifeline import PATIENCE_S, Lifeline
from model_proxies import REAL_KEY, VARIABLE
from neutral_models import calling, told

ONE = calling(ApiFormat.CHAT, "echo one")
turn = partial(neutral_models.turn, level="none")
"""What a server does is the same at every level."""
PASSING = [
    Reply(status=429, headers={"retry-after": "0"}),
    Reply(status=500),
    Reply(status=529),
    Reply(cut=True),
    Reply(raw=b"no json"),
    Reply(raw=b'{"error": {"message": "overloaded"}}'),
    Reply(raw=b'{"choices": []}'),
]


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Have the real key in its variable; return the pauses that were due, none of which is made."""
    monkeypatch.setenv(VARIABLE, REAL_KEY)
    made: list[float] = []
    monkeypatch.setattr(model_client, "_wait", lambda seconds, _pause: made.append(seconds))
    return made


def test_what_passes_is_tried_again(new_run: RunMaker) -> None:
    """A fault that may pass is no end of the turn, and is counted as failed."""
    with ScriptedModel() as model:
        ended = turn(new_run(), model, *[reply for fault in PASSING for reply in (fault, fault, ONE)])
        seen = told(model)

    assert (ended.end, seen) == (AgentEnd.GAVE_UP, ["one\n[exit code 0]"] * len(PASSING))
    assert (ended.usage["requests"], ended.usage["failed"]) == (3 * len(PASSING) + 3, 2 * len(PASSING))


def test_pauses_between_tries(new_run: RunMaker, pauses: list[float]) -> None:
    """A server that asks for a pause gets it; before one that doesn't, each pause is twice the one before."""
    with ScriptedModel() as model:
        turn(new_run(), model, Reply(status=429, headers={"retry-after": "7"}), *[Reply(status=500)] * 3, ONE)

    assert pauses == [7.0, *(model_client.FIRST_PAUSE_S * 2**attempt for attempt in (1, 2, 3))]


def test_endless_faults_end_a_turn(new_run: RunMaker) -> None:
    """A server that stays broken pauses the run, with its usage, whether it had answered before or not."""
    with ScriptedModel() as model:
        ended = turn(new_run("begun"), model, ONE, *[Reply(status=500)] * model_client.TRIES)
        begun = len(model.asked)
        never = turn(new_run("never"), model, *[Reply(status=500)] * model_client.TRIES)

    assert begun == 1 + model_client.TRIES
    assert (never.end, f"{model_client.TRIES} times" in never.message) == (AgentEnd.UNAVAILABLE, True)
    assert (ended.end, ended.usage["generations"], ended.usage["failed"]) == (AgentEnd.UNAVAILABLE, 9, 8)


def test_a_pause_that_is_too_long(new_run: RunMaker) -> None:
    """A server that asks for a longer pause than there is patience is given up at once."""
    with ScriptedModel() as model:
        ended = turn(new_run(), model, Reply(status=429, headers={"retry-after": "86400"}))

    assert (ended.end, len(model.asked)) == (AgentEnd.LIMITED, 1)


@pytest.mark.parametrize(
    ("status", "end", "asked"),
    [(401, AgentEnd.UNAUTHORIZED, 1), (403, AgentEnd.UNAUTHORIZED, 1), (404, AgentEnd.UNAVAILABLE, 2)],
)
def test_refusals_are_not_tried_again(status: int, end: AgentEnd, asked: int, new_run: RunMaker) -> None:
    """A key or a model that isn't taken pauses the run at once, with what to look at; an echoed key is not told.

    A server without the model is asked once more, for the names that it has.
    """
    with ScriptedModel() as model:
        ended = turn(new_run(), model, Reply(status=status, text=f"It is not taken: {REAL_KEY}"))

    assert (ended.end, len(model.asked)) == (end, asked)
    assert (f"{status}" in ended.message, "--model" in ended.message) == (True, True)
    assert REAL_KEY not in ended.message


def test_a_request_that_is_at_fault_by_the_server_s_word(new_run: RunMaker) -> None:
    """An invalid request is the agent's where the server says so, and pauses the run where it says nothing."""
    words = json.dumps({"error": {"type": "invalid_request_error", "message": "temperature: must be below 2"}}).encode()
    with ScriptedModel() as model:
        invalid = turn(new_run("invalid"), model, ONE, Reply(status=400, raw=words))
        unclear = turn(new_run("unclear"), model, ONE, Reply(status=400, raw=b"Bad Request"))
        with pytest.raises(AgentError, match="temperature"):  # it never worked, so that nothing is scored
            turn(new_run("never"), model, Reply(status=400, raw=words))

    assert (invalid.end, unclear.end) == (AgentEnd.CRASHED, AgentEnd.UNAVAILABLE)


def test_an_echoed_key_is_not_kept(new_run: RunMaker) -> None:
    """A server that says the key in an answer puts it neither into the transcript nor back into the conversation."""
    run = new_run()
    with ScriptedModel() as model:
        turn(run, model, Reply(text=f"Your key is {REAL_KEY}."), ONE)
        sent = json.dumps([asked.body for asked in model.asked])

    assert "Your key is ***" in run.paths.transcript.read_text(encoding="utf-8")
    assert REAL_KEY not in run.paths.transcript.read_text(encoding="utf-8") + sent


def test_a_spent_account_is_not_tried_again(new_run: RunMaker) -> None:
    """An account without money pauses the run at once."""
    with ScriptedModel() as model:
        body = json.dumps({"error": {"code": "insufficient_quota"}}).encode()
        ended = turn(new_run(), model, ONE, Reply(status=429, raw=body))

    assert (ended.end, len(model.asked)) == (AgentEnd.LIMITED, 2)


@pytest.mark.parametrize(
    ("wire", "words"),
    [
        (ApiFormat.CHAT, "This model's maximum context length is 128000 tokens. However, you requested 200000 tokens"),
        (ApiFormat.MESSAGES, "prompt is too long: 210000 tokens > 200000 maximum"),
    ],
)
def test_a_conversation_that_is_too_long(wire: ApiFormat, words: str, new_run: RunMaker) -> None:
    """A conversation that outgrows the model ends the turn at once, and that is told."""
    with ScriptedModel() as model:
        ended = turn(new_run(), model, calling(wire, "true"), Reply(status=400, text=words), wire=wire)

    assert (ended.end, bool(ended.message)) == (AgentEnd.CONTEXT_EXCEEDED, True)


def test_stop_while_the_model_hangs(new_run: RunMaker) -> None:
    """An agent that waits for its model leaves when it is asked to, and so does its request."""
    stop = Event()
    with ScriptedModel() as model:
        Thread(target=lambda: (model.came.wait(PATIENCE_S), stop.set()), daemon=True).start()
        ended = turn(new_run(), model, Reply(hang="before"), stop=stop)

        assert model.left.wait(PATIENCE_S)
    assert ended.end is AgentEnd.STOPPED
    assert ended.usage["unknown"] == 1


@needs_bubblewrap
def test_stop_while_a_command_runs(new_run: RunMaker) -> None:
    """An agent whose command runs leaves when it is asked to, and nothing of the command is left."""
    run, stop = new_run(), Event()
    command = calling(ApiFormat.CHAT, "exec > lifeline; echo started; setsid sleep 600 & sleep 600")
    with ScriptedModel() as model, Lifeline(run.paths.workspace / "lifeline") as lifeline:
        Thread(target=lambda: (lifeline.wait_for_line(), stop.set()), daemon=True).start()
        ended = turn(run, model, command, stop=stop, level="bubblewrap")

        assert ended.end is AgentEnd.STOPPED
        lifeline.wait_for_end()
