"""An answer on its way to an agent's program: its head, its body, and signs of life while the model server is silent.

A model server may read a long prompt for minutes before the first byte of a stream, and many clients leave earlier. So
a stream is begun before the server's answer, with what its format has for such a silence.
"""

import asyncio
import json
import time
from collections.abc import Mapping

from starlette.types import Message, Send

from evopolicygym.model_proxy.formats import ApiFormat, error_body

PULSE_S = 45.0
"""Seconds without a byte after which a stream gets a sign of life."""
PULSES: Mapping[ApiFormat, bytes] = {
    ApiFormat.CHAT: b": ping\n\n",
    ApiFormat.RESPONSES: b'event: keepalive\ndata: {"type": "keepalive"}\n\n',
    ApiFormat.MESSAGES: b'event: ping\ndata: {"type": "ping"}\n\n',
}
"""Signs of life of each format: an event that its clients ignore, or else a comment. Clients of Gemini know neither."""
EVENT_STREAM = [("content-type", "text/event-stream"), ("cache-control", "no-cache")]
Pairs = list[tuple[str, str]]


class ClientStream:
    """One answer to one client."""

    def __init__(self, wire: ApiFormat, *, streams: bool) -> None:
        """Take the format, and whether the client asked for a stream of events."""
        self._send: Send = _discard
        self._wire = wire
        self._pulse = PULSES.get(wire, b"") if streams else b""
        self._lock = asyncio.Lock()
        self._tail = b"\n\n"
        self._last = time.monotonic()
        self.status = 0
        """HTTP status that the client was given; 0 before it."""
        self.is_early = False
        """Whether the stream was begun before the model server answered."""

    def connect(self, send: Send) -> None:
        """Take what sends to the client, before anything is sent."""
        self._send, self._last = send, time.monotonic()

    async def begin(self, status: int, headers: Pairs) -> None:
        """Send the head, unless the stream was begun early."""
        async with self._lock:
            await self._begin(status, headers)

    async def write(self, data: bytes, *, more: bool = True) -> None:
        """Send a part of the body."""
        async with self._lock:
            await self._write(data, more=more)

    async def fail(self, status: int, headers: Pairs, body: bytes, code: str, message: str) -> None:
        """Send an error, and end: as ``body``, or as an event of a stream that was begun early."""
        async with self._lock:
            if self.is_early:
                await self._write(error_event(self._wire, status, code, message), more=False)
            else:
                await self._begin(status, headers)
                await self._write(body, more=False)

    async def beat(self) -> None:
        """Send signs of life while nothing else is sent; never ends."""
        while True:
            await asyncio.sleep(max(0.0, self._last + PULSE_S - time.monotonic()))
            async with self._lock:
                if time.monotonic() < self._last + PULSE_S:
                    continue
                self._last = time.monotonic()
                if self._pulse and self._tail == b"\n\n":  # never within an event
                    self.is_early |= not self.status
                    await self._begin(200, EVENT_STREAM)
                    await self._write(self._pulse, more=True)

    async def _begin(self, status: int, headers: Pairs) -> None:
        if self.status:
            return
        self.status = status
        pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})

    async def _write(self, data: bytes, *, more: bool) -> None:
        self._last = time.monotonic()
        self._tail = (self._tail + data.replace(b"\r", b""))[-2:]
        await self._send({"type": "http.response.body", "body": data, "more_body": more})


async def _discard(_message: Message) -> None:
    pass


def error_event(wire: ApiFormat, status: int, code: str, message: str) -> bytes:
    """Return an error as an event of a stream in an API format."""
    body, name = error_body(wire, status, code, message), ""
    if wire is ApiFormat.RESPONSES:
        error = {"code": code, "message": message}
        failed = {"id": "resp_0", "object": "response", "status": "failed", "output": [], "error": error}
        body, name = {"type": "response.failed", "sequence_number": 0, "response": failed}, "event: response.failed\n"
    elif wire is ApiFormat.MESSAGES:
        name = "event: error\n"
    return f"{name}data: {json.dumps(body)}\n\n".encode()
