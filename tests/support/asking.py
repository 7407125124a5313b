"""Asking a judge over a real socket: a request and its answer, a refusal read, bytes as they come down a wire."""

import json
import socket
import ssl
from contextlib import suppress
from typing import Any

import httpx2

from evopolicygym.core.event import SubmissionCharged
from evopolicygym.records import journal
from fakes import OpenRun

Json = dict[str, Any]
SUBMIT = {"env_instances": [0]}
TLS = ssl.create_default_context()
"""Never used, and made once: httpx2 would make one for each request."""


def ask(run: OpenRun, method: str, path: str, body: object = None, **changes: Any) -> httpx2.Response:
    """Ask the judge; a body that is no text is sent as JSON."""
    content = body if isinstance(body, bytes) else None if method == "GET" else json.dumps(body)
    headers = {"Content-Type": "application/json"} | changes.pop("headers", {})
    return httpx2.request(
        method,
        changes.pop("base_url", run.door.address.base_url) + path,
        content=changes.pop("content", content),
        headers=headers,
        timeout=30,
        trust_env=False,
        verify=TLS,
    )


def submit(run: OpenRun, body: object = SUBMIT) -> httpx2.Response:
    return ask(run, "POST", "/submit", body)


def refusal(answer: httpx2.Response) -> tuple[int, str]:
    """Return a refusal's code and status; its body holds a sentence and nothing else."""
    document = answer.json()
    assert {"status", "error"} == document.keys()
    assert {"message"} == document["error"].keys()
    return answer.status_code, document["status"]


def charges(run: OpenRun) -> list[SubmissionCharged]:
    return [event for event in journal.read(run.paths.journal).events if isinstance(event, SubmissionCharged)]


def connect(run: OpenRun, patience_s: float = 30.0) -> socket.socket:
    """Open a connection to the judge and say nothing yet."""
    address = httpx2.URL(run.door.address.base_url)
    return socket.create_connection((address.host, address.port or 0), timeout=patience_s)


def head(run: OpenRun, *headers: str, call: str = "POST /submit") -> bytes:
    """Return a request's first line, its host and further headers, without the empty line at their end."""
    method, _, path = call.partition(" ")
    lines = (f"{method} {httpx2.URL(run.door.address.base_url).path}{path} HTTP/1.1", "Host: 127.0.0.1", *headers)
    return "".join(f"{line}\r\n" for line in lines).encode()


def heard(connection: socket.socket) -> bytes:
    """Return all that comes until the judge closes."""
    heard = b""
    with suppress(ConnectionResetError):
        while chunk := connection.recv(1 << 16):
            heard += chunk
    return heard


def spoken(run: OpenRun, said: bytes, patience_s: float = 30.0) -> bytes:
    """Say something, however odd, and return all that comes until the judge closes."""
    with connect(run, patience_s) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):  # it may have heard enough
            connection.sendall(said)
        return heard(connection)


def assert_unharmed(run: OpenRun, before: bytes) -> None:
    """Assert that nothing was charged or left since the journal stood so, and that the next honest submission is ok."""
    assert before == run.journal()
    assert {one.name for one in run.paths.checkpoints.iterdir()} == {one.checkpoint for one in charges(run)}
    spent = run.session.state.spent
    answer = submit(run)
    assert (answer.status_code, answer.json()["status"], run.session.state.spent - spent) == (200, "ok", 1)
