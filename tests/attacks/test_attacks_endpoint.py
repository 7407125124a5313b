"""Attacks on the judge's door: strangers, browsers, broken HTTP. None is charged for or felt."""

import http.client
import json
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Callable
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

import httpx2
import pytest

from asking import SUBMIT, ask, ask_until, assert_unharmed, charges, connect, head, heard, refusal, spoken, submit
from evopolicygym.serving import guard
from fakes import PATIENCE_S, OpenRun, RunMaker

CALLS = ("GET /info", "GET /task", "POST /submit", "GET /submissions", "GET /submissions/0", "POST /finish")

# The token


@pytest.mark.parametrize("kind", ["none", "wrong", "another run's", "longer", "shorter", "not ASCII"])
def test_no_call_without_this_runs_token(new_run: RunMaker, kind: str) -> None:
    """Without a token, with a wrong one and with another run's every call is the same blank wall, and costs nothing."""
    run, other = new_run("run"), new_run("other")
    before, token = run.journal(), token_of(run)
    given = {
        "none": "",
        "wrong": "/" + "A" * len(token),
        "another run's": "/" + token_of(other),
        "longer": f"/{token}A",
        "shorter": "/" + token[:-1],
        "not ASCII": "/" + token[:-2] + "%C3%A9",
    }[kind]
    place = run.door.address.base_url.removesuffix(f"/{token}") + given
    answers = [ask(run, *call.split(), SUBMIT, base_url=place) for call in CALLS]

    assert {refusal(answer) for answer in answers} == {(404, "invalid_request")}
    assert len({answer.content for answer in answers}) == 1
    assert_unharmed(run, before)


