"""HTTP servers: uvicorn in a thread."""

import asyncio
import logging
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.serving.connection import Connection

MAX_HEAD = 16 * 1024
"""Largest request line and headers, in bytes."""
MAX_MESSAGE = 8 << 20
"""Bytes of a message of a WebSocket."""
IDLE_S = 5.0
"""Seconds for which a connection may be idle after an answer."""
POLL_S = 0.5
TURNS_TO_ACCEPT = 5
"""Loop iterations until an accepted client has a connection; asyncio loses a client that is closed before."""


class Server:
    """Serves an ASGI application in a thread, on given sockets, until it is closed."""

    def __init__(
        self,
        app: ASGIApp,
        name: str,
        connection: type[Connection] = Connection,
        idle_s: float = IDLE_S,
        *,
        has_lifespan: bool = False,
        websockets: bool = False,
    ) -> None:
        """Start the thread ``name``; ``connection`` is the protocol class of connections.

        With ``has_lifespan``, the application is told when it begins and ends to be served. ``websockets`` are served
        with the package of that name, which no extra but ``training`` brings.
        """
        self._app, self._connection, self._idle_s, self._has_lifespan = app, connection, idle_s, has_lifespan
        self._websockets = websockets
        self._servers: list[uvicorn.Server] = []
        self._tasks: list[asyncio.Future[None]] = []
        self._loop = asyncio.new_event_loop()
        self._ended = threading.Event()
        self._name = name
        threading.Thread(target=self._answer, name=name, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
            ws="websockets-sansio" if self._websockets else "none",
            ws_max_size=MAX_MESSAGE,
            lifespan="on" if self._has_lifespan else "off",
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
