"""Bodies are read whole or refused."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from starlette.requests import Request

from evopolicygym.serving.body import BodyRefused, read_body


def request(parts: Iterable[bytes | None]) -> Request:
    """Return a request whose body comes in parts: None is a client that hangs up, and the end one that waits."""
    coming = iter(parts)

    async def receive() -> dict[str, Any]:
        part = next(coming, b"")
        if part is None:
            return {"type": "http.disconnect"}
        if not part:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": part, "more_body": not part.endswith(b".")}

    return Request({"type": "http", "headers": []}, receive)


def test_a_body_comes_whole() -> None:
    """A body is returned as it came, in however many parts."""
    assert asyncio.run(read_body(request([b"ab", b"cd."]))) == b"abcd."


def test_a_body_that_breaks_off() -> None:
    """A client that hangs up within its body is refused as such."""
    with pytest.raises(BodyRefused) as refused:
        asyncio.run(read_body(request([b"abc", None])))
    assert refused.value.http_status == 400


def test_a_body_that_is_slow() -> None:
    """A body that hasn't come in time is refused, where there is a limit."""
    with pytest.raises(BodyRefused) as refused:
        asyncio.run(read_body(request([b"abc"]), within_s=0.01))
    assert refused.value.http_status == 408
