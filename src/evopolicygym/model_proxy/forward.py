"""Asks the model server: one address, no redirects, no proxies, no cookies, and only the headers that are named here.

Whether a request may be asked at all is described in ``call.py`` and ``inspection.py``.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx2

from evopolicygym.model_proxy.call import ModelRequest
from evopolicygym.model_proxy.mask import holds
from evopolicygym.model_proxy.silence import keep_silent
from evopolicygym.model_proxy.upstream import ModelUpstream
from evopolicygym.model_proxy.wire import Headers, ModelRequestRefused, credential

ASKING = frozenset(
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
"""Request headers that are passed on, beside ``x-stainless-…`` and those that the proxy sets itself."""
ANSWERING = frozenset({"cache-control", "content-type", "retry-after", "retry-after-ms", "x-should-retry"})
"""Headers of an answer that are passed on; none tells whose account it is."""
DECODED = frozenset({"", "identity", "gzip", "deflate"})
WRITE_S = 60.0
PIECE = 64 << 10
UNREACHED = "unreached"
"""Why a request that never came to the model server was not answered."""


@cache
def tls_context() -> ssl.SSLContext:
    """Return what a server's certificate is checked against; it is read once, which takes tens of milliseconds."""
    return httpx2.create_ssl_context()


class Forwarder:
    """Knows the real key, and never shows it to anyone but the upstream."""

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
        """Send a request and give its answer, of which only the headers have come.

        Raises ``ModelRequestRefused`` where nobody answers as a model server does.
        """
        keep_silent()
        request = self._request(call, headers, body)
        del body  # it is let go of once it is sent
        try:
            response = await self._client.send(request, stream=True)
        except httpx2.HTTPError as error:
            raise _unavailable(error) from None
        try:
            if response.headers.get("content-encoding", "").strip().lower() not in DECODED:
                raise ModelRequestRefused(
                    502, "upstream", "The model server answered in an encoding that nobody asked for."
                )
            yield response
        finally:
            await response.aclose()

    async def close(self) -> None:
        """End every connection."""
        keep_silent()
        await self._client.aclose()

    def headers_of(self, response: httpx2.Response) -> list[tuple[str, str]]:
        """Return the headers of an answer that may be passed on."""
        return [
            (name, value)
            for name, value in response.headers.items()
            if name in ANSWERING and not holds(self._key, value.encode())
        ]

    def _request(self, call: ModelRequest, headers: Headers, body: bytes) -> httpx2.Request:
        passed = {
            name.decode("ascii"): value.decode("latin-1")
            for name, value in headers
            if (name in ASKING or name.startswith(b"x-stainless-")) and value.isascii()
        }
        own = {"accept-encoding": "identity", **credential(call.wire, self._key, headers)}
        if call.method == "POST":
            own |= {"content-type": "application/json", "content-length": str(len(body))}
        url = httpx2.URL(self._prefix + call.target)
        if url.netloc != self._host:
            raise ModelRequestRefused(403, "endpoint", "The model proxy leads to one model server only.")
        return self._client.build_request(
            call.method,
            url,
            headers={"user-agent": "evopolicygym", **passed, **own},
            content=_pieces(body) if call.method == "POST" else None,
        )


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    """Yield a body in pieces, so that no second copy of it waits to be sent."""
    for start in range(0, len(body), PIECE):
        yield body[start : start + PIECE]


def _unavailable(error: httpx2.HTTPError) -> ModelRequestRefused:
    """Return what is shown of a failure; no detail of where the model server is."""
    reason = (
        UNREACHED if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout) else "upstream"
    )
    problem = "did not answer in time" if isinstance(error, httpx2.TimeoutException) else "can't be reached"
    return ModelRequestRefused(502, reason, f"The model server {problem}.")
