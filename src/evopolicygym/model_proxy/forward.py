"""Forwards admitted requests to the model server, and passes answers back chunk by chunk.

One address, no redirects, no proxies, no cookies, and only the headers that are listed here.
"""

import json
import logging
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx2
from starlette.types import Send

from evopolicygym.model_proxy.formats import Headers, ModelRequestRefused, credential_header, error_body
from evopolicygym.model_proxy.mask import Mask, contains_secret, mask_account
from evopolicygym.model_proxy.request import ModelRequest
from evopolicygym.model_proxy.upstream import ModelUpstream
from evopolicygym.model_proxy.usage import AnswerMeter, Usage

LOGGERS = ("httpx2", "httpcore2.connection", "httpcore2.http11")
"""Loggers of the HTTP client: they would log addresses and headers of answers."""
_silent = ContextVar("silent", default=False)


def keep_silent() -> None:
    """Disable the client's logging in the calling task; other tasks and threads log as before."""
    _silent.set(True)


def _may_be_logged(_record: logging.LogRecord) -> bool:
    return not _silent.get()


for name in LOGGERS:
    logging.getLogger(name).addFilter(_may_be_logged)


REQUEST_HEADERS = frozenset(
    {
        b"accept",
        b"anthropic-beta",
        b"anthropic-version",
        b"idempotency-key",
        b"openai-beta",
        b"originator",
        b"user-agent",
        b"x-app",
        b"x-goog-api-client",
    }
)
"""Request headers that are forwarded, as are ``x-stainless-…``; the proxy sets others itself."""
RESPONSE_HEADERS = frozenset({"cache-control", "content-type", "retry-after", "retry-after-ms", "x-should-retry"})
"""Response headers that are passed on; none identifies the account."""
DECODED = frozenset({"", "identity", "gzip", "deflate"})
WRITE_S = 60.0
CHUNK_BYTES = 64 << 10
UNREACHED = "unreached"
"""Reason of a request that never reached the model server."""


@cache
def tls_context() -> ssl.SSLContext:
    """Return the TLS context that verifies a server's certificate; cached, since loading takes tens of milliseconds."""
    return httpx2.create_ssl_context()


class Forwarder:
    """Sends requests to the upstream with the real key, and shows the key to nobody else."""

    def __init__(self, upstream: ModelUpstream, key: str, connections: int) -> None:
        self._prefix = upstream.prefix
        self._key = key
        self._host = httpx2.URL(upstream.prefix).netloc
        self._client = httpx2.AsyncClient(
            verify=tls_context(),
            trust_env=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            follow_redirects=False,
            timeout=httpx2.Timeout(
                upstream.read_timeout_s,
                connect=upstream.connect_timeout_s,
                write=WRITE_S,
                pool=upstream.connect_timeout_s,
            ),
            limits=httpx2.Limits(max_connections=connections, keepalive_expiry=4.0),
        )

    @asynccontextmanager
    async def ask(self, call: ModelRequest, headers: Headers, body: bytes) -> AsyncIterator[httpx2.Response]:
        """Send a request and yield its response, of which only the headers have been read.

        Raises ``ModelRequestRefused`` if no model server answers.
        """
        keep_silent()
        request = self._request(call, headers, body)
        del body  # freed once it is sent
        try:
            response = await self._client.send(request, stream=True)
        except httpx2.HTTPError as error:
            raise _unavailable(error) from None
        try:
            if response.headers.get("content-encoding", "").strip().lower() not in DECODED:
                raise ModelRequestRefused(
                    502, "upstream", "The model server answered in an encoding that was not requested."
                )
            yield response
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close all connections."""
        keep_silent()
        await self._client.aclose()

    def headers_of(self, response: httpx2.Response) -> list[tuple[str, str]]:
        """Return the headers of an answer that may be passed on."""
        return [
            (name, value)
            for name, value in response.headers.items()
            if name in RESPONSE_HEADERS and not contains_secret(self._key, value.encode())
        ]

    def _request(self, call: ModelRequest, headers: Headers, body: bytes) -> httpx2.Request:
        forwarded = {
            name.decode("ascii"): value.decode("latin-1")
            for name, value in headers
            if (name in REQUEST_HEADERS or name.startswith(b"x-stainless-")) and value.isascii()
        }
        own = {"accept-encoding": "identity", **credential_header(call.wire, self._key, headers)}
        if call.method == "POST":
            own |= {"content-type": "application/json", "content-length": str(len(body))}
        url = httpx2.URL(self._prefix + call.target)
        if url.netloc != self._host:
            raise ModelRequestRefused(403, "endpoint", "The model proxy leads to one model server only.")
        return self._client.build_request(
            call.method,
            url,
            headers={"user-agent": "evopolicygym", **forwarded, **own},
            content=_pieces(body) if call.method == "POST" else None,
        )


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    """Yield a body in pieces, so that no second copy of it is buffered."""
    for start in range(0, len(body), CHUNK_BYTES):
        yield body[start : start + CHUNK_BYTES]


def _unavailable(error: httpx2.HTTPError) -> ModelRequestRefused:
    """Return the refusal that reports a failure without the model server's address."""
    reason = (
        UNREACHED if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout) else "upstream"
    )
    problem = "did not answer in time" if isinstance(error, httpx2.TimeoutException) else "can't be reached"
    return ModelRequestRefused(502, reason, f"The model server {problem}.")


