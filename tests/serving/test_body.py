"""Bodies are read whole or refused, and no more of them is read than is allowed."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from starlette.requests import Request

from evopolicygym.serving.http_server import BodyRefused, read_body


def request(parts: Iterable[bytes | None], declared: str = "") -> Request:
    """Return a request whose body comes in parts: None is a client that hangs up, and the end one that waits."""
    coming = iter(parts)

    async def receive() -> dict[str, Any]:
        part = next(coming, b"")
        if part is None:
            return {"type": "http.disconnect"}
        if not part:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": part, "more_body": not part.endswith(b".")}

    headers = [(b"content-length", declared.encode())] if declared else []
    return Request({"type": "http", "headers": headers}, receive)


def test_a_body_comes_whole() -> None:
    """A body of as many bytes as are allowed is returned as it came, in however many parts."""
    assert asyncio.run(read_body(request([b"ab", b"cd."], "5"), 5)) == b"abcd."


@pytest.mark.parametrize("declared", ["6", "-1", "many"])
def test_a_length_that_is_refused(declared: str) -> None:
    """What says that it is longer than is allowed, or says no number, is refused before any of it is read."""
    with pytest.raises(BodyRefused) as refused:
        asyncio.run(read_body(request([], declared), 5))
    assert refused.value.http_status == 413


def test_a_body_that_is_longer_than_it_says() -> None:
    """What is longer without saying so is refused once it is."""
    with pytest.raises(BodyRefused) as refused:
        asyncio.run(read_body(request([b"abc", b"def", b"never read"], "3"), 5))
    assert refused.value.http_status == 413


def test_a_body_that_breaks_off() -> None:
    """A client that hangs up within its body is refused as such."""
    with pytest.raises(BodyRefused) as refused:
        asyncio.run(read_body(request([b"abc", None]), 5))
    assert refused.value.http_status == 400


def test_a_body_that_is_slow() -> None:
    """A body that hasn't come in time is refused, where there is a limit."""
    with pytest.raises(BodyRefused) as refused:
        asyncio.run(read_body(request([b"abc"]), 5, within_s=0.01))
    assert refused.value.http_status == 408
