"""Serves one application with uvicorn, in a thread of its own, on listening sockets that are handed in."""

import asyncio
import logging
import socket
import threading
from collections.abc import Awaitable, Callable

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from evopolicygym.core.errors import EvoPolicyGymError

MAX_HEAD = 16 * 1024
"""Bytes of a request's first line and headers that are waited for."""
IDLE_S = 5.0
"""Seconds for which a connection may be silent after an answer."""
LOOK_S = 0.5
TURNS_TO_ACCEPT = 5
"""Turns of the loop after which a client that was let in has a connection; asyncio forgets one cut off before."""


class Server:
    """Answers from when it is given a socket until it is closed."""

    def __init__(
        self, app: ASGIApp, name: str, connection: type[H11Protocol] = H11Protocol, idle_s: float = IDLE_S
    ) -> None:
        """Start the thread, called ``name``; ``connection`` is what each connection is served by."""
        self._app, self._connection, self._idle_s = app, connection, idle_s
        self._servers: list[uvicorn.Server] = []
        self._tasks: list[asyncio.Future[None]] = []
        self._loop = asyncio.new_event_loop()
        self._ended = threading.Event()
        self._name = name
        threading.Thread(target=self._answer, name=name, daemon=True).start()

    def serve(self, listener: socket.socket) -> str:
        """Answer on a listening socket; return where that is, without a slash at the end.

        A socket with a path in place of a port is asked as ``http://localhost``, through that path.

        Raises ``EvoPolicyGymError`` where uvicorn doesn't start.
        """
        at = listener.getsockname()
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
        return "http://localhost" if isinstance(at, str) else f"http://{at[0]}:{at[1]}"

    def wait(self) -> None:
        """Return when the server is closed; an interruption of the program gets through.

        A thread whose ``join`` was interrupted counts as ended before Python 3.13, so none is joined here.
        """
        while not self._ended.wait(LOOK_S):
            pass

    def close(self, finish: Callable[[], Awaitable[None]] | None = None) -> None:
        """Answer no more; requests under way are cut off, then ``finish`` runs where they ran."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._shut(finish), self._loop).result()
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
            raise EvoPolicyGymError(f"The server of the {self._name} didn't start.")

    async def _shut(self, finish: Callable[[], Awaitable[None]] | None) -> None:
        for server in self._servers:  # not by uvicorn's own way, which takes its time
            for listening in server.servers:
                listening.close()
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


def print_nothing() -> None:
    """Have uvicorn neither print what a client sends nor fill a log with it, from now on and in this whole process."""
    for logger in ("uvicorn.error", "uvicorn.asgi"):
        logging.getLogger(logger).disabled = True
