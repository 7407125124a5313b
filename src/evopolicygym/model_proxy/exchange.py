"""One request on its way through a model proxy: out, and the answer back chunk by chunk.

Nothing is decided here: what comes was admitted by ``endpoint.py``.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx2
from starlette.types import Send

from evopolicygym.model_proxy.call import ModelRequest
from evopolicygym.model_proxy.forward import UNREACHED, Forwarder
from evopolicygym.model_proxy.mask import Mask, mask_account
from evopolicygym.model_proxy.meter import AnswerMeter
from evopolicygym.model_proxy.usage import Usage
from evopolicygym.model_proxy.wire import Headers, ModelRequestRefused, error_body

MAX_ERROR = 64 << 10
"""Bytes of an error that are passed on."""
ANSWERED = range(200, 300)
ERRORS = range(400, 600)
CUT_OFF = frozenset({408, 499, 504, 524})
"""Errors that say that somebody stopped waiting: the model may have worked for them."""
CLIENT_LEFT = "client left"
OWN_WORDS = {
    401: "The model server does not accept the key of this run; that is for the person who started it to mend.",
    403: "The model server refuses this to the account of this run.",
    407: "The model server asks for more than a key.",
}
"""Errors that may tell whose account it is are described in our own words."""


@dataclass(slots=True)
class Exchange:
    """One admitted request."""

    forwarder: Forwarder
    call: ModelRequest
    model: str
    headers: Headers
    body: bytes
    """Empty once the model server has it."""
    mask: Mask
    worst: Usage | None = None
    """What is reserved for it; None where cost is not limited."""
    release: Callable[[], None] = lambda: None
    """Called once the body is let go of."""
    begun: float = field(default_factory=time.monotonic)
    status: int = 0
    """Of the answer; 0 while there is none."""
    note: str = CLIENT_LEFT
    """How it ended, where it didn't end well."""
    billable: bool = True
    """Whether the model may have worked on it, as far as can be shown from here."""
    n_bytes: int = 0
    """Of the body."""
    settled: bool = False
    """Whether it is counted."""
    meter: AnswerMeter | None = None
    """Of an answer that is more than an error."""

    def __post_init__(self) -> None:
        """Note the body's length while there is one."""
        self.n_bytes = len(self.body)

    async def run(self, send: Send) -> None:
        """Ask, and pass the answer on; an answer that breaks off is left unended, so that the client sees it."""
        try:
            async with self.forwarder.ask(self.call, self.headers, self.body) as response:
                self.status = response.status_code
                self.forget_body()
                if self.status in ANSWERED:
                    await self._stream(response, send)
                elif self.status in ERRORS:
                    await self._error(response, send)
                else:
                    self.status, self.note, self.billable = 502, "neither text nor error", False
                    await self._say(send, 502, "The model server answered with neither a text nor an error.", [])
        except ModelRequestRefused as refused:
            self.status, self.note, self.billable = refused.http_status, str(refused), refused.reason != UNREACHED
            await self._say(send, refused.http_status, str(refused), [])
        except httpx2.HTTPError:
            self.note = "answer broke off"
            if self.meter is None:
                self.status = 502
                await self._say(send, self.status, "The model server's answer broke off.", [])

    def forget_body(self) -> None:
        """Let go of the body, which may be large, while the answer goes on."""
        self.body = b""
        self.release()

    async def _stream(self, response: httpx2.Response, send: Send) -> None:
        self.meter = AnswerMeter(self.call.wire, response.headers.get("content-type", ""))
        await send(_start(self.status, self.forwarder.headers_of(response)))
        async for chunk in response.aiter_bytes():
            if passed := self.mask.feed(chunk):
                self.meter.feed(passed)  # which notes names for the log
                await send({"type": "http.response.body", "body": passed, "more_body": True})
        rest = self.mask.finish()
        self.meter.feed(rest)
        self.note = ""
        await send({"type": "http.response.body", "body": rest})

    async def _error(self, response: httpx2.Response, send: Send) -> None:
        headers = self.forwarder.headers_of(response)
        self.billable = self.status in CUT_OFF
        body = b""
        if self.status not in OWN_WORDS:
            async for chunk in response.aiter_bytes():
                body += self.mask.feed(chunk)
                if len(body) > MAX_ERROR:
                    body = b""
                    break
            else:
                body += self.mask.finish()
        self.note = "error"
        if body:
            await send(_start(self.status, headers))
            await send({"type": "http.response.body", "body": mask_account(body)})
        else:
            words = OWN_WORDS.get(self.status, f"The model server answered with the error {self.status}.")
            await self._say(send, self.status, words, headers)

    async def _say(self, send: Send, status: int, message: str, headers: list[tuple[str, str]]) -> None:
        kept = [(name, value) for name, value in headers if name != "content-type"]
        await send(_start(status, [*kept, ("content-type", "application/json")]))
        body = json.dumps(error_body(self.call.wire, status, "upstream", message)).encode()
        await send({"type": "http.response.body", "body": body})


def _start(status: int, headers: list[tuple[str, str]]) -> dict[str, object]:
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    return {"type": "http.response.start", "status": status, "headers": pairs}
