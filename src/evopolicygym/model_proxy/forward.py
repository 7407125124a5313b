"""Forwards admitted requests to the model server, and passes answers back chunk by chunk.

One address, no redirects, no proxies, no cookies, and only the headers that are listed here.
"""

import asyncio
import json
import logging
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx2
from starlette.types import Send

from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.model_proxy.client_stream import ClientStream, Pairs
from evopolicygym.model_proxy.failures import ServerFault, Trouble, classify, unreached
from evopolicygym.model_proxy.formats import Headers, ModelRequestRefused, credential_header, error_body
from evopolicygym.model_proxy.mask import Mask, contains_secret, mask_account
from evopolicygym.model_proxy.request import ModelRequest, RequestKind
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
ASIDE_S = 10.0
"""Seconds in which a server answers what is asked beside a request: its models, and whether it is there."""
LISTS = re.compile(r"/(?:responses(?:/compact)?|chat/completions|messages)$")
"""The end of a path in whose place a server lists its models."""
MOST_NAMES = 8
CHUNK_BYTES = 64 << 10


@cache
def tls_context() -> ssl.SSLContext:
    """Return the TLS context that verifies a server's certificate; cached, since loading takes tens of milliseconds."""
    return httpx2.create_ssl_context()


class Forwarder:
    """Sends requests to the upstream with the real key, and shows the key to nobody else."""

    def __init__(self, upstream: ModelUpstream, key: str, connections: int) -> None:
        self.upstream = upstream
        self._prefix = upstream.prefix
        self._key = key
        self._host = httpx2.URL(upstream.prefix).netloc
        self._client = httpx2.AsyncClient(
            verify=tls_context(),
            trust_env=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            follow_redirects=False,
            # Silence is judged by ``Exchange``: a server may be busy with others.
            timeout=httpx2.Timeout(
                None, connect=upstream.connect_timeout_s, write=WRITE_S, pool=upstream.connect_timeout_s
            ),
            limits=httpx2.Limits(max_connections=connections, keepalive_expiry=4.0),
        )

    @asynccontextmanager
    async def ask(self, call: ModelRequest, headers: Headers, body: bytes) -> AsyncIterator[httpx2.Response]:
        """Send a request and yield its response, of which only the headers have been read.

        Raises ``ServerUnreached`` if no model server answers.
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
                raise ServerUnreached(Trouble(ServerFault.UNREADABLE, reason="it is in an encoding not asked for"))
            yield response
        finally:
            await response.aclose()

    async def lives(self, call: ModelRequest, headers: Headers) -> bool:
        """Return whether the server answers another request, whatever its answer is."""
        try:
            await self._list(call, headers)
        except httpx2.HTTPError:
            return False
        return True

    async def models_like(self, call: ModelRequest, headers: Headers, model: str) -> tuple[str, ...]:
        """Return names of the server's models, the most similar first; none where it has the model, or doesn't tell."""
        names: list[str] = []
        with suppress(httpx2.HTTPError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
            listed = (await self._list(call, headers)).json()["data"]
            names = [entry["id"] for entry in listed if not contains_secret(self._key, entry["id"].encode())]
        return () if model in names else tuple(get_close_matches(model, names, MOST_NAMES, 0.0))

    async def _list(self, call: ModelRequest, headers: Headers) -> httpx2.Response:
        path = LISTS.sub("/models", call.path) if LISTS.search(call.path) else "/v1/models"
        request = self._request(ModelRequest(call.wire, RequestKind.LIST, "GET", path, ""), headers, b"")
        request.extensions["timeout"] = httpx2.Timeout(ASIDE_S).as_dict()
        return await self._client.send(request)

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


class ServerUnreached(EvoPolicyGymError):
    """No answer came from the model server; the agent's program is shown the message."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.rule.what)
        self.trouble = trouble


def _unavailable(error: httpx2.HTTPError) -> ServerUnreached:
    """Return what a failure means, without the model server's address."""
    match error:
        case httpx2.ConnectTimeout() | httpx2.PoolTimeout():
            return ServerUnreached(Trouble(ServerFault.REFUSED, reason="no connection could be made in time"))
        case httpx2.ConnectError():
            return ServerUnreached(unreached(error))
        case httpx2.TimeoutException():
            return ServerUnreached(Trouble(ServerFault.HUNG))
        case _:
            return ServerUnreached(Trouble(ServerFault.BROKE_OFF))


