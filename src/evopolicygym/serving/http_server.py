"""HTTP servers on loopback: uvicorn in a thread, bounded request bodies, and checks of a request's sender.

Every user of the machine can reach a server on loopback, and so can every web page in their browsers, whose host name
may resolve to this machine. Each endpoint decides which requests it answers, by their host, origin and secret.
"""

import asyncio
import hmac
import logging
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from evopolicygym.core.errors import EvoPolicyGymError

MAX_HEAD = 16 * 1024
"""Largest request line and headers, in bytes."""
IDLE_S = 5.0
"""Seconds for which a connection may be idle after an answer."""
POLL_S = 0.5
TURNS_TO_ACCEPT = 5
"""Loop iterations until an accepted client has a connection; asyncio loses a client that is closed before."""


class Server:
    """Serves an ASGI application in a thread, on given sockets, until it is closed."""

    def __init__(
        self, app: ASGIApp, name: str, connection: type[H11Protocol] = H11Protocol, idle_s: float = IDLE_S
    ) -> None:
        """Start the thread ``name``; ``connection`` is the protocol class of connections."""
        self._app, self._connection, self._idle_s = app, connection, idle_s
        self._servers: list[uvicorn.Server] = []
        self._tasks: list[asyncio.Future[None]] = []
        self._loop = asyncio.new_event_loop()
        self._ended = threading.Event()
        self._name = name
        threading.Thread(target=self._answer, name=name, daemon=True).start()

    def serve(self, listener: socket.socket) -> str:
        """Serve on a listening socket; return its URL without a trailing slash.

        For a Unix socket the URL is ``http://localhost``.

        Raises ``EvoPolicyGymError`` if uvicorn doesn't start.
        """
        address = listener.getsockname()
        config = uvicorn.Config(
            self._app,
            loop="asyncio",
            http=self._connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=int(self._idle_s),
            h11_max_incomplete_event_size=MAX_HEAD,
        )
        asyncio.run_coroutine_threadsafe(self._run(uvicorn.Server(config), listener), self._loop).result()
        return "http://localhost" if isinstance(address, str) else f"http://{address[0]}:{address[1]}"

    def wait(self) -> None:
        """Wait until the server is closed, or for ``KeyboardInterrupt``.

        The thread is not joined: before Python 3.13, a thread counts as ended after an interrupted ``join``.
        """
        while not self._ended.wait(POLL_S):
            pass

    def close(self, finish: Callable[[], Awaitable[None]] | None = None) -> None:
        """Stop serving: abort requests in flight, then run ``finish`` in the event loop."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._shut_down(finish), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._ended.wait()
        self._loop.close()

    def _answer(self) -> None:
        self._loop.run_forever()
        self._ended.set()

    async def _run(self, server: uvicorn.Server, listener: socket.socket) -> None:
        task = asyncio.ensure_future(server.serve(sockets=[listener]))
        self._servers.append(server)
        self._tasks.append(task)
        while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn offers no event for it
            await asyncio.sleep(0.001)
        if not server.started:
            raise EvoPolicyGymError(f"The server {self._name!r} didn't start.")

    async def _shut_down(self, finish: Callable[[], Awaitable[None]] | None) -> None:
        for server in self._servers:  # uvicorn's own shutdown waits
            for listener in server.servers:
                listener.close()
        for _ in range(TURNS_TO_ACCEPT):
            await asyncio.sleep(0)
        for server in self._servers:
            for connection in list(server.server_state.connections):
                connection.transport.abort()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if finish is not None:
            await finish()
        await self._loop.shutdown_default_executor()


def disable_uvicorn_logs() -> None:
    """Disable uvicorn's loggers in this process: they would print what clients send."""
    for logger in ("uvicorn.error", "uvicorn.asgi"):
        logging.getLogger(logger).disabled = True


class BodyRefused(EvoPolicyGymError):
    """A body is too large, too slow or incomplete; the message is for the client."""

    def __init__(self, http_status: int, message: str) -> None:
        super().__init__(message)
        self.http_status = http_status
        """HTTP status: 400, 408, 413 or 503."""


