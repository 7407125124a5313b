"""Large bodies: bounded one by one and all together, and looked into while others are served."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.agents.kit.scripted_model.server import Reply
from evopolicygym.model_proxy import endpoint
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.request import MAX_PARTS
from evopolicygym.model_proxy.upstream import ModelUpstream
from lifeline import PATIENCE_S
from model_proxies import REAL_KEY, SPOKEN, VARIABLE, OpenDoor, open_door, wait_for_requests

LARGE = [{"role": "user", "content": "a" * endpoint.LARGE}]


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenDoor]:
    """A door with the limits that ship."""
    monkeypatch.setenv(VARIABLE, REAL_KEY)
    with open_door(tmp_path) as opened:
        yield opened


def test_a_body_of_30_mib_is_refused(door: OpenDoor) -> None:
    """What is larger than any conversation is not read."""
    assert ModelUpstream("http://127.0.0.1:9").max_body_bytes < 30 << 20
    with door.connect() as connection:
        head = f"Host: 127.0.0.1\r\nx-api-key: {door.endpoint.key}\r\nContent-Length: {30 << 20}\r\n\r\n"
        connection.sendall(f"POST /v1/messages HTTP/1.1\r\n{head}".encode())
        assert connection.recv(12) == b"HTTP/1.1 413"


@pytest.mark.parametrize("part", [b"[],", b"{},", b"0,", b'"a",'])
def test_a_body_of_many_small_values_is_refused(part: bytes, door: OpenDoor) -> None:
    """Each value takes many times the memory of its text, so there may be only so many."""
    body = b'{"a": [' + part * MAX_PARTS + b"0]}"

    assert door.request("POST", "/v1/chat/completions", body).status_code == 413
    assert door.model.asked == []


def test_others_are_served_while_a_large_body_is_looked_into(door: OpenDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking into one body takes as long as it takes, and holds up nobody."""
    looking, served, parse = threading.Event(), threading.Event(), endpoint.parse

    def slow(body: bytes) -> dict[str, Any]:
        if len(body) > endpoint.LARGE:
            looking.set()
            assert served.wait(PATIENCE_S)
        return parse(body)

    monkeypatch.setattr(endpoint, "parse", slow)
    with ThreadPoolExecutor(1) as pool:
        large = pool.submit(door.ask, ApiFormat.CHAT, messages=LARGE)
        assert looking.wait(PATIENCE_S)
        assert door.ask(ApiFormat.CHAT).status_code == 200
        served.set()
        assert large.result().status_code == 200


def test_bodies_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies that wait to be sent share one room; once the server has answered, there is room again."""
    monkeypatch.setenv(VARIABLE, REAL_KEY)
    monkeypatch.setattr(endpoint, "MAX_BUFFERED", 3 * endpoint.LARGE // 2)
    with open_door(tmp_path) as door, ThreadPoolExecutor(2) as pool:
        door.model.replies += [Reply(hang="before")]
        first = pool.submit(door.ask, ApiFormat.CHAT, messages=LARGE)
        wait_for_requests(door.model, 1)
        assert door.ask(ApiFormat.CHAT, messages=LARGE).status_code == 503
        assert door.ask(ApiFormat.CHAT).status_code == 200
        door.model.released.set()
        assert first.result().status_code == 200
        assert door.ask(ApiFormat.CHAT, messages=LARGE).status_code == 200


def test_a_body_is_let_go_of_while_its_answer_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long answer doesn't keep the body of its request."""
    monkeypatch.setenv(VARIABLE, REAL_KEY)
    monkeypatch.setattr(endpoint, "MAX_BUFFERED", 3 * endpoint.LARGE // 2)
    with open_door(tmp_path) as door:
        door.model.replies.append(Reply(hang="between"))
        body = json.dumps(SPOKEN[ApiFormat.CHAT].body | {"messages": LARGE, "stream": True}).encode()
        head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {door.endpoint.key}\r\nContent-Length: {len(body)}\r\n\r\n"
        with door.connect() as connection:
            connection.sendall(f"POST /v1/chat/completions HTTP/1.1\r\n{head}".encode() + body)
            assert connection.recv(12) == b"HTTP/1.1 200"
            assert door.ask(ApiFormat.CHAT, messages=LARGE).status_code == 200


def test_a_large_body_comes_as_it_was_sent(door: OpenDoor) -> None:
    """It goes on in pieces, with its length."""
    door.ask(ApiFormat.CHAT, messages=LARGE)
    asked = door.only()

    assert asked.body["messages"] == LARGE
    assert int(asked.headers["content-length"]) > endpoint.LARGE
    assert "transfer-encoding" not in asked.headers


def test_a_key_in_a_models_name_is_not_logged(door: OpenDoor) -> None:
    """What an answer calls its model goes into the log without the key."""
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in REAL_KEY)
    door.model.replies.append(Reply(raw=f'{{"model": "{escaped}", "choices": []}}'.encode()))
    answer = door.ask(ApiFormat.CHAT)

    assert REAL_KEY not in json.dumps(answer.json()) + json.dumps(door.lines())
    assert door.lines()[0]["answered_by"].startswith("***")
