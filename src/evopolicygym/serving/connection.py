"""Connections of all servers: bounded in number, and in the time that a request takes to arrive."""

import asyncio
import socket
from http import HTTPStatus
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from evopolicygym.core.strict_json import dumps

SHORT_BODY = 64 * 1024
"""Bytes of an unread body up to which a connection is kept after an answer."""


class Connection(H11Protocol):
    """Serves HTTP on one connection; clients that are slow, endless or unreadable are answered and disconnected."""

    max_connections: ClassVar[int] = 256
    """The limit on open connections, and on requests in progress, for each socket of a server."""
    request_s: ClassVar[float] = 10.0
    """Seconds within which a request must arrive, from the connection's start or the previous answer."""
    _deadline: asyncio.TimerHandle
    _since = 0.0
    """When waiting for the current request began."""

    def refusal(self, http_status: int, message: str) -> bytes:  # noqa: ARG002 - of a subclass
        """Return the JSON body of a refusal."""
        return dumps({"error": message}).encode()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's own
        """Begin to wait for a request; if there are too many connections, evict the one that has waited longest."""
        super().connection_made(transport)
        _send_at_once(transport.get_extra_info("socket"))
        self._wait_for_request()
        if len(self.tasks) > self.max_connections:  # requests of clients that have left
            self._refuse_for_now()
        elif len(self._others()) >= self.max_connections:
            self._evict_oldest()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline."""
        self._deadline.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request, unless the unread rest of this one is too long."""
        super().on_response_complete()
        self._deadline.cancel()
        if self.conn.their_state is h11.SEND_BODY and not self._body_is_short():
            self.transport.close()
        if not self.transport.is_closing():
            self._wait_for_request()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - a message of our own
        """Reject what is not HTTP."""
        self._refuse(400, "This is not a valid HTTP request.")

    def _wait_for_request(self) -> None:
        self._since = self.loop.time()
        self._deadline = self.loop.call_later(self.request_s, self._on_timeout)

    def _waits_for_request(self) -> bool:
        """Return whether the current request is incomplete."""
        return self.conn.their_state in {h11.IDLE, h11.SEND_BODY}

    def _on_timeout(self) -> None:
        if self._waits_for_request():
            self._refuse(408, "The request took too long to arrive.")

    def _evict_oldest(self) -> None:
        """Close the oldest connection that waits for a request; if there is none, refuse this one."""
        waiting: list[Connection] = [each for each in self._others() if each._waits_for_request()]  # noqa: SLF001 - same class
        if waiting:
            min(waiting, key=lambda each: each._since).transport.abort()  # noqa: SLF001 - as above
        else:
            self._refuse_for_now()

    def _others(self) -> "list[Connection]":
        """Return the other open connections; uvicorn lists those that are being closed until they are."""
        others = [each for each in self.connections if isinstance(each, Connection) and each is not self]
        return [each for each in others if not each.transport.is_closing()]

    def _body_is_short(self) -> bool:
        lengths = [value for name, value in self.headers if name == b"content-length"]
        return bool(lengths) and int(lengths[0]) <= SHORT_BODY

    def _refuse_for_now(self) -> None:
        self._refuse(503, f"{self.max_connections} connections are being answered; ask again later.")

    def _refuse(self, http_status: int, message: str) -> None:
        """Answer, if no answer has begun, and close the connection."""
        if self.transport.is_closing():
            return
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            body = self.refusal(http_status, message)
            headers = [
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
                ("connection", "close"),
            ]
            events: list[Any] = [
                h11.Response(status_code=http_status, headers=headers, reason=HTTPStatus(http_status).phrase),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ]
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def _send_at_once(connection: socket.socket) -> None:
    """Disable Nagle's algorithm, with which the second part of an answer waits 40 ms for an acknowledgement."""
    if connection.family in {socket.AF_INET, socket.AF_INET6}:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
