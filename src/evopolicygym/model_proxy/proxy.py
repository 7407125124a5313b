"""The model proxy: serves one upstream to one agent, on listening sockets that are handed in.

It holds the real key; the agent holds a dummy that is worth nothing elsewhere. What passes is described in
``endpoint.py``.
"""

import asyncio
import secrets
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from uvicorn.protocols.http.h11_impl import H11Protocol

from evopolicygym.core.errors import MissingExtra
from evopolicygym.model_proxy.ledger import Ledger
from evopolicygym.model_proxy.log import ModelLog
from evopolicygym.model_proxy.upstream import ModelAddress, ModelUpstream
from evopolicygym.model_proxy.usage import ModelUsage
from evopolicygym.serving.server import Server, print_nothing

MAX_CONNECTIONS = 64
"""Connections at once; another is closed at once, before it has said anything."""
IDLE_S = 30.0
"""Seconds for which a connection may be silent after an answer."""

print_nothing()


class ModelProxy:
    """Serves one model upstream."""

    def __init__(
        self,
        upstream: ModelUpstream,
        log: Path | None = None,
        used: Callable[[Mapping[str, float]], None] = lambda _: None,
    ) -> None:
        """Take the real key from its variable; a line for each request goes into ``log``, the sums go to ``used``.

        Raises ``UsageError`` where the variable isn't set and ``MissingExtra`` where httpx2 isn't installed.
        """
        secret = upstream.key()
        self._upstream = upstream
        self._dummy = f"sk-dummy-{secrets.token_urlsafe(24)}"
        self._ledger = Ledger(upstream, used)
        try:
            from evopolicygym.model_proxy.endpoint import ProxyEndpoint
            from evopolicygym.model_proxy.forward import Forwarder
        except ModuleNotFoundError as error:
            raise MissingExtra("The model proxy", "agents", str(error.name)) from error
        self._forwarder = Forwarder(upstream, secret, MAX_CONNECTIONS)
        application = ProxyEndpoint(upstream, self._dummy, secret, self._forwarder, self._ledger, ModelLog(log))
        self._server = Server(application, "model proxy", _BoundedProtocol, IDLE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def serve(self, listener: socket.socket) -> ModelAddress:
        """Answer on a listening socket; return where it is."""
        return ModelAddress(self._server.serve(listener), self._dummy, self._upstream.wire)

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
        self._server.close(self._forwarder.close)


class _BoundedProtocol(H11Protocol):
    """Takes so many connections and no more, whether they say anything or not."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