MAX_ERROR = 64 << 10
"""Largest error body that is passed on, in bytes."""
ANSWERED = range(200, 300)
ERRORS = range(400, 600)
CUT_OFF = frozenset({408, 499, 504, 524})
"""Timeouts, after which the model may still have worked."""
CLIENT_LEFT = "client left"
OWN_MESSAGES = {
    401: "The model server does not accept the key of this run; only the person who started the run can fix that.",
    403: "The model server refuses this to the account of this run.",
    407: "The model server requires more than a key.",
}
"""Messages for errors whose body may identify the account."""


@dataclass(slots=True)
class Exchange:
    """One admitted request."""

    forwarder: Forwarder
    call: ModelRequest
    model: str
    headers: Headers
    body: bytes
    """Empty once it is sent."""
    mask: Mask
    worst: Usage | None = None
    """Its reservation; None where cost is not limited."""
    release: Callable[[], None] = lambda: None
    """Called once the body is freed."""
    started: float = field(default_factory=time.monotonic)
    status: int = 0
    """HTTP status of the answer; 0 before it."""
    note: str = CLIENT_LEFT
    """Reason of a failure; empty after success."""
    billable: bool = True
    """Whether the model may have worked on it."""
    n_bytes: int = 0
    """Length of the body."""
    settled: bool = False
    """Whether the ledger has counted it."""
    meter: AnswerMeter | None = None
    """Reads a successful answer; None before one."""

    def __post_init__(self) -> None:
        self.n_bytes = len(self.body)

    async def run(self, send: Send) -> None:
        """Send the request and pass the answer on; an answer cut off is left incomplete, so that the client notices."""
        try:
            async with self.forwarder.ask(self.call, self.headers, self.body) as response:
                self.status = response.status_code
                self._free_body()
                if self.status in ANSWERED:
                    await self._stream(response, send)
                elif self.status in ERRORS:
                    await self._pass_error(response, send)
                else:
                    self.status, self.note, self.billable = 502, "neither text nor error", False
                    await self._send_error(send, 502, "The model server answered with neither a text nor an error.", [])
        except ModelRequestRefused as refused:
            self.status, self.note, self.billable = refused.http_status, str(refused), refused.reason != UNREACHED
            await self._send_error(send, refused.http_status, str(refused), [])
        except httpx2.HTTPError:
            self.note = "answer broke off"
            if self.meter is None:
                self.status = 502
                await self._send_error(send, self.status, "The model server's answer broke off.", [])

    def _free_body(self) -> None:
        """Free the body, which may be large, before the answer is streamed."""
        self.body = b""
        self.release()

    async def _stream(self, response: httpx2.Response, send: Send) -> None:
        self.meter = AnswerMeter(self.call.wire, response.headers.get("content-type", ""))
        await send(_start(self.status, self.forwarder.headers_of(response)))
        async for chunk in response.aiter_bytes():
            if masked := self.mask.feed(chunk):
                self.meter.feed(masked)  # masked, since names are logged
                await send({"type": "http.response.body", "body": masked, "more_body": True})
        rest = self.mask.finish()
        self.meter.feed(rest)
        self.note = ""
        await send({"type": "http.response.body", "body": rest})

    async def _pass_error(self, response: httpx2.Response, send: Send) -> None:
        headers = self.forwarder.headers_of(response)
        self.billable = self.status in CUT_OFF
        body = b""
        if self.status not in OWN_MESSAGES:
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
            message = OWN_MESSAGES.get(self.status, f"The model server answered with the error {self.status}.")
            await self._send_error(send, self.status, message, headers)

    async def _send_error(self, send: Send, status: int, message: str, headers: list[tuple[str, str]]) -> None:
        others = [(name, value) for name, value in headers if name != "content-type"]
        await send(_start(status, [*others, ("content-type", "application/json")]))
        body = json.dumps(error_body(self.call.wire, status, "upstream", message)).encode()
        await send({"type": "http.response.body", "body": body})


def _start(status: int, headers: list[tuple[str, str]]) -> dict[str, object]:
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    return {"type": "http.response.start", "status": status, "headers": pairs}
