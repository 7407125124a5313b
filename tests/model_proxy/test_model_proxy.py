"""The model's door, over real HTTP: what passes, in both directions and in four formats, and how it is counted."""

import json
import logging
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from evopolicygym.agents.kit.scripted_model.server import CACHED, INPUT, OUTPUT, REASONING, Reply, answer_pieces
from evopolicygym.core.errors import MissingExtra, UsageError
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.forward import LOGGERS
from evopolicygym.model_proxy.proxy import ModelProxy
from evopolicygym.model_proxy.upstream import ModelUpstream
from evopolicygym.model_proxy.usage import ModelUsage
from lifeline import PATIENCE_S
from model_proxies import REAL_KEY, SPOKEN, TLS, VARIABLE, OpenDoor, open_door, wait_for_requests

WIRES = list(SPOKEN)
each_wire = pytest.mark.parametrize("wire", WIRES)


@pytest.fixture(autouse=True)
def real_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, REAL_KEY)


@pytest.fixture
def door(tmp_path: Path) -> Iterator[OpenDoor]:
    with open_door(tmp_path) as opened:
        yield opened


def sent(wire: ApiFormat, *, streamed: bool) -> bytes:
    """Return what the model server sends in a format."""
    spoken = SPOKEN[wire]
    body = spoken.body | (spoken.stream_fields if streamed else {})
    path = (streamed and spoken.stream_path) or spoken.path
    return b"".join(answer_pieces(path.partition("?")[0], body, Reply()))


# Out and back


@each_wire
def test_an_answer_comes_back_as_it_was_sent(door: OpenDoor, wire: ApiFormat) -> None:
    """Path, query, body and answer pass unchanged in every format."""
    answer = door.ask(wire)

    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.content == sent(wire, streamed=False)
    assert (door.only().method, door.only().target, door.only().body) == ("POST", SPOKEN[wire].path, SPOKEN[wire].body)


@each_wire
def test_a_stream_comes_back_as_it_was_sent(door: OpenDoor, wire: ApiFormat) -> None:
    """A stream of events passes byte for byte, and so does the query that asks for it."""
    answer = door.stream(wire)

    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.content == sent(wire, streamed=True)
    assert door.only().target == (SPOKEN[wire].stream_path or SPOKEN[wire].path)


@each_wire
def test_a_stream_is_not_held_back(door: OpenDoor, wire: ApiFormat) -> None:
    """The first event arrives while the model server has not yet sent the second."""
    door.model.replies.append(Reply(hang="between"))
    spoken = SPOKEN[wire]
    with (
        httpx2.Client(trust_env=False, verify=TLS, timeout=PATIENCE_S) as client,
        client.stream(
            "POST",
            door.endpoint.address + (spoken.stream_path or spoken.path),
            json=spoken.body | spoken.stream_fields,
            headers=door.key_header(wire),
        ) as answer,
    ):
        chunks = answer.iter_raw()
        first = next(chunks)
        door.model.released.set()
        rest = b"".join(chunks)

    assert first.endswith(b"\n\n")
    assert first + rest == sent(wire, streamed=True)


def test_a_path_of_the_upstream_is_kept(tmp_path: Path) -> None:
    """Requests go below the path that base_url names, and a query is passed on without the key."""
    with open_door(tmp_path, "/api/coding/", wire=ApiFormat.CHAT) as door:
        door.request("GET", f"/models?limit=5&key={door.endpoint.key}", headers={})

        assert door.only().target == "/api/coding/models?limit=5"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"),
        ("GET", "/v1/models/a-model"),
        ("GET", "/v1beta/models"),
        ("POST", "/v1/messages/count_tokens"),
        ("POST", "/v1/responses/input_tokens"),
        ("POST", "/v1beta/models/scripted:countTokens"),
    ],
)
def test_listing_and_counting_pass(door: OpenDoor, method: str, path: str) -> None:
    """Models can be listed and tokens counted, and neither is counted as a generation."""
    answer = door.request(method, path, {} if method == "POST" else None)

    assert (answer.status_code, door.only().target) == (200, path)
    assert (door.door.usage().requests, door.door.usage().generations, door.door.usage().unknown) == (1, 0, 0)


