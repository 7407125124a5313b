"""A request's body, read whole and never more of it than is allowed.

What stands in it is not looked at here, and how long a connection may be silent is decided in each endpoint's own
connection.
"""

import asyncio

from starlette.requests import ClientDisconnect, Request

from evopolicygym.core.errors import EvoPolicyGymError


class BodyRefused(EvoPolicyGymError):
    """A body is too large, too slow, or broke off; the message is for the client."""

    def __init__(self, http_status: int, message: str) -> None:
        super().__init__(message)
        self.http_status = http_status
        """What HTTP calls it: 413, 408 or 400."""


async def read_body(request: Request, most: int, within_s: float | None = None) -> bytes:
    """Return a request's body of at most ``most`` bytes, which must have come within ``within_s`` seconds.

    Raises ``BodyRefused``; a body that says that it is longer is refused before any of it is read.
    """
    try:
        return await asyncio.wait_for(_bounded(request, most), within_s)
    except TimeoutError:
        raise BodyRefused(408, "The body took too long to come.") from None
    except ClientDisconnect:
        raise BodyRefused(400, "The body broke off.") from None


async def _bounded(request: Request, most: int) -> bytes:
    too_large = BodyRefused(413, f"The body may have at most {most} bytes.")
    declared = request.headers.get("content-length", "0")
    if not declared.isdigit() or int(declared) > most:
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise too_large
    return bytes(body)
