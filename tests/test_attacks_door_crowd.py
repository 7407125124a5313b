"""Attacks on the judge's door that take their time: slow clients and crowds. None is felt by the next client."""

import os
import socket

import pytest

from asking import ask, assert_unharmed, connect, head, heard, spoken
from evopolicygym.judge import connection as limits
from fakes import RunMaker


@pytest.mark.parametrize("begun", ["nothing", "a head", "a body", "a second request"])
def test_a_request_has_a_deadline_as_a_whole(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch, begun: str) -> None:
    """Who sends a byte now and then is let go when the whole request should have come."""
    monkeypatch.setattr(limits, "REQUEST_S", 0.4)
    run = new_run()
    before = run.journal()
    with connect(run) as client:
        client.sendall({"a body": head(run, "Content-Length: 60000") + b"\r\n"}.get(begun, b"")[: 1 << 16])
        if begun == "a second request":
            client.sendall(head(run, call="GET /info") + b"\r\n")
        if begun in {"a head", "a second request"}:
            client.sendall(head(run)[:-2])
        client.settimeout(0.05)
        answer = trickled(client, b"" if begun == "nothing" else b"x")

    assert answer.rpartition(b"HTTP/1.1 ")[2].startswith(b"408 ")
    assert_unharmed(run, before)


def trickled(client: socket.socket, byte: bytes) -> bytes:
    """Send a byte now and then, until the judge closes; return what it said."""
    said = b""
    for _ in range(400):
        try:
            client.sendall(byte)
            if not (chunk := client.recv(1 << 16)):
                return said
            said += chunk
        except TimeoutError:
            continue
        except (BrokenPipeError, ConnectionResetError):
            return said
    raise AssertionError("the judge waits for ever")


def test_a_submission_may_take_longer_than_a_request(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline is on asking, not on what is answered."""
    monkeypatch.setattr(limits, "REQUEST_S", 0.1)
    run = new_run()
    run.executor.gate.clear()
    body = b'{"env_instances": "0"}'
    with connect(run) as client:
        client.sendall(head(run, f"Content-Length: {len(body)}", "Connection: close") + b"\r\n" + body)
        client.settimeout(0.5)
        with pytest.raises(TimeoutError):
            client.recv(1)
        client.settimeout(30)
        run.executor.gate.set()

        assert heard(client).startswith(b"HTTP/1.1 200 ")


def test_connections_that_say_nothing_make_room(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many connections the one that has been silent longest is closed, and who asks is answered."""
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 5)
    run = new_run()
    before = run.journal()
    silent = [connect(run) for _ in range(5)]
    answers = [ask(run, "GET", "/info").status_code for _ in range(3)]
    silent[0].settimeout(30)

    assert answers == [200] * 3
    assert heard(silent[0]) == b""
    for client in silent:
        client.close()
    assert_unharmed(run, before)


def test_connections_that_wait_for_answers_are_kept(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all wait for answers the next is told to come again, and those who wait get theirs."""
    run = new_run()
    run.executor.gate.clear()
    body = b'{"env_instances": "0", "key": "mine"}'
    waiting = [connect(run) for _ in range(3)]
    for client in waiting:
        client.sendall(head(run, f"Content-Length: {len(body)}", "Connection: close") + b"\r\n" + body)
    connections = run.door._server._servers[0].server_state.connections
    while sum(not each._waits_for_request() for each in list(connections)) < 3:  # type: ignore[union-attr] # ours
        ask(run, "GET", "/info")
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 3)
    refused = spoken(run, b"")
    run.executor.gate.set()
    answered = [heard(client) for client in waiting]
    for client in waiting:
        client.close()

    assert refused.startswith(b"HTTP/1.1 503 ")
    assert [answer.split()[1] for answer in answered] == [b"200"] * 3
    assert_unharmed(run, run.journal())


def test_thousands_of_silent_connections(new_run: RunMaker) -> None:
    """A crowd that keeps coming and says nothing takes neither the judge's descriptors nor the turn of who asks."""
    run = new_run()
    before, descriptors = run.journal(), len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count
    for _ in range(3):
        crowd = [connect(run) for _ in range(300)]
        assert ask(run, "GET", "/info").status_code == 200
        assert len(os.listdir("/proc/self/fd")) - descriptors < 300 + limits.MAX_CONNECTIONS + 50  # noqa: PTH208
        for client in crowd:
            client.close()

    assert_unharmed(run, before)