class BodyMemory:
    """A bound on the bytes of all buffered bodies; for use in one event loop."""

    def __init__(self, most: int) -> None:
        self.left = most

    @contextmanager
    def reserve(self) -> "Iterator[BodyReservation]":
        """Yield the reservation of one request, released at the end."""
        reservation = BodyReservation(self)
        try:
            yield reservation
        finally:
            reservation.release()


class BodyReservation:
    """Bytes reserved for one request."""

    def __init__(self, memory: BodyMemory) -> None:
        self._memory, self._n_bytes = memory, 0

    def add(self, n_bytes: int) -> None:
        """Reserve more bytes; raise ``BodyRefused`` if they exceed the bound."""
        if n_bytes > self._memory.left:
            raise BodyRefused(503, "Other requests with large bodies are in flight; retry later.")
        self._memory.left -= n_bytes
        self._n_bytes += n_bytes

    def release(self) -> None:
        """Release all bytes."""
        self._memory.left += self._n_bytes
        self._n_bytes = 0


async def read_body(
    request: Request, max_bytes: int, within_s: float | None = None, on_chunk: Callable[[int], None] = lambda _: None
) -> bytes:
    """Return a request's body of at most ``max_bytes`` bytes, which must arrive within ``within_s`` seconds.

    ``on_chunk`` is called with the length of each chunk, and may raise ``BodyRefused``.

    Raises ``BodyRefused``; a longer ``content-length`` is refused before reading.
    """
    try:
        return await asyncio.wait_for(_read_bounded(request, max_bytes, on_chunk), within_s)
    except TimeoutError:
        raise BodyRefused(408, "The body took too long to arrive.") from None
    except ClientDisconnect:
        raise BodyRefused(400, "The body is incomplete.") from None


async def _read_bounded(request: Request, max_bytes: int, on_chunk: Callable[[int], None]) -> bytes:
    too_large = BodyRefused(413, f"Invalid body: expected at most {max_bytes} bytes.")
    declared = request.headers.get("content-length", "0")
    if not declared.isdigit() or int(declared) > max_bytes:
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        on_chunk(len(chunk))
        body += chunk
        if len(body) > max_bytes:
            raise too_large
    return bytes(body)


HOST = re.compile(r"(?:127\.0\.0\.1|localhost)(?::[0-9]{1,5})?")
"""``Host`` headers that name this machine."""
PORT = re.compile(r":[0-9]{1,5}\Z")
NO_PAGE = {"none"}
"""Allowed ``Sec-Fetch-Site`` for requests that no page sent; only browsers send this header."""
OWN_PAGES = {"none", "same-origin"}
"""Allowed ``Sec-Fetch-Site`` if the endpoint's own pages may send requests too."""


def is_for_this_machine(headers: Headers, others: Collection[str] = ()) -> bool:
    """Return whether a request's host is this machine or one of ``others``, with any port."""
    host = headers.get("host", "")
    return HOST.fullmatch(host) is not None or PORT.sub("", host) in others


def is_from_program(headers: Headers, hosts: Collection[str] = ()) -> bool:
    """Return whether a request names this machine, or one of ``hosts``, and no web page sent it.

    The judge, the model proxy and the MCP tools answer only such requests; the viewer has pages of its own.
    """
    return is_for_this_machine(headers, hosts) and not has_origin(headers) and fetch_site_allowed(headers, NO_PAGE)


def is_for(headers: Headers, port: int | None) -> bool:
    """Return whether a request's host is this machine with ``port``."""
    return headers.get("host", "") in {f"127.0.0.1:{port}", f"localhost:{port}"}


def has_origin(headers: Headers) -> bool:
    """Return whether a request has an ``Origin`` header, as browsers send."""
    return "origin" in headers


def has_other_origin(headers: Headers) -> bool:
    """Return whether a request's origin is a page of another host."""
    own = f"http://{headers.get('host', '')}"
    return any(origin != own for origin in headers.getlist("origin"))


def fetch_site_allowed(headers: Headers, allowed: set[str]) -> bool:
    """Return whether ``Sec-Fetch-Site`` is absent or allowed: ``NO_PAGE`` or ``OWN_PAGES``."""
    return set(headers.getlist("sec-fetch-site")) <= allowed


def is_secret(text: str | bytes, secret: str) -> bool:
    """Return whether a client's text equals the secret, in constant time."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    return hmac.compare_digest(data, secret.encode())
