"""Bodies of requests: read within a time, and counted against a bound on the memory of all. JSON responses."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.core.strict_json import dumps


class BodyRefused(EvoPolicyGymError):
    """A body is too slow or incomplete, or there is no memory for it; the message is for the client."""

    def __init__(self, http_status: int, message: str) -> None:
        super().__init__(message)
        self.http_status = http_status
        """HTTP status: 400, 408 or 503."""


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
    request: Request, within_s: float | None = None, on_chunk: Callable[[int], None] = lambda _: None
) -> bytes:
    """Return a request's body, which must arrive within ``within_s`` seconds; the guard bounds its size.

    ``on_chunk`` is called with the length of each chunk, and may raise ``BodyRefused``.

    Raises ``BodyRefused``.
    """
    try:
        return await asyncio.wait_for(_read(request, on_chunk), within_s)
    except TimeoutError:
        raise BodyRefused(408, "The body took too long to arrive.") from None
    except ClientDisconnect:
        raise BodyRefused(400, "The body is incomplete.") from None


def json_response(document: object, status: int = 200) -> Response:
    """Return a response with a document as strict JSON."""
    return Response(dumps(document), status, media_type="application/json")


async def _read(request: Request, on_chunk: Callable[[int], None]) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        on_chunk(len(chunk))
        body += chunk
    return bytes(body)
