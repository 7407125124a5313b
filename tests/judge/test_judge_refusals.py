"""What the judge refuses, over a real socket: each with its status, nothing charged by any."""

import http.client
import json
import re
from contextlib import closing
from typing import Any

import httpx2
import pytest

from asking import SUBMIT, ask, connect, head, refusal, spoken, submit
from evopolicygym.core.task import BudgetRule
from evopolicygym.judge.server import MAX_BODY
from evopolicygym.serving.connection import Connection
from fakes import PATIENCE_S, OpenRun, RunMaker


def too_big(run: OpenRun) -> None:
    (run.paths.system / "weights").write_bytes(bytes(65 << 20))


def linked(run: OpenRun) -> None:
    (run.paths.system / "away").symlink_to("/etc/passwd")


def absent(run: OpenRun) -> None:
    (run.paths.system / "policy.py").unlink()


@pytest.mark.parametrize("spoil", [too_big, linked, absent])
def test_a_system_that_can_t_be_taken(new_run: RunMaker, spoil: Any) -> None:
    """A system/ without policy.py, too big or with a link is refused and not charged."""
    run = new_run()
    before = run.journal()
    spoil(run)

    assert refusal(submit(run)) == (400, "invalid_checkpoint")
    assert before == run.journal()


NO_INDICES: list[object] = [[], "", [True], [1.5], ["0"], [-1], [16], [2**63], [10**400], "0-99", "3-1", None, 3, {}]
TOO_MANY: list[object] = ["0-8", list(range(9)), "0-7,0", "0-15"]
NO_REQUESTS: list[object] = [
    *([], "text", 3, None, True, {}, {"indices": [0]}, {**SUBMIT, "film": [0]}, {**SUBMIT, "seed": 3}),
    *({**SUBMIT, "wait": 1}, {**SUBMIT, "wait": "no"}, {**SUBMIT, "key": 3}, {**SUBMIT, "key": "a" * 201}),
    *({**SUBMIT, "key": "a\nb"}, {**SUBMIT, "key": "\ud800"}, {**SUBMIT, "key": None}),
    *(b"", b"{", b"\xff\xfe", b'{"env_instances": [0]', b"[" * 60_000, b'{"a":' * 10_000, b"1" * 60_000),
]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        *(({"env_instances": asked}, "invalid_env_instance") for asked in NO_INDICES),
        *(({"env_instances": asked}, "budget_invalid") for asked in TOO_MANY),
        *((body, "invalid_request") for body in NO_REQUESTS),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_can_t_be_asked_is_refused(new_run: RunMaker, body: object, status: str) -> None:
    """Each refusal has its status and code 400, and leaves the journal as it was."""
    run = new_run()
    before = run.journal()

    assert (400, status) == refusal(submit(run, body))
    assert (before, []) == (run.journal(), list(run.paths.checkpoints.iterdir()))


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"env_instances": [0, 99]}, r"\b99\b.*\b0 to 15\b"),
        ({"env_instances": "0-8"}, r"\b9\b.*\b8\b"),
        ({"env_instances": [0], "video": [0]}, "'video'"),
        ({"env_instances": [True]}, "True"),
    ],
)
def test_a_refusal_names_the_rule_and_the_value(new_run: RunMaker, body: object, named: str) -> None:
    """A refusal's message is a sentence about what was asked."""
    assert re.search(named, submit(new_run(), body).json()["error"]["message"])


def test_what_is_left_is_told(new_run: RunMaker) -> None:
    """More than is left is refused for what is left, not for what one submission may have."""
    run = new_run()
    submit(run, {"env_instances": "0-5"})
    told = submit(run, {"env_instances": "0-3"}).json()["error"]["message"]

    assert re.findall(r"\d+", told) == ["4", "2"]


def test_portions(new_run: RunMaker) -> None:
    """A run may ask for portions; what is left below the least may be spent whole."""
    run = new_run(budget=BudgetRule(7, 3, 4))
    codes = [submit(run, {"env_instances": asked}).status_code for asked in ("0-1", "0-4", "0-2", "0-2", "0-1", "0")]

    assert codes == [400, 400, 200, 200, 400, 200]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "example.org"}, 403),
        ({"Host": "127.0.0.1.example.org"}, 403),
        ({"Host": "127.0.0.1:1@example.org"}, 403),
        ({"Origin": "http://127.0.0.1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "multipart/form-data"}, 415),
    ],
)
def test_who_asks_from_elsewhere_is_refused(new_run: RunMaker, headers: dict[str, str], code: int) -> None:
    """Another host's name, a browser's origin and another type of content are refused."""
    run = new_run()
    before = run.journal()

    assert (code, "invalid_request") == refusal(ask(run, "POST", "/submit", SUBMIT, headers=headers))
    assert before == run.journal()