def test_who_leaves_is_not_answered_any_more(door: OpenDoor) -> None:
    """A client that leaves before the answer, or within it, has the request at the model server ended too."""
    body = json.dumps(SPOKEN[ApiFormat.MESSAGES].body | {"stream": True}).encode()
    head = f"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nx-api-key: {door.endpoint.key}\r\n"
    for count, hang in enumerate(("before", "between"), 1):
        door.model.left.clear()
        door.model.replies.append(Reply(hang=hang))
        with door.connect() as connection:
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            wait_for_requests(door.model, count)
            if hang == "between":
                assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")

        assert door.model.left.wait(PATIENCE_S), hang


# Keys and headers


@each_wire
@pytest.mark.parametrize("streamed", [False, True])
def test_the_real_key_goes_in_where_the_dummy_was(door: OpenDoor, wire: ApiFormat, streamed: bool) -> None:  # noqa: FBT001
    """The model server gets the real key in its format's place, and the dummy nowhere."""
    (door.stream if streamed else door.ask)(wire)
    scheme = SPOKEN[wire].scheme

    assert door.only().headers[scheme] == (f"Bearer {REAL_KEY}" if scheme == "authorization" else REAL_KEY)
    assert door.endpoint.key not in str(door.only())


def test_a_key_in_the_query_goes_on_as_a_header(door: OpenDoor) -> None:
    """Gemini's ?key= is taken, and the real key stands in no address."""
    spoken = SPOKEN[ApiFormat.GEMINI]
    answer = door.request("POST", f"{spoken.path}?key={door.endpoint.key}", spoken.body, headers={})

    assert answer.status_code == 200
    assert (door.only().target, door.only().headers["x-goog-api-key"]) == (spoken.path, REAL_KEY)


def test_a_messages_server_with_bearer_keys(door: OpenDoor) -> None:
    """Who presents the dummy to an Anthropic path as a bearer token gets the real key in the same way."""
    spoken = SPOKEN[ApiFormat.MESSAGES]
    door.request("POST", spoken.path, spoken.body)

    assert door.only().headers["authorization"] == f"Bearer {REAL_KEY}"
    assert "x-api-key" not in door.only().headers


def test_only_headers_that_mean_something_go_out(door: OpenDoor) -> None:
    """Cookies, what names a host or an account, and what concerns one connection are not passed on."""
    unwanted = {
        "cookie": "a=b",
        "forwarded": "host=example.org",
        "x-forwarded-host": "example.org",
        "x-http-method-override": "DELETE",
        "openai-organization": "org-1",
        "x-goog-user-project": "other",
        "te": "trailers",
        "proxy-authorization": "Basic eA==",
        "referer": "http://example.org",
    }
    wanted = {"anthropic-version": "2023-06-01", "user-agent": "tool/1", "x-stainless-lang": "js"}
    headers = unwanted | wanted | door.key_header(ApiFormat.CHAT)
    door.request("POST", "/v1/chat/completions", SPOKEN[ApiFormat.CHAT].body, headers=headers)
    came = door.only().headers

    assert unwanted.keys() & came.keys() == set()
    assert wanted.items() <= came.items()
    assert came["host"] == httpx2.URL(door.model.url).netloc.decode()
    assert came["accept-encoding"] == "identity"


def test_a_header_beyond_ascii_is_left_out(door: OpenDoor) -> None:
    """A header that can't be sent on as it came is none: the request passes without it."""
    headers = {**door.key_header(ApiFormat.CHAT), "user-agent": "ag\u00e9nt".encode()}
    answer = door.request("POST", SPOKEN[ApiFormat.CHAT].path, SPOKEN[ApiFormat.CHAT].body, headers=headers)

    assert (answer.status_code, door.only().headers["user-agent"]) == (200, "evopolicygym")


def test_headers_that_tell_the_account_don_t_come_back(door: OpenDoor) -> None:
    """Of an answer's headers, those that a tool acts on are passed on, and no other."""
    told = {"openai-organization": "acme", "set-cookie": "a=b", "x-request-id": "r", "retry-after": "7"}
    door.model.replies = [Reply(headers=told), Reply()]
    answer = door.ask()
    door.ask()

    assert answer.headers["retry-after"] == "7"
    assert answer.headers.keys() <= {"content-type", "retry-after", "transfer-encoding"}
    assert "cookie" not in door.model.asked[1].headers


