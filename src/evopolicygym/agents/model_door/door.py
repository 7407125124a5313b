"""The model's door: serves one upstream to one agent, on listening sockets that are handed in.

It holds the real key; the agent holds a dummy that is worth nothing elsewhere. What passes is not told here but in
``gate.py``.
"""

import asyncio
import logging
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from evopolicygym.agents.model_door.ledger import Ledger
from evopolicygym.agents.model_door.log import ModelLog
from evopolicygym.agents.model_door.upstream import ModelEndpoint, ModelUpstream
from evopolicygym.agents.model_door.usage import ModelUsage
from evopolicygym.core.errors import MissingExtra

MAX_CONNECTIONS = 64
"""Connections at once; another is closed at once, before it has said anything."""

for logger in ("uvicorn.error", "uvicorn.asgi"):
    logging.getLogger(logger).disabled = True  # what a client sends is not printed, nor does it fill a log


class ModelDoor:
    """Serves one model upstream."""

    def __init__(
        self,
        upstream: ModelUpstream,
        log: Path | None = None,
        told: Callable[[Mapping[str, float]], None] = lambda _: None,
    ) -> None:
        """Take the real key from its variable; a line for each request goes into ``log``, the sums go to ``told``.

        Raises ``UsageError`` where the variable isn't set and ``MissingExtra`` where httpx isn't installed.
        """
        secret = upstream.key()
        self._upstream = upstream
        self._dummy = f"sk-dummy-{secrets.token_urlsafe(24)}"
        self._ledger = Ledger(upstream, told)
        try:
            from evopolicygym.agents.model_door.forward import THREAD, Forwarder
            from evopolicygym.agents.model_door.gate import Gate
        except ModuleNotFoundError as error:
            raise MissingExtra("The model's door", "agents", str(error.name)) from error
        self._forwarder = Forwarder(upstream, secret, MAX_CONNECTIONS)
        self._app = Gate(upstream, self._dummy, secret, self._forwarder, self._ledger, ModelLog(log))
        self._servers: list[uvicorn.Server] = []
        self._tasks: list[asyncio.Future[None]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=THREAD, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def serve(self, listener: socket.socket) -> ModelEndpoint:
        """Answer on a listening socket; return where it is."""
        host, port = listener.getsockname()[:2]
        config = uvicorn.Config(
            self._app,
            loop="asyncio",
            http=_BoundedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=30,
            h11_max_incomplete_event_size=16 * 1024,
        )
        asyncio.run_coroutine_threadsafe(self._run(uvicorn.Server(config), listener), self._loop).result()
        return ModelEndpoint(f"http://{host}:{port}", self._dummy, self._upstream.wire)

    def usage(self) -> ModelUsage:
        """Return what has gone through so far."""
        return self._ledger.usage()

    def spent(self) -> str:
        """Return in a sentence which limit is reached; empty where none is."""
        return self._ledger.spent()

    def trouble(self) -> int | None:
        """Return the status of the last generation where it failed, 0 where nobody answered; else None."""
        return self._ledger.trouble()

    def close(self) -> None:
        """Answer no more; requests under way are cut off, here and at the model server."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _run(self, server: uvicorn.Server, listener: socket.socket) -> None:
        task = asyncio.ensure_future(server.serve(sockets=[listener]))
        self._servers.append(server)
        self._tasks.append(task)
        while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn offers no event for it
            await asyncio.sleep(0.001)

    async def _shut(self) -> None:
        for server in self._servers:  # not by uvicorn's own way, which takes its time
            for listening in server.servers:
                listening.close()
            for connection in list(server.server_state.connections):
                connection.transport.abort()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._forwarder.close()
        await self._loop.shutdown_default_executor()


class _BoundedProtocol(H11Protocol):
    """Takes so many connections and no more, whether they say anything or not."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