MAX_ERROR = 64 << 10
"""Largest error body that is passed on, in bytes."""
ANSWERED = range(200, 300)
ERRORS = range(400, 600)
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
    conversation: bytes = b""
    """The digest of its conversation; empty where cost is not limited."""
    streams: bool = False
    """Whether the client asked for a stream of events."""
    started: float = field(default_factory=time.monotonic)
    trouble: Trouble | None = None
    """How the model server failed; None before, or if it didn't."""
    is_over: bool = False
    """Whether the model server's part has ended; otherwise the client left."""
    n_bytes: int = 0
    """Length of the body."""
    settled: bool = False
    """Whether the ledger has counted it."""
    meter: AnswerMeter | None = None
    """Reads a successful answer; None before one."""
    _client: ClientStream = field(init=False)
    _heard: float = field(default_factory=time.monotonic)
    """When the server was last heard."""

    def __post_init__(self) -> None:
        self.n_bytes = len(self.body)
        self._client = ClientStream(self.call.wire, streams=self.streams)

    @property
    def status(self) -> int:
        """HTTP status that the client was given; 0 before it."""
        return self._client.status

    async def run(self, send: Send) -> None:
        """Send the request and pass the answer on; an answer cut off is left incomplete, so that the client notices."""
        keep_silent()
        self._client.connect(send)
        exchanging = asyncio.ensure_future(self._exchange())
        beating = asyncio.ensure_future(self._client.beat())
        watching = asyncio.ensure_future(self._wait_for_hang())
        try:
            await asyncio.wait((exchanging, watching), return_when=asyncio.FIRST_COMPLETED)
            if exchanging.done():
                exchanging.result()
                return
            exchanging.cancel()
            await asyncio.gather(exchanging, return_exceptions=True)
            await self._break_off(Trouble(ServerFault.HUNG))
        finally:
            tasks = (exchanging, beating, watching)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait_for_hang(self) -> None:
        """Return once the server has been silent for too long.

        A server on http, one's own, is asked whether it is there: it may work for others, or read a long prompt.
        """
        upstream, asked = self.forwarder.upstream, self._heard
        while True:
            since = max(asked, self._heard)
            if (left_s := since + upstream.read_timeout_s - time.monotonic()) > 0:
                await asyncio.sleep(left_s)
                continue
            is_spent = time.monotonic() > self._heard + upstream.most_silence_s
            if is_spent or not upstream.is_local or not await self.forwarder.lives(self.call, self.headers):
                return
            asked = time.monotonic()

    async def _exchange(self) -> None:
        try:
            async with self.forwarder.ask(self.call, self.headers, self.body) as response:
                self._heard = time.monotonic()
                self._free_body()
                if response.status_code in ANSWERED:
                    await self._stream(response)
                elif response.status_code in ERRORS:
                    await self._pass_error(response)
                else:
                    await self._fail(Trouble(ServerFault.UNREADABLE, response.status_code, "it leads elsewhere"))
        except ServerUnreached as error:
            await self._fail(error.trouble)
        except httpx2.HTTPError as error:
            is_late = isinstance(error, httpx2.TimeoutException)
            await self._break_off(Trouble(ServerFault.HUNG if is_late else ServerFault.BROKE_OFF))

    async def _break_off(self, trouble: Trouble) -> None:
        """Tell the client that no answer came; one that had begun is left incomplete."""
        if self.meter is None:
            await self._fail(trouble)
        else:
            self.trouble, self.is_over = trouble, True

    async def _fail(self, trouble: Trouble) -> None:
        """Tell the client that no answer came."""
        self.trouble, self.is_over = trouble, True
        await self._send_error(502, trouble.sentence(), [])

    def _free_body(self) -> None:
        """Free the body, which may be large, before the answer is streamed."""
        self.body = b""
        self.release()

    async def _stream(self, response: httpx2.Response) -> None:
        self.meter = AnswerMeter(self.call.wire, response.headers.get("content-type", ""))
        await self._client.begin(response.status_code, self.forwarder.headers_of(response))
        async for chunk in response.aiter_bytes():
            self._heard = time.monotonic()
            if masked := self.mask.feed(chunk):
                self.meter.feed(masked)  # masked, since names are logged
                await self._client.write(masked)
        rest = self.mask.finish()
        self.meter.feed(rest)
        self.is_over = True
        await self._client.write(rest, more=False)

    async def _pass_error(self, response: httpx2.Response) -> None:
        """Pass an error on; one that no retry mends says so, whatever its status was."""
        status, headers = response.status_code, self.forwarder.headers_of(response)
        body, n_bytes = bytearray(), 0
        async for chunk in response.aiter_bytes():
            n_bytes += len(chunk)
            if n_bytes > MAX_ERROR:
                break
            body += self.mask.feed(chunk)
        else:
            body += self.mask.finish()
        trouble = classify(status, bytes(body))
        if trouble.fault is ServerFault.NO_MODEL and self.call.kind is RequestKind.GENERATE:
            names = await self.forwarder.models_like(self.call, self.headers, self.model)
            trouble = replace(trouble, names=names)
        self.trouble, self.is_over = trouble, True
        if not trouble.rule.retried:
            headers = [*(pair for pair in headers if pair[0] != "x-should-retry"), ("x-should-retry", "false")]
        if trouble.fault is ServerFault.CONTEXT and status not in {400, 413}:
            words = f"The request is longer than the model's context. {trouble.reason}".strip()
            await self._send_error(400, words, headers, "context_length_exceeded")
        elif status in OWN_MESSAGES or n_bytes > MAX_ERROR or not body:
            message = OWN_MESSAGES.get(status, f"The model server answered with the error {status}.")
            await self._send_error(status, message, headers)
        else:
            code = "context_length_exceeded" if trouble.fault is ServerFault.CONTEXT else "upstream"
            message = trouble.reason or f"The model server answered with the error {status}."
            await self._client.fail(status, headers, mask_account(bytes(body)), code, message)

    async def _send_error(self, status: int, message: str, headers: Pairs, code: str = "upstream") -> None:
        others = [(name, value) for name, value in headers if name != "content-type"]
        body = json.dumps(error_body(self.call.wire, status, code, message)).encode()
        await self._client.fail(status, [*others, ("content-type", "application/json")], body, code, message)