@pytest.mark.parametrize("status", [200, 400, 401, 403, 500])
@pytest.mark.parametrize("streamed", [False, True])
def test_the_real_key_is_never_seen(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    status: int,
    streamed: bool,  # noqa: FBT001
) -> None:
    """Not even where the model server sends it back does the key reach the agent, a file, a log or a repr."""
    caplog.set_level(logging.DEBUG)
    with open_door(tmp_path) as door:
        door.model.replies = [
            Reply(f"Your key is {REAL_KEY}.", status, {"x-key": REAL_KEY, "retry-after": REAL_KEY}) for _ in WIRES
        ]
        answers = [(door.stream if streamed else door.ask)(wire) for wire in WIRES]
        door.ask(model=REAL_KEY[:-1])
        seen = [answer.text + str(answer.headers) for answer in answers]
        seen += [repr(vars(door.door)), repr(door), str(door.endpoint.environment), caplog.text]
        seen += [file.read_text(encoding="utf-8") for file in tmp_path.rglob("*") if file.is_file()]

    assert [text for text in seen if REAL_KEY in text] == []
    assert [answer.status_code for answer in answers] == [status] * len(WIRES)


def test_no_address_of_the_model_reaches_a_log(door: OpenDoor, caplog: pytest.LogCaptureFixture) -> None:
    """Neither at the deepest level, whole or streamed; the client of this test logs under the same names."""
    caplog.set_level(logging.DEBUG)
    for wire in WIRES:
        door.ask(wire)
        door.stream(wire)

    assert {record.name for record in caplog.records} >= set(LOGGERS)
    assert door.endpoint.address in caplog.text
    assert door.model.url not in caplog.text
    assert not re.search(rf"\b{urlsplit(door.model.url).port}\b", caplog.text)


# Counting


@each_wire
@pytest.mark.parametrize("streamed", [False, True])
def test_tokens_are_counted_in_one_form(door: OpenDoor, wire: ApiFormat, streamed: bool) -> None:  # noqa: FBT001
    """Cached input is part of the input and reasoning part of the output, whatever a format calls them."""
    (door.stream if streamed else door.ask)(wire)
    (line,) = door.lines()
    reasoning = None if wire is ApiFormat.MESSAGES else REASONING
    cache_write = 100 if wire is ApiFormat.MESSAGES else None

    assert (line["input"], line["cached_input"], line["output"]) == (INPUT, CACHED, OUTPUT)
    assert (line["reasoning"], line["cache_write"]) == (reasoning, cache_write)
    assert (line["model"], line["answered_by"], line["status"]) == ("scripted", "scripted", 200)
    assert (line["wire"], line["kind"], line["note"]) == (wire, "generate", "")
    assert line["seconds"] >= 0


def test_totals(door: OpenDoor) -> None:
    """Totals are the sums over all formats."""
    for wire in WIRES:
        door.ask(wire)
        door.stream(wire)
    door.request("GET", "/v1/files")
    usage = door.door.usage()

    assert (usage.requests, usage.generations, usage.refused, usage.failed, usage.unknown) == (8, 8, 1, 0, 0)
    assert (usage.input, usage.cached_input, usage.output) == (8 * INPUT, 8 * CACHED, 8 * OUTPUT)
    assert (usage.reasoning, usage.cache_write, usage.tokens) == (6 * REASONING, 200, 8 * (INPUT + OUTPUT))
    assert usage.seconds > 0


@each_wire
@pytest.mark.parametrize("streamed", [False, True])
def test_what_was_not_told_is_unknown(door: OpenDoor, wire: ApiFormat, streamed: bool) -> None:  # noqa: FBT001
    """An answer without usage counts as unknown, not as zero tokens."""
    door.model.replies.append(Reply(tell_usage=False))
    (door.stream if streamed else door.ask)(wire)

    assert (door.door.usage().unknown, door.door.usage().generations) == (1, 1)
    assert (door.lines()[0]["input"], door.lines()[0]["output"]) == (None, None)