@pytest.mark.parametrize(
    "headers",
    [{"Content-Type": ""}, {"Content-Type": "application/json; charset=utf-8"}, {"Host": "localhost:1"}],
)
def test_who_says_little_is_heard(new_run: RunMaker, headers: dict[str, str]) -> None:
    """A client that names no type, or this machine by its name, is answered."""
    assert ask(new_run(), "POST", "/submit", SUBMIT, headers=headers).status_code == 200


@pytest.mark.parametrize("size", [MAX_BODY + 1, 1 << 22])
def test_a_body_too_large_is_refused(new_run: RunMaker, size: int) -> None:
    """More than 64 KB are not read."""
    run = new_run()
    before = run.journal()

    assert refusal(submit(run, b" " * size)) == (413, "invalid_request")
    assert before == run.journal()


def test_a_body_in_pieces_is_bounded_too(new_run: RunMaker) -> None:
    """A body that doesn't say its length is cut off at the same size."""
    run = new_run()
    answer = ask(run, "POST", "/submit", content=(b" " * 1000 for _ in range(100)))

    assert refusal(answer) == (413, "invalid_request")


def test_a_body_that_never_comes(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who promises a body and sends none is let go."""
    really = Connection.data_received

    def data_received(connection: Connection, data: bytes) -> None:
        """Take the head, and let the time for the rest be up at once."""
        really(connection, data)
        monkeypatch.setattr(Connection, "request_s", 0.0)
        connection._deadline.cancel()
        connection._wait_for_request()

    monkeypatch.setattr(Connection, "data_received", data_received)
    run = new_run()
    answer = spoken(run, head(run, "Content-Length: 9") + b"\r\n")

    assert answer.startswith(b"HTTP/1.1 408 ")


# The token, and what is not a call


@pytest.mark.parametrize("path", ["/info", "/task", "/submissions", "/", "/wrong-token/info", "//info", "/%00/info"])
def test_nothing_answers_without_the_token(new_run: RunMaker, path: str) -> None:
    """Without the token there is nothing, and no hint of anything."""
    run = new_run()
    address = httpx2.URL(run.door.address.base_url)
    connection = http.client.HTTPConnection(address.host, address.port, timeout=PATIENCE_S)
    with closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read().decode()

    assert answer.status == 404
    assert address.path.strip("/") not in body + str(answer.headers)
    assert json.loads(body)["status"] == "invalid_request"


def test_a_token_is_no_guess(new_run: RunMaker) -> None:
    """Each run has a token of its own, of 24 random bytes."""
    tokens = {httpx2.URL(new_run(name).door.address.base_url).path.strip("/") for name in ("one", "two")}

    assert len(tokens) == 2
    assert all(len(token) == 32 for token in tokens)


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("POST", "/info", 405),
        ("GET", "/submit", 405),
        ("DELETE", "/submissions/0", 405),
        ("PUT", "/finish", 405),
        ("GET", "/secret", 404),
        ("GET", "/info/", 404),
        ("GET", "/submissions/7", 404),
        ("GET", "/submissions/-1", 404),
        ("GET", "/submissions/x", 404),
        ("GET", "/submissions/99999999999999999999", 404),
        ("GET", "/../info", 404),
        ("POST", "/submit/..%2f..%2fetc", 404),
    ],
)
def test_what_is_no_call_is_told_blandly(new_run: RunMaker, method: str, path: str, code: int) -> None:
    """Another path or method has the same form of answer, without a traceback, a version or a path."""
    answer = ask(new_run(), method, path, b"")

    assert (code, "invalid_request") == refusal(answer)
    assert {"server", "x-powered-by"}.isdisjoint(answer.headers)
    assert len(answer.text) < 200


@pytest.mark.parametrize("request_line", [b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"X" * 70_000])
def test_what_is_no_http_is_let_go(new_run: RunMaker, request_line: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever comes down the wire, the door stays open, and nothing is logged for it."""
    run = new_run()
    with connect(run) as connection:
        connection.sendall(request_line)
        connection.recv(1 << 16)

    assert ask(run, "GET", "/info").status_code == 200
    assert caplog.records == []
