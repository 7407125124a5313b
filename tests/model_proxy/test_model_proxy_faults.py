"""The model's door: its limits, and what comes of a model server that fails, hangs or breaks off."""

import contextlib
import gzip
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from evopolicygym.agents.kit.scripted_model.server import INPUT, OUTPUT, Reply
from evopolicygym.model_proxy import proxy as module
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.ledger import CUT
from evopolicygym.model_proxy.proxy import ModelProxy
from evopolicygym.model_proxy.upstream import ModelUpstream
from lifeline import PATIENCE_S
from model_proxies import REAL_KEY, SPOKEN, VARIABLE, OpenDoor, open_door

each_wire = pytest.mark.parametrize("wire", list(SPOKEN))


@pytest.fixture(autouse=True)
def real_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, REAL_KEY)


@pytest.fixture
def door(tmp_path: Path) -> Iterator[OpenDoor]:
    with open_door(tmp_path) as opened:
        yield opened


def is_answered(connection: socket.socket) -> bool:
    """Return whether a request without a key is refused, its answer read to the end."""
    connection.sendall(b"GET /none HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    answer = b""
    while not answer.endswith(b"}}") and (data := connection.recv(1 << 16)):
        answer += data
    return answer.startswith(b"HTTP/1.1 401 ")


# Limits


@each_wire
def test_so_many_requests_and_no_more(tmp_path: Path, wire: ApiFormat) -> None:
    """After the last request that is allowed comes 429, which says that asking again won't help."""
    with open_door(tmp_path, max_requests=2) as door:
        answers = [door.ask(wire) for _ in range(4)]

        assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
        assert answers[-1].headers["x-should-retry"] == "false"
        assert "2 requests" in answers[-1].text
        assert (len(door.model.asked), door.door.usage().requests, door.door.usage().refused) == (2, 2, 2)


def test_requests_at_once_are_counted_before_they_go(tmp_path: Path) -> None:
    """Of many requests at the same moment, exactly as many pass as are allowed."""
    with open_door(tmp_path, max_requests=3) as door, ThreadPoolExecutor(12) as pool:
        statuses = list(pool.map(lambda _: door.ask().status_code, range(12)))

        assert (sorted(statuses), len(door.model.asked)) == ([200] * 3 + [429] * 9, 3)


def test_so_many_tokens_and_no_more(tmp_path: Path) -> None:
    """Once input and output together reach the limit, nothing more passes."""
    with open_door(tmp_path, max_tokens=2 * (INPUT + OUTPUT)) as door:
        assert [door.ask().status_code for _ in range(3)] == [200, 200, 429]
        assert door.door.usage().tokens == 2 * (INPUT + OUTPUT)


def test_not_telling_usage_is_no_way_round_the_limit(tmp_path: Path) -> None:
    """A stream whose usage is not asked for is unknown in the totals, and counts towards the limit by its bytes."""
    with open_door(tmp_path, max_tokens=200) as door:
        statuses = [door.ask(ApiFormat.CHAT, stream=True).status_code for _ in range(8)]

        assert statuses[0] == 200
        assert statuses[-1] == 429
        assert (door.door.usage().tokens, door.door.usage().unknown) == (0, statuses.count(200))


@pytest.mark.parametrize("in_pieces", [False, True])
def test_a_body_too_large(tmp_path: Path, in_pieces: bool) -> None:  # noqa: FBT001
    """A body over the limit is refused, whether it says its length or not."""
    with open_door(tmp_path, max_body_bytes=1000) as door:
        headers = f"Host: 127.0.0.1\r\nx-api-key: {door.endpoint.key}\r\n"
        length = "Transfer-Encoding: chunked" if in_pieces else "Content-Length: 1000000000000"
        with door.connect() as connection:
            connection.sendall(f"POST /v1/messages HTTP/1.1\r\n{headers}{length}\r\n\r\n".encode())
            if in_pieces:
                connection.sendall(b"%x\r\n%s\r\n" % (2000, b" " * 2000))
            answer = connection.recv(1 << 16)

        assert (answer.split(b" ")[1], door.model.asked) == (b"413", [])


def test_a_body_that_never_comes(door: OpenDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who promises a body and sends none is let go."""
    monkeypatch.setattr("evopolicygym.model_proxy.endpoint.BODY_S", 0.05)

    assert door.say("POST /v1/messages HTTP/1.1\nHost: 127.0.0.1\nContent-Length: 9").startswith(b"HTTP/1.1 408 ")


def test_so_many_connections_and_no_more(door: OpenDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of connections too many, the one that has waited longest is closed; the others go on."""
    monkeypatch.setattr(module.ProxyConnection, "max_connections", 3)
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(door.connect()) for _ in range(3)]
        assert all(is_answered(connection) for connection in held)
        another = stack.enter_context(door.connect())
        assert is_answered(another)
        with contextlib.suppress(ConnectionResetError):
            assert held[0].recv(1) == b""
        assert all(is_answered(connection) for connection in held[1:])
    assert door.ask().status_code == 200


def test_the_log_is_bounded(door: OpenDoor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A full log ends with a line that says so; requests pass on, and totals count them."""
    monkeypatch.setattr("evopolicygym.model_proxy.ledger.MAX_BYTES", 700)
    with open_door(tmp_path / "small") as small:
        for _ in range(9):
            small.ask()

        assert small.lines()[-1] == CUT
        assert small.log.stat().st_size < 800
        assert small.door.usage().requests == 9
    assert not door.log.exists()


# Errors of the model server


@each_wire
@pytest.mark.parametrize("status", [400, 404, 429, 500, 503, 529])
def test_an_error_is_passed_on(door: OpenDoor, wire: ApiFormat, status: int) -> None:
    """A tool sees the model server's own error, and when to come back; it is no generation of unknown usage."""
    door.model.replies.append(Reply("overloaded_error", status, {"retry-after": "3"}))
    answer = door.stream(wire)
    usage = door.door.usage()

    assert (answer.status_code, answer.headers["retry-after"]) == (status, "3")
    assert answer.json() == {"error": {"message": "overloaded_error"}}
    assert (usage.failed, usage.unknown, door.lines()[0]["status"]) == (1, 0, status)
    assert door.ask(wire).status_code == 200


def test_an_error_doesn_t_name_the_account(door: OpenDoor) -> None:
    """Organisations, projects and keys are taken out of errors; codes that tools act on stay."""
    told = "Rate limit in organization org-a1B2c3D4e5 on project proj_12345678: rate_limit_exceeded, user_not_found"
    door.model.replies.append(Reply(told, 429))
    text = door.ask().text

    assert "a1B2c3D4e5" not in text
    assert "12345678" not in text
    assert "rate_limit_exceeded, user_not_found" in text


@each_wire
@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_told_in_our_words(door: OpenDoor, wire: ApiFormat, status: int) -> None:
    """What a model server says of a key or an account is not shown to the agent."""
    door.model.replies.append(Reply("The account of Jane Doe is blocked.", status))
    answer = door.ask(wire)

    assert answer.status_code == status
    assert "Jane" not in answer.text
    assert answer.json()["error"]["message"]


@each_wire
def test_nobody_there(tmp_path: Path, wire: ApiFormat) -> None:
    """A model server that is not there is told as 502, without saying where it should have been."""
    with socket.socket() as nobody, open_door(tmp_path) as open_:
        nobody.bind(("127.0.0.1", 0))  # and never listens
        port = nobody.getsockname()[1]
        with ModelProxy(ModelUpstream(f"http://127.0.0.1:{port}")) as closed:
            endpoint = closed.serve(socket.create_server(("127.0.0.1", 0)))
            answer = OpenDoor(closed, endpoint, open_.model, open_.log).ask(wire)

            assert (answer.status_code, closed.usage().failed, closed.usage().unknown) == (502, 1, 0)
            assert str(port) not in answer.text
            assert "127.0.0.1" not in answer.text


def test_a_server_without_a_certificate(tmp_path: Path) -> None:
    """With https, a server that doesn't prove who it is gets nothing."""
    with open_door(tmp_path) as plain:
        upstream = ModelUpstream(plain.model.url.replace("http:", "https:"), VARIABLE)
        with ModelProxy(upstream) as secure:
            endpoint = secure.serve(socket.create_server(("127.0.0.1", 0)))
            answer = OpenDoor(secure, endpoint, plain.model, plain.log).ask()

        assert (answer.status_code, plain.model.asked) == (502, [])
    assert ssl.HAS_TLSv1_2


def test_a_server_that_hangs(tmp_path: Path) -> None:
    """Silence longer than the limit ends the request; what it took is unknown."""
    with open_door(tmp_path, read_timeout_s=0.1, most_silence_s=0.3) as door:
        door.model.replies.append(Reply(hang="before"))

        assert door.stream(ApiFormat.RESPONSES).status_code == 502
        assert door.model.left.wait(PATIENCE_S)
        assert (door.door.usage().failed, door.door.usage().unknown) == (1, 1)


def test_a_server_that_hangs_within_its_answer(door: OpenDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that goes on for too long without a word is cut for the tool; the next request is answered."""
    chunks = httpx2.Response.aiter_bytes

    async def first_chunk(response: httpx2.Response) -> AsyncIterator[bytes]:
        async for chunk in chunks(response):
            yield chunk
            raise httpx2.ReadTimeout("")

    door.model.replies.append(Reply(hang="between"))
    with monkeypatch.context() as patch:
        patch.setattr(httpx2.Response, "aiter_bytes", first_chunk)
        with pytest.raises(httpx2.RemoteProtocolError):
            door.stream(ApiFormat.RESPONSES)

    assert door.model.left.wait(PATIENCE_S)
    assert (door.door.usage().failed, door.door.usage().unknown) == (1, 1)
    assert door.ask().status_code == 200


@each_wire
def test_an_answer_that_breaks_off(door: OpenDoor, wire: ApiFormat) -> None:
    """A stream cut in the middle is cut for the tool too; a beginning of usage is no count of output."""
    door.model.replies = [Reply(cut=True), Reply(cut=True)]
    for ask in (door.stream, door.ask):
        with pytest.raises(httpx2.RemoteProtocolError):
            ask(wire)
    door.ask(wire)
    streamed, whole, _ = door.lines()

    assert (whole["output"], whole["note"]) == (None, "broke off")
    assert streamed["note"] == "broke off"
    assert streamed["output"] == (OUTPUT if wire in {ApiFormat.MESSAGES, ApiFormat.CHAT} else None)
    assert (door.door.usage().failed, door.door.usage().generations) == (2, 3)


def test_a_connection_dropped_before_an_answer(tmp_path: Path) -> None:
    """A server that takes a request and hangs up is told as 502, and what it took is unknown."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:

        def hang_up() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)

        pool.submit(hang_up)
        with (
            open_door(tmp_path) as open_,
            ModelProxy(ModelUpstream(f"http://127.0.0.1:{listener.getsockname()[1]}")) as it,
        ):
            endpoint = it.serve(socket.create_server(("127.0.0.1", 0)))
            answer = OpenDoor(it, endpoint, open_.model, open_.log).ask()

            assert (answer.status_code, it.usage().unknown) == (502, 1)


def test_an_answer_that_is_compressed_although_nobody_asked(door: OpenDoor) -> None:
    """A compressed answer is passed on uncompressed; one that we can't look into is not."""
    body = b'{"usage": {"prompt_tokens": 3, "completion_tokens": 4}}'
    door.model.replies = [
        Reply(raw=gzip.compress(body), headers={"content-encoding": "gzip"}),
        Reply(raw=b"broken", headers={"content-encoding": "gzip"}),
        Reply(raw=b"?", headers={"content-encoding": "zstd"}),
    ]
    answer = door.ask()

    assert (answer.content, door.door.usage().tokens) == (body, 7)
    assert "content-encoding" not in answer.headers
    with pytest.raises(httpx2.RemoteProtocolError):
        door.ask()
    assert door.ask().status_code == 502
    assert door.ask().status_code == 200


def test_an_endless_error_is_cut(door: OpenDoor) -> None:
    """An error larger than any error is told in our own words."""
    door.model.replies.append(Reply("x" * (1 << 20), 500))
    answer = door.ask()

    assert (answer.status_code, len(answer.content) < 1000) == (500, True)