@pytest.mark.parametrize("raw", [b"", b"{", b"[1", b'{"usage": 7}', b'{"usage": {"prompt_tokens": -1}}', b"\xff\xfe{}"])
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "nonsense"])
def test_a_malformed_answer_passes(door: OpenDoor, raw: bytes, kind: str) -> None:
    """What can't be read is passed on as it is, and its usage is unknown."""
    raw = b"data: " + raw + b"\n\n" if kind == "text/event-stream" and raw else raw
    door.model.replies.append(Reply(raw=raw, headers={"content-type": kind}))
    answer = door.ask()

    assert (answer.status_code, answer.content) == (200, raw)
    assert door.door.usage().unknown == 1


# The door itself


def test_a_door_tells_tools_where_it_is(tmp_path: Path) -> None:
    """Each tool's own variables lead to the door with the dummy key; a named format has only its own."""
    with open_door(tmp_path) as door:
        address, key = door.endpoint.address, door.endpoint.key

        assert door.endpoint.environment == {
            "OPENAI_BASE_URL": f"{address}/v1",
            "OPENAI_API_KEY": key,
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": key,
            "GOOGLE_GEMINI_BASE_URL": address,
            "GEMINI_API_KEY": key,
        }
    with open_door(tmp_path, "/v1", wire=ApiFormat.RESPONSES) as door:
        assert door.endpoint.environment == {
            "OPENAI_BASE_URL": door.endpoint.address,
            "OPENAI_API_KEY": door.endpoint.key,
        }


def test_each_door_has_a_key_of_its_own(door: OpenDoor, tmp_path: Path) -> None:
    """A dummy key is drawn for one door."""
    with open_door(tmp_path) as other:
        assert other.endpoint.key != door.endpoint.key


def test_a_closed_door_answers_nothing(door: OpenDoor) -> None:
    """After close there is nobody there, requests under way are ended, and the totals can still be read."""
    door.model.replies.append(Reply(hang="before"))
    with door.connect() as connection:
        head = f"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nx-api-key: {door.endpoint.key}\r\n"
        connection.sendall(f"{head}Content-Length: 2\r\n\r\n{{}}".encode())
        assert door.model.came.wait(PATIENCE_S)
        door.door.close()

        assert door.model.left.wait(PATIENCE_S)
    with pytest.raises(httpx2.ConnectError):
        door.ask()
    assert door.door.usage().requests == 1
    door.door.close()


def test_a_server_without_keys(tmp_path: Path) -> None:
    """Without a variable the dummy is still wanted, and no key goes out."""
    with open_door(tmp_path, key_variable="") as door:
        door.ask()

        assert "authorization" not in door.only().headers
        assert door.request("GET", "/v1/models", headers={}).status_code == 401


def test_a_key_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """A door without its key is not opened; the error names the variable."""
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(UsageError, match=VARIABLE):
        ModelProxy(ModelUpstream("http://127.0.0.1:1", VARIABLE))


@pytest.mark.parametrize(
    "address",
    [
        "",
        "api.example.com",
        "ftp://example.com",
        "http://",
        "http://secret:word@example.com",
        "http://example.com/?key=secret",
        "http://example.com/#secret",
        "http://example.com/a/../b",
        "http://example.com//b",
        "http://example.com/%2e%2e",
        "http://example.com:99999",
        "http://exa\nmple.com",
    ],
)
def test_an_address_that_is_none(address: str) -> None:
    """An upstream's address is plain, and an error about it tells nothing that might be a secret."""
    with pytest.raises(UsageError) as raised:
        ModelUpstream(address)

    assert "secret" not in str(raised.value)


def test_without_httpx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where httpx2 is not installed, the error names the extra that brings it."""
    monkeypatch.setitem(__import__("sys").modules, "httpx2", None)
    for module in ("forward", "endpoint"):
        monkeypatch.delitem(__import__("sys").modules, f"evopolicygym.model_proxy.{module}", raising=False)
    with pytest.raises(MissingExtra, match=r"pip install 'evopolicygym\[agents\]'"):
        ModelProxy(ModelUpstream("http://127.0.0.1:1", VARIABLE))


def test_totals_begin_at_nothing() -> None:
    """A door that nobody used has counted nothing."""
    with ModelProxy(ModelUpstream("http://127.0.0.1:1", VARIABLE)) as door:
        door.serve(socket.create_server(("127.0.0.1", 0)))

        assert door.usage() == ModelUsage()
