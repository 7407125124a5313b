"""The model proxy: serves one upstream to one agent on given listening sockets.

It holds the real key; the agent holds a dummy key that is valid for this proxy only.
"""

import secrets
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from evopolicygym.core.errors import MissingExtra
from evopolicygym.model_proxy.failures import Trouble
from evopolicygym.model_proxy.ledger import Ledger, ModelLog
from evopolicygym.model_proxy.upstream import ModelAddress, ModelUpstream
from evopolicygym.model_proxy.usage import ModelUsage
from evopolicygym.serving.connection import Connection
from evopolicygym.serving.http_server import Server, disable_uvicorn_logs

MAX_CONNECTIONS = 64
"""Most connections at once."""
IDLE_S = 30.0
"""Seconds for which a connection may be idle after an answer."""

disable_uvicorn_logs()


class ModelProxy:
    """Serves one model upstream until it is closed."""

    def __init__(
        self,
        upstream: ModelUpstream,
        log: Path | None = None,
        used: Callable[[Mapping[str, float]], None] = lambda _: None,
        *,
        warns: bool = True,
    ) -> None:
        """Read the real key from its variable; requests are logged to ``log``, ``used`` is called with the totals.

        ``warns``: failures of the model server are warned of here; otherwise the caller does.

        Raises ``UsageError`` if the variable isn't set and ``MissingExtra`` if httpx2 isn't installed.
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
        self._endpoint = ProxyEndpoint(
            upstream, self._dummy, secret, self._forwarder, self._ledger, ModelLog(log), warns=warns
        )
        self._server = Server(self._endpoint, "model proxy", ProxyConnection, IDLE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def serve(self, listener: socket.socket) -> ModelAddress:
        """Serve on a listening socket; return the address and the dummy key."""
        return ModelAddress(self._server.serve(listener), self._dummy, self._upstream.wire)

    def usage(self) -> ModelUsage:
        """Return the totals so far."""
        return self._ledger.usage()

    def spent(self) -> str:
        """Return a sentence that names the limit that is reached; empty if none is."""
        return self._ledger.spent()

    def trouble(self) -> Trouble | None:
        """Return how the model server failed at the last generation; None if it didn't."""
        return self._ledger.trouble()

    @property
    def is_waiting(self) -> bool:
        """Whether a request is under way; it ends by itself once the server has been silent for too long."""
        return self._endpoint.is_waiting

    def waiting_s(self) -> float:
        """Return for how many seconds the oldest request under way has waited, or the last had when its client left."""
        return self._endpoint.waiting_s()

    def close(self) -> None:
        """Stop serving; requests in flight are cancelled, here and at the model server."""
        self._server.close(self._forwarder.close)


class ProxyConnection(Connection):
    """A connection of an agent's program, which may send long conversations."""

    max_connections = MAX_CONNECTIONS
    request_s = 60.0
