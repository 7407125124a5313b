"""A request's body, read whole and never more of it than is allowed.

What stands in it is not looked at here, and how long a connection may be silent is decided in each endpoint's own
connection.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.requests import ClientDisconnect, Request

from evopolicygym.core.errors import EvoPolicyGymError


class BodyRefused(EvoPolicyGymError):
    """A body is too large, too slow, or broke off; the message is for the client."""

    def __init__(self, http_status: int, message: str) -> None:
        super().__init__(message)
        self.http_status = http_status
        """What HTTP calls it: 413, 408 or 400."""


class BodyRoom:
    """Bytes of bodies that several requests hold together; all of them in one event loop."""

    def __init__(self, most: int) -> None:
        self.left = most

    @contextmanager
    def hold(self) -> "Iterator[BodyHold]":
        """Give what one request holds, and let go of it in the end."""
        held = BodyHold(self)
        try:
            yield held
        finally:
            held.release()


class BodyHold:
    """Bytes that one request holds."""

    def __init__(self, room: BodyRoom) -> None:
        self._room, self._n_bytes = room, 0

    def more(self, n_bytes: int) -> None:
        """Hold so many bytes more; raise ``BodyRefused`` where there is no room for them."""
        if n_bytes > self._room.left:
            raise BodyRefused(503, "Other requests with large bodies are under way; ask again in a while.")
        self._room.left -= n_bytes
        self._n_bytes += n_bytes

    def release(self) -> None:
        """Let go of them."""
        self._room.left += self._n_bytes
        self._n_bytes = 0


async def read_body(
    request: Request, most: int, within_s: float | None = None, came: Callable[[int], None] = lambda _: None
) -> bytes:
    """Return a request's body of at most ``most`` bytes, which must have come within ``within_s`` seconds.

    ``came`` is passed how many bytes each piece of it has, and may raise ``BodyRefused``.

    Raises ``BodyRefused``; a body that says that it is longer is refused before any of it is read.
    """
    try:
        return await asyncio.wait_for(_bounded(request, most, came), within_s)
    except TimeoutError:
        raise BodyRefused(408, "The body took too long to come.") from None
    except ClientDisconnect:
        raise BodyRefused(400, "The body broke off.") from None


async def _bounded(request: Request, most: int, came: Callable[[int], None]) -> bytes:
    too_large = BodyRefused(413, f"The body may have at most {most} bytes.")
    declared = request.headers.get("content-length", "0")
    if not declared.isdigit() or int(declared) > most:
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        came(len(chunk))
        body += chunk
        if len(body) > most:
            raise too_large
    return bytes(body)
