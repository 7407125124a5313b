"""Attacks on the judge's door that take their time: slow clients and crowds. None is felt by the next client."""

import asyncio
import gc
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event
from time import monotonic

import pytest

from asking import ask, ask_until, assert_unharmed, charges, connect, head, heard, spoken
from evopolicygym.core.errors import EnvironmentFault, RecordError
from evopolicygym.judge.request import SubmitRequest
from evopolicygym.serving.connection import Connection
from fakes import PATIENCE_S, OpenRun, RunMaker, open_run

KEYED = b'{"env_instances": "0", "key": "mine"}'


@pytest.mark.parametrize("begun", ["nothing", "a head", "a body", "a second request"])
def test_a_request_has_a_deadline_as_a_whole(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch, begun: str) -> None:
    """Who sends a byte now and then is let go when the whole request should have come."""
    run = new_run()
    before = run.journal()
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "request_s", 0.4)
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
    for _ in range(4000):
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


def test_a_submission_may_take_longer_than_a_request(new_run: RunMaker) -> None:
    """The deadline is on asking, not on what is answered: once a request has come it has passed without effect."""
    run = new_run()
    run.executor.gate.clear()
    body = b'{"env_instances": "0"}'
    with connect(run) as client:
        client.sendall(head(run, f"Content-Length: {len(body)}", "Connection: close") + b"\r\n" + body)
        ask_until(run, lambda: run.session.state.submissions)
        for connection in connections(run):
            connection.loop.call_soon_threadsafe(connection._on_timeout)
        assert ask(run, "GET", "/info").status_code == 200
        run.executor.gate.set()

        assert heard(client).startswith(b"HTTP/1.1 200 ")


def test_connections_that_say_nothing_make_room(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many connections the one that has been silent longest is closed, and who asks is answered."""
    monkeypatch.setattr(Connection, "max_connections", 5)
    run = new_run()
    before = run.journal()
    silent = [connect(run) for _ in range(5)]
    answers = [ask(run, "GET", "/info").status_code for _ in range(3)]

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
    ask_until(run, lambda: have_asked(run) >= 3)
    monkeypatch.setattr(Connection, "max_connections", 3)
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
        assert len(os.listdir("/proc/self/fd")) - descriptors < 300 + Connection.max_connections + 50  # noqa: PTH208
        for client in crowd:
            client.close()

    assert_unharmed(run, before)


def asked_for(run: OpenRun) -> bytes:
    """Return a whole request for the one submission of a key, from a client that wants its connection closed."""
    return head(run, f"Content-Length: {len(KEYED)}", "Connection: close") + b"\r\n" + KEYED


def ask_and_leave(run: OpenRun) -> None:
    with suppress(BrokenPipeError, ConnectionResetError), connect(run) as client:
        client.sendall(asked_for(run))


def do_until(do: Callable[[], object], condition: Callable[[], bool]) -> None:
    """Do something again and again until a condition holds."""
    give_up = monotonic() + PATIENCE_S
    while not condition():
        assert monotonic() < give_up, "it never came to that"
        do()


def answering(run: OpenRun) -> set["asyncio.Task[None]"]:
    """Return the tasks of the judge that answer requests; it changes as they do."""
    return run.door._server._servers[0].server_state.tasks


def test_clients_that_leave_are_not_waited_for(new_run: RunMaker) -> None:
    """However many ask for a submission and leave before it is played, nothing of them stays; it is played once."""
    run = new_run()
    run.executor.gate.clear()
    with connect(run) as waiting:
        waiting.sendall(asked_for(run))
        for _ in range(100):
            ask_and_leave(run)
        wait_until_left_alone(run)
        run.executor.gate.set()

        assert heard(waiting).startswith(b"HTTP/1.1 200 ")
    assert len(charges(run)) == 1
    assert_unharmed(run, run.journal())


def wait_until_left_alone(run: OpenRun) -> None:
    """Wait until a submission is charged and its clients have left."""
    ask_until(run, lambda: run.session.state.submissions and left_alone(run))


def left_alone(run: OpenRun) -> bool:
    """Return whether the judge answers one client and, it may be, the one who has just asked how the run stands."""
    awaited = run.session._awaited.get(0)
    return len(answering(run)) <= 2 and awaited is not None and len(awaited._done_callbacks) == 1


def connections(run: OpenRun) -> list[Connection]:
    """Return the connections that the judge holds."""
    return list(run.door._server._servers[0].server_state.connections)  # type: ignore[arg-type] # all are ours


def have_asked(run: OpenRun) -> int:
    """Return of how many clients the request has come as a whole."""
    return sum(not each._waits_for_request() for each in connections(run))


def requests_held() -> int:
    """Return how many requests for a submission are in memory, those of other tests included."""
    return sum(isinstance(one, SubmitRequest) for one in gc.get_objects())


def test_what_was_asked_is_not_held_while_it_is_played(new_run: RunMaker) -> None:
    """A client that waits costs no more for a long body than for a short one."""
    run = new_run()
    run.executor.gate.clear()
    before, clients = requests_held(), [connect(run) for _ in range(5)]
    for client in clients:
        client.sendall(asked_for(run))
    ask_until(run, lambda: have_asked(run) >= 5)
    ask_until(run, lambda: requests_held() <= before)
    run.executor.gate.set()
    answered = [heard(client) for client in clients]
    for client in clients:
        client.close()

    assert [answer.split()[1] for answer in answered] == [b"200"] * 5


def test_clients_that_leave_before_a_fault(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where nobody is left to be told of a fault, no log is told of it either."""
    with open_run(tmp_path, {}) as run:
        run.executor.gate.clear()
        run.executor.fault = EnvironmentFault("the simulator raised")
        ask_and_leave(run)
        wait_until_left_alone(run)
        told = run.session.published(0)
        run.executor.gate.set()
        fault = told.exception(PATIENCE_S)
        ask(run, "GET", "/info")
    del run, told
    gc.collect()

    assert (type(fault), caplog.records) == (RecordError, [])


def test_clients_that_leave_while_a_checkpoint_is_taken(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that nobody waits for any more are no endless queue: the next are told to come again, then answered."""
    monkeypatch.setattr(Connection, "max_connections", 5)
    run, taken = new_run(), Event()
    really = run.session._capture
    monkeypatch.setattr(run.session, "_capture", lambda settings: (taken.wait(PATIENCE_S), really(settings))[1])
    queue = answering(run)
    do_until(lambda: ask_and_leave(run), lambda: len(queue) > 5)
    full = len(queue)
    refused = spoken(run, b"")
    for _ in range(100):
        ask_and_leave(run)
    do_until(lambda: spoken(run, b""), lambda: len(queue) - full < 50)  # those that are refused take a moment
    taken.set()
    info = head(run, "Connection: close", call="GET /info") + b"\r\n"

    assert refused.startswith(b"HTTP/1.1 503 ")
    do_until(lambda: None, lambda: spoken(run, info).startswith(b"HTTP/1.1 200 "))
    assert len(charges(run)) == 1
    assert_unharmed(run, run.journal())
