"""A model server of one's own may be silent for minutes, busy with others, out of memory, or without the model."""

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from evopolicygym.agents.kit.scripted_model.server import Json, Reply, ScriptedModel
from evopolicygym.model_proxy import client_stream
from evopolicygym.model_proxy.client_stream import PULSES
from evopolicygym.model_proxy.failures import ServerFault, classify
from evopolicygym.model_proxy.formats import ApiFormat
from lifeline import PATIENCE_S
from model_proxies import REAL_KEY, SPOKEN, TLS, VARIABLE, OpenDoor, open_door

each_pulsed = pytest.mark.parametrize("wire", list(PULSES))
LONG = {"error": {"code": 400, "message": "too long", "type": "exceed_context_size_error", "n_ctx": 512}}


@pytest.fixture(autouse=True)
def real_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, REAL_KEY)


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenDoor]:
    """A door that gives a sign of life at once."""
    monkeypatch.setattr(client_stream, "PULSE_S", 0.02)
    with open_door(tmp_path) as door:
        yield door


def streamed_until_released(door: OpenDoor, wire: ApiFormat) -> tuple[int, bytes]:
    """Stream an answer of a server that hangs, release it at the second sign of life, and return the whole."""
    spoken, got = SPOKEN[wire], bytearray()
    content, headers = json.dumps(spoken.body | spoken.stream_fields), door.key_header(wire)
    with (
        httpx2.Client(trust_env=False, verify=TLS, timeout=PATIENCE_S) as client,
        client.stream("POST", door.endpoint.address + spoken.path, content=content, headers=headers) as answer,
    ):
        for chunk in answer.iter_bytes():
            got += chunk
            if got.count(PULSES[wire]) > 1:
                door.model.released.set()
        return answer.status_code, bytes(got)


@each_pulsed
@pytest.mark.parametrize("hang", ["before", "between"])
def test_a_silent_stream_shows_signs_of_life(slow: OpenDoor, wire: ApiFormat, hang: str) -> None:
    """A stream is kept alive before its first byte and within it; without those signs it is the server's own."""
    expected = slow.stream(wire).content
    slow.model.replies.append(Reply(hang=hang))
    status, got = streamed_until_released(slow, wire)

    assert status == 200
    assert got.replace(PULSES[wire], b"") == expected.replace(PULSES[wire], b"")
    assert [line["status"] for line in slow.lines()] == [200, 200]
    assert (slow.door.usage().failed, slow.door.usage().unknown) == (0, 0)


def test_who_asked_for_no_stream_gets_none(slow: OpenDoor) -> None:
    """A whole answer is waited for without a byte."""
    slow.model.replies.append(Reply(hang="before"))
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(slow.ask)
        assert slow.model.came.wait(PATIENCE_S)
        with pytest.raises(TimeoutError):
            asked.result(0.1)
        slow.model.released.set()

        assert "choices" in asked.result(PATIENCE_S).json()


@each_pulsed
def test_an_error_after_signs_of_life(slow: OpenDoor, wire: ApiFormat) -> None:
    """An error that comes once the stream has begun is an event of it, and counted as it is."""
    slow.model.replies.append(Reply(status=400, raw=json.dumps(LONG).encode(), hang="before"))
    status, got = streamed_until_released(slow, wire)
    event = json.loads(got.rpartition(b"data: ")[2])
    error = event["response"]["error"] if wire is ApiFormat.RESPONSES else event["error"]
    (line,) = slow.lines()

    assert (status, line["status"], line["note"].partition(":")[0]) == (200, 200, ServerFault.CONTEXT.value)
    assert "too long" in error["message"]
    assert wire is ApiFormat.MESSAGES or error["code"] == "context_length_exceeded"


def test_a_busy_server_is_waited_for(tmp_path: Path) -> None:
    """A server on http that is silent for longer than the limit, and answers others meanwhile, does not hang."""
    with open_door(tmp_path, read_timeout_s=0.05) as door, ThreadPoolExecutor(1) as pool:
        door.model.replies.append(Reply(hang="before"))
        asked = pool.submit(door.ask)
        wait_for_lists(door.model, asked, 2)
        door.model.released.set()

        assert asked.result(PATIENCE_S).status_code == 200
        assert (door.door.usage().requests, door.door.usage().failed) == (1, 0)


def wait_for_lists(model: ScriptedModel, asked: "Future[httpx2.Response]", count: int) -> None:
    """Return once the server was asked so often for its models while a request waits."""
    while sum(request.method == "GET" for request in model.asked) < count:
        model.came.clear()
        assert model.came.wait(PATIENCE_S)
        assert not asked.done()


@pytest.mark.parametrize(
    ("model", "listed", "named"),
    [
        ("qwen2.5-coder", ["llama3.2:3b", "qwen2.5-coder:7b"], ["qwen2.5-coder:7b", "llama3.2:3b"]),
        ("qwen", ["qwen", "other"], []),
        ("qwen", [], []),
        ("qwen", [7, None], []),
    ],
)
def test_a_server_without_the_model_says_which_it_has(
    tmp_path: Path, model: str, listed: list[object], named: list[str]
) -> None:
    """Where a server has not the model, the models that it has are said, the most similar first."""
    page: Json = {"object": "list", "data": [{"id": name} for name in listed]}
    with open_door(tmp_path) as door:
        door.model.pages["/v1/models"] = page
        door.model.replies.append(Reply(status=404, text="model not found"))
        answer = door.ask(model=model)
        trouble = door.door.trouble()

        assert answer.json() == {"error": {"message": "model not found"}}
        assert trouble
        assert (trouble.fault, list(trouble.names)) == (ServerFault.NO_MODEL, named)
        assert all(name in trouble.sentence() for name in named)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (500, "model requires more system memory (5.6 GiB) than is available (3.1 GiB)"),
        (500, "CUDA out of memory. Tried to allocate 2.00 GiB"),
        (500, "llama runner process has terminated: error: failed to allocate buffer for kv cache"),
        (400, "Model loading was stopped due to insufficient system resources."),
    ],
)
def test_a_server_without_memory(status: int, error: str) -> None:
    """Too little memory for a model is said as such, and is not tried for minutes."""
    trouble = classify(status, json.dumps({"error": error}).encode())

    assert (trouble.fault, trouble.rule.retried, trouble.rule.end.pauses) == (ServerFault.NO_MEMORY, False, True)