def test_tokens_are_compared_in_constant_time(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is given is compared as a whole, by the comparison that takes the same time wherever the first error is."""
    run = new_run()
    compared: list[bytes] = []
    really = guard.hmac.compare_digest
    monkeypatch.setattr(guard.hmac, "compare_digest", lambda one, two: (compared.append(one), really(one, two))[1])
    ask(run, "GET", "/info", base_url=run.door.address.base_url[:-1])
    ask(run, "GET", "/info")

    assert [token_of(run)[:-1].encode(), token_of(run).encode()] == compared


def test_the_token_is_written_nowhere(
    new_run: RunMaker, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """No request, good or bad, has the token logged, printed or put into the record."""
    run = new_run()
    caplog.set_level(0)
    for call in (*CALLS, "GET /no/such/call"):
        ask(run, *call.split(), SUBMIT)
    spoken(run, head(run, "Content-Length: abc") + b"\r\n")
    written = b"".join(path.read_bytes() for path in run.paths.root.rglob("*") if path.is_file())
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith(("httpx2", "httpcore"))]

    assert token_of(run).encode() not in written
    assert token_of(run) not in "".join(ours)
    assert capfd.readouterr() == ("", "")


STRANGER = """
import sys, urllib.error, urllib.request
base, judge = sys.argv[1:]
for path in ("", "/info", "/submit", "/submissions/0"):
    try:
        print(urllib.request.urlopen(base + path, b"{}").status)
    except urllib.error.HTTPError as error:
        print(error.code)
for name in ("cmdline", "environ", "maps", "fd"):
    try:
        print(open(f"/proc/{judge}/{name}", "rb").read())
    except OSError as error:
        print(type(error).__name__)
"""


@pytest.mark.needs_root
def test_another_user_of_the_machine(new_run: RunMaker) -> None:
    """Whoever finds the port as another user gets no answer, and finds the token in nothing of the judge's process."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    run = new_run()
    before = run.journal()
    base = run.door.address.base_url.removesuffix(f"/{token_of(run)}")
    python = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin")
    if python is None:
        pytest.skip("there is no Python that another user could run")
    command = [python, "-I", "-S", "-c", STRANGER, base, str(os.getpid())]
    done = subprocess.run(command, user=65534, group=65534, cwd="/", capture_output=True, text=True, check=False)

    assert done.stdout.splitlines()[:4] == ["404"] * 4, done.stderr
    assert token_of(run) not in done.stdout
    assert_unharmed(run, before)


# Indices, and the budget

NO_INDICES = (
    *("[-1]", "[9223372036854775808]", f"[1{'0' * 400}]", f"[1{'0' * 5000}]", "[1.0]", "[1e3]", "[1e999]", "[NaN]"),
    *("[true]", '["1"]', "null", "[null]", "[[0]]", "[{}]", "{}", "[]", '""', "0", '"0-"', '"-1"', '"0,,1"', '"0-1e3"'),
    *(
        f'"0-{"9" * 400}"',
        '"0-999999999"',
        f'"{"0-15," * 4000}0"',
        f"[{'0,' * 20000}0]",
        '"\u0660"',
        '"0x1"',
    ),
)


def test_indices_that_are_none(new_run: RunMaker) -> None:
    """Whatever is no list of whole numbers in range is refused before it is expanded, truth values and floats too."""
    run = new_run()
    before = run.journal()
    bodies = [f'{{"env_instances": {literal}}}'.encode() for literal in NO_INDICES]
    bodies += [b'{"env_instances": [0], "episodes": 1}', b'{"env_instances": [0], "env_instances": []}', b"{}"]
    answers = [ask(run, "POST", "/submit", body) for body in bodies]

    assert {400} == {refusal(answer)[0] for answer in answers}
    assert max(len(answer.content) for answer in answers) < 300
    assert_unharmed(run, before)


def test_a_journal_is_within_its_budget_at_every_line(new_run: RunMaker) -> None:
    """However many ask at once, after no line of the journal is more charged than there is."""
    run = new_run()
    clients = [connect(run) for _ in range(20)]
    body = b'{"env_instances": "0-4"}'
    for client in clients:
        client.sendall(head(run, f"Content-Length: {len(body)}", "Connection: close") + b"\r\n" + body)
    answers = [heard(client) for client in clients]
    for client in clients:
        client.close()

    assert sorted(answer.split()[1] for answer in answers) == [b"200"] + [b"400"] * 19
    assert list(accumulate(len(one.env_instances) for one in charges(run))) == [5]
    assert run.session.state.remaining == 3


# What is hardly HTTP

MANY_HEADERS = "\r\n".join(f"a{number}: b" for number in range(100_000))


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ("Content-Length: -1", 400),
        ("Content-Length: abc", 400),
        ("Content-Length: 0x10", 400),
        ("Content-Length: \xb2", 400),
        (f"Content-Length: {'9' * 5000}", 400),
        ("Content-Length: 5\r\nContent-Length: 6", 400),
        ("Content-Length: 1000000000000", 413),
        ("Content-Length: 1073741824", 413),
        ("Content-Length: 1073741824\r\nExpect: 100-continue", 413),
        ("Transfer-Encoding: gzip", 400),
        (MANY_HEADERS, 400),
        (f"X: {'x' * 300_000}", 400),
        ("Host: example.org", 400),
        ("Bad Name: x", 400),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_lengths_and_headers_that_are_none(new_run: RunMaker, headers: str, code: int) -> None:
    """A length that is none or too much, and heads without end, are refused at once, unread, and the judge hangs up."""
    run = new_run()
    before = run.journal()
    answer = spoken(run, head(run, headers.encode().decode("latin-1")) + b"\r\n")

    assert answer.startswith(f"HTTP/1.1 {code} ".encode())
    assert json.loads(answer.partition(b"\r\n\r\n")[2]).keys() == {"status", "error"}
    assert_unharmed(run, before)


@pytest.mark.parametrize(
    "chunks",
    [b"FFFFFFFFFF\r\n" + b" " * 70_000, b"10000\r\n" + b" " * 65536 + b"\r\n1\r\n \r\n", b"zz\r\n", b"-5\r\nhello"],
    ids=["endless", "a byte too many", "no length", "negative"],
)
def test_bodies_in_chunks_that_are_none(new_run: RunMaker, chunks: bytes) -> None:
    """A body in chunks is read as far as a body may go, and refused at once where it is longer or broken."""
    run = new_run()
    before = run.journal()
    answer = spoken(run, head(run, "Transfer-Encoding: chunked") + b"\r\n" + chunks)

    assert answer.split()[1] in {b"400", b"413"}
    assert_unharmed(run, before)


@pytest.mark.parametrize("call", ["PUT /info", "GET /no/such/call", "POST /finish"])
def test_a_body_that_nobody_asked_for(new_run: RunMaker, call: str) -> None:
    """A gigabyte announced to a call that takes none is not read either: the judge answers and hangs up."""
    run = new_run()
    before = run.journal()
    answer = spoken(run, head(run, "Content-Length: 1073741824", call=call) + b"\r\n" + b" " * 100_000)

    assert answer.startswith(b"HTTP/1.1 ")
    assert_unharmed(run, before)


@pytest.mark.parametrize(
    ("length", "body", "statuses"),
    [
        ("Accept: application/json", b"", [b"200", b"200"]),
        ("Content-Length: 65536", b" " * 65536, [b"200", b"200"]),
        ("Content-Length: 65537", b" " * 65537, [b"413"]),
        ("Transfer-Encoding: chunked", b"1\r\n \r\n0\r\n\r\n", [b"200"]),
    ],
    ids=["none", "short", "a byte too long", "without a length"],
)
def test_the_rest_of_a_long_body_is_not_read(
    new_run: RunMaker, length: str, body: bytes, statuses: list[bytes]
) -> None:
    """After an answer, the judge hangs up if the unread body may be long, and else serves the next request."""
    run = new_run()
    with connect(run) as client:
        client.sendall(head(run, length, call="GET /info") + b"\r\n")
        first = client.recv(1 << 16)
        with suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(body + head(run, "Connection: close", call="GET /info") + b"\r\n")
        found = first + heard(client)

    assert [answer[:3] for answer in found.split(b"HTTP/1.1 ")[1:]] == statuses


def test_garbage_after_an_answer_is_not_logged(new_run: RunMaker, caplog: pytest.LogCaptureFixture) -> None:
    """What breaks off in the middle of a body that was refused already closes the connection and fills no log."""
    run = new_run()
    with connect(run) as client:
        client.sendall(head(run, "Transfer-Encoding: chunked", call="PUT /info") + b"\r\n")
        client.recv(1 << 16)
        client.sendall(b"zz\r\n")
        heard(client)

    assert caplog.records == []
    assert_unharmed(run, run.journal())


# Browsers


@pytest.mark.parametrize(
    ("method", "headers", "code"),
    [
        ("POST", {"Origin": "https://example.org"}, 403),
        ("POST", {"Origin": "https://example.org", "Content-Type": "application/x-www-form-urlencoded"}, 403),
        ("POST", {"Sec-Fetch-Site": "cross-site", "Content-Type": "application/x-www-form-urlencoded"}, 403),
        ("POST", {"Host": "rebound.example.org:80"}, 403),
        ("POST", {"Host": "127.0.0.1.nip.example"}, 403),
        ("POST", {"Host": "0.0.0.0:80"}, 403),
        ("POST", {"Content-Type": "text/plain"}, 415),
        ("POST", {"Content-Type": "multipart/form-data; boundary=x"}, 415),
        ("OPTIONS", {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}, 403),
        ("GET", {"Origin": "null"}, 403),
    ],
)
@pytest.mark.parametrize("path", ["/submit", "/finish"])
def test_what_a_browser_sends(new_run: RunMaker, method: str, path: str, headers: dict[str, str], code: int) -> None:
    """A page from elsewhere, a rebound name, a form's post and a preflight are refused, with no leave to read."""
    run = new_run(finish_allowed=True)
    before = run.journal()
    answer = ask(run, method, path, SUBMIT, headers=headers)

    assert (code, "invalid_request") == refusal(answer)
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert_unharmed(run, before)


# Clients that leave


def half_close(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_WR)


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@pytest.mark.parametrize("leave", [socket.socket.close, half_close, reset])
def test_a_client_that_leaves_in_the_middle(new_run: RunMaker, leave: Callable[[socket.socket], None]) -> None:
    """Who closes, half-closes or resets is charged once, played to the end, and finds the receipt when it asks."""
    run = new_run()
    run.executor.gate.clear()
    body = b'{"env_instances": "0-2", "key": "mine"}'
    with connect(run) as client:
        client.sendall(head(run, f"Content-Length: {len(body)}") + b"\r\n" + body)
        ask_until(run, lambda: run.session.state.submissions)
        leave(client)
        assert ask(run, "GET", "/submissions/0").json()["status"] == "playing"
        run.executor.gate.set()
        run.session.published(0).result(PATIENCE_S)
    receipt = ask(run, "GET", "/submissions/0").json()

    assert (receipt["status"], receipt["summary"]["n_episodes"]) == ("ok", 3)
    assert json.loads((run.feedback(0) / "summary.json").read_text()) == receipt["summary"]
    assert submit(run, {"env_instances": "0-2", "key": "mine"}).json() == receipt
    assert [len(one.env_instances) for one in charges(run)] == [3]
    assert_unharmed(run, run.journal())


@pytest.mark.parametrize("leave", [socket.socket.close, half_close, reset])
def test_a_client_that_leaves_before_it_has_asked(new_run: RunMaker, leave: Callable[[socket.socket], None]) -> None:
    """A body that breaks off is no submission, even where what came of it could be read as one."""
    run = new_run()
    before = run.journal()
    with connect(run) as client:
        client.sendall(head(run, "Content-Length: 99") + b'\r\n{"env_instances": [0]}')
        leave(client)

    assert_unharmed(run, before)


# What is no call

NO_CALLS = (
    *("GET /", "GET /../info", "GET /%2e%2e/info", "GET //info", "POST //submit", "POST /submit/", "POST /submit/../x"),
    *(
        "POST /submit%00",
        "POST /SUBMIT",
        "GET /info;x",
        "GET /submissions/-1",
        "GET /submissions/0x0",
        "GET /.git/HEAD",
    ),
    *("GET /submissions/7", f"GET /submissions/{'9' * 5000}", "GET /submissions/\u0663", "GET /submissions/1e3"),
    *("TRACE /info", "TRACE /submit", "DELETE /submissions/0", "PUT /submit", "PATCH /finish", "OPTIONS /submit"),
    *("BREW /info", "HEAD /submit", "GET /submit", "POST /info", "GET /docs", "GET /openapi.json", "GET /metrics"),
)


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_refused_requests_leave_nothing(new_run: RunMaker, count: int, capfd: pytest.CaptureFixture[str]) -> None:
    """However much is refused, the answers tell nothing of us, and neither the record nor a log grows by a byte."""
    run = new_run()
    (run.paths.system / "away").symlink_to("nowhere")
    before, files = run.journal(), sizes(run)
    address = httpx2.URL(run.door.address.base_url)
    client = http.client.HTTPConnection(address.host, address.port, timeout=PATIENCE_S)
    answers = set()
    for number in range(count):
        method, path = NO_CALLS[number % len(NO_CALLS)].split()
        body = None
        if number % 10 == 0:
            method, path, body = "POST", "/submit", b'{"env_instances": [0]}' if number % 20 else b'{"film": [0]}'
        client.putrequest(method, quoted(run, path))
        client.putheader("Content-Type", "application/json")
        client.putheader("Content-Length", str(len(body or b"")))
        client.endheaders(body)
        answer = client.getresponse()
        answers.add((answer.status, method == "HEAD", answer.read(), str(answer.headers)))
    client.close()

    assert {400, 404, 405} == {status for status, *_ in answers}
    for _, bodiless, body, headers in answers:
        assert bodiless or {"status", "error"} == json.loads(body).keys()
        said = (body.decode() + headers).lower()
        telling = ("traceback", "uvicorn", "starlette", "h11", "python", str(run.paths.root), token_of(run), ".py")
        assert [word for word in telling if word.lower() in said.replace("policy.py", "")] == []
    assert files == sizes(run)
    assert capfd.readouterr() == ("", "")
    (run.paths.system / "away").unlink()
    assert_unharmed(run, before)


def quoted(run: OpenRun, path: str) -> str:
    """Return a path below the token as it goes over the wire, unchanged but for what is not ASCII."""
    return httpx2.URL(run.door.address.base_url).path + "".join(
        char if char.isascii() else "".join(f"%{byte:02X}" for byte in char.encode()) for char in path
    )


def sizes(run: OpenRun) -> dict[Path, int]:
    return {path: path.stat().st_size for path in run.paths.root.rglob("*") if path.is_file()}


def token_of(run: OpenRun) -> str:
    return httpx2.URL(run.door.address.base_url).path.strip("/")
