"""One connection to the judge's endpoint: how long a request may take to come, and how many connections may stand open.

What a request means is described in ``http.py``; how long an answer takes is not limited.
"""

import asyncio
import socket
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from evopolicygym.core.errors import RefusalStatus, RequestRefused
from evopolicygym.records.jsontext import dumps

MAX_BODY = 64 * 1024
"""Bytes of a request's body."""
MAX_CONNECTIONS = 256
"""Connections that stand open at a time, and requests that are answered, for each socket of the judge's."""
REQUEST_S = 10.0
"""Seconds within which a request must have come, from its connection's first moment or from the answer before."""


def refusal_body(refused: RequestRefused) -> bytes:
    """Return what the body of a refusal says."""
    return dumps({"status": refused.status, "error": {"message": str(refused)}}).encode("utf-8", "replace")


def _send_at_once(connection: socket.socket) -> None:
    """Have no answer's second part wait for the first to be acknowledged, which takes a client 40 ms."""
    if connection.family in {socket.AF_INET, socket.AF_INET6}:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class Connection(H11Protocol):
    """Serves HTTP on one connection; a client that is slow, endless or unreadable is answered and let go."""

    _deadline: asyncio.TimerHandle
    _since = 0.0
    """When the present request began to be waited for."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's own
        """Begin to wait for a request, at the cost of whoever waits longest where too many do."""
        super().connection_made(transport)
        _send_at_once(transport.get_extra_info("socket"))
        self._wait_for_request()
        if len(self.tasks) > MAX_CONNECTIONS:  # of clients that have left, whose submissions are not yet charged
            self._refuse_for_now()
        elif len(self.connections) > MAX_CONNECTIONS:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._deadline.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request, unless the rest of this one is more than anybody reads."""
        super().on_response_complete()
        self._deadline.cancel()
        if self.conn.their_state is h11.SEND_BODY and not self._body_is_short():
            self.transport.close()
        if not self.transport.is_closing():
            self._wait_for_request()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the words are ours
        """Refuse what is no HTTP."""
        self._refuse(RequestRefused(RefusalStatus.INVALID_REQUEST, "This is no HTTP request that can be read."))

    def _wait_for_request(self) -> None:
        self._since = self.loop.time()
        self._deadline = self.loop.call_later(REQUEST_S, self._let_go)

    def _waits_for_request(self) -> bool:
        """Return whether the present request has not come as a whole."""
        return self.conn.their_state in {h11.IDLE, h11.SEND_BODY}

    def _let_go(self) -> None:
        if self._waits_for_request():
            self._refuse(RequestRefused(RefusalStatus.INVALID_REQUEST, "The request took too long to come.", 408))

    def _make_room(self) -> None:
        """Let the oldest connection go that brings no request, this one where all others do."""
        waiting: list[Connection] = [each for each in self._others() if each._waits_for_request()]  # noqa: SLF001 - ours
        if waiting:
            min(waiting, key=lambda each: each._since).transport.abort()  # noqa: SLF001 - as above
        else:
            self._refuse_for_now()

    def _others(self) -> "list[Connection]":
        return [each for each in self.connections if isinstance(each, Connection) and each is not self]

    def _body_is_short(self) -> bool:
        lengths = [value for name, value in self.headers if name == b"content-length"]
        return bool(lengths) and int(lengths[0]) <= MAX_BODY

    def _refuse_for_now(self) -> None:
        message = f"{MAX_CONNECTIONS} connections are being answered; ask again later."
        self._refuse(RequestRefused(RefusalStatus.UNAVAILABLE, message, 503))

    def _refuse(self, refused: RequestRefused) -> None:
        """Answer at once, where no answer has begun, and close."""
        if self.transport.is_closing():
            return
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            body = refusal_body(refused)
            headers = [
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
                ("connection", "close"),
            ]
            reason = HTTPStatus(refused.http_status).phrase
            events: list[Any] = [
                h11.Response(status_code=refused.http_status, headers=headers, reason=reason),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ]
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
