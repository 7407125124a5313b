"""Admits requests to the model, and writes down what came of each.

How the answer travels is described in ``exchange.py``.
"""

import asyncio
import json
import logging
import time

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from evopolicygym.core.text import now
from evopolicygym.model_proxy.call import ModelRequest, RequestKind, likely, read_query, recognise
from evopolicygym.model_proxy.exchange import CLIENT_LEFT, Exchange
from evopolicygym.model_proxy.forward import Forwarder
from evopolicygym.model_proxy.inspection import inspect, parse
from evopolicygym.model_proxy.ledger import RESERVED, Ledger
from evopolicygym.model_proxy.log import ModelLog, passed
from evopolicygym.model_proxy.mask import Mask
from evopolicygym.model_proxy.meter import NAME_LENGTH
from evopolicygym.model_proxy.upstream import ModelUpstream
from evopolicygym.model_proxy.usage import Usage
from evopolicygym.model_proxy.wire import Headers, ModelRequestRefused, error_body, presented
from evopolicygym.model_proxy.worst_case import priced_headers, with_output, worst_case
from evopolicygym.serving import guard
from evopolicygym.serving.body import BodyHold, BodyRefused, BodyRoom, read_body

LOG = logging.getLogger(__name__)
SERVER_ERROR = 500
BODY_S = 60.0
"""Seconds within which a body must have come."""
MAX_HELD = 64 << 20
"""Bytes of bodies that are held at once, over all connections."""
LARGE = 256 << 10
"""Bytes of a body above which it is looked into in a thread, one at a time, while others are served."""


class ProxyEndpoint:
    """The application behind a model proxy."""

    def __init__(
        self, upstream: ModelUpstream, dummy: str, secret: str, forwarder: Forwarder, ledger: Ledger, log: ModelLog
    ) -> None:
        self._upstream = upstream
        self._dummy = dummy
        self._secret = secret
        self._forwarder = forwarder
        self._ledger = ledger
        self._log = log
        self._room = BodyRoom(MAX_HELD)
        self._inspecting = asyncio.Semaphore(1)
        Mask(secret)  # so that its patterns are compiled before anybody waits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI has it."""
        if scope["type"] != "http":
            return
        with self._room.hold() as hold:
            try:
                exchange = await self._admitted(Request(scope, receive), hold)
            except ModelRequestRefused as refused:
                self._ledger.refuse()
                self._log.write(_refusal_line(scope, refused))
                await self._refusal(scope, refused)(scope, receive, send)
                return
            await self._passed(exchange, receive, send)

    async def _passed(self, exchange: Exchange, receive: Receive, send: Send) -> None:
        """Ask the model server, until its answer has ended or the client is gone."""

        async def recording(message: Message) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body"):
                self._settle(exchange)  # before the client knows that it is over
            await send(message)

        passing = asyncio.ensure_future(exchange.run(recording))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait((passing, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            passing.cancel()
            leaving.cancel()
            await asyncio.gather(passing, leaving, return_exceptions=True)
            self._settle(exchange)

    async def _admitted(self, request: Request, hold: BodyHold) -> Exchange:
        headers: Headers = request.scope["headers"]
        if not guard.is_for_this_machine(request.headers) or guard.has_origin(request.headers):
            raise ModelRequestRefused(403, "host", "Requests for other hosts, and from browsers, are not passed on.")
        query = read_query(request.scope["query_string"])
        if not any(guard.is_secret(key, self._dummy) for key in presented(headers, query)):
            raise ModelRequestRefused(401, "key", "This is not the key that the run gave to its agent.")
        call = recognise(self._upstream.wire, request.method, _path(request.scope), query, headers)
        body = await _body(request, self._upstream.max_body_bytes, hold) if call.method == "POST" else b""
        if len(body) <= LARGE:
            return self._inspected(call, headers, body, hold)
        async with self._inspecting:
            return await asyncio.to_thread(self._inspected, call, headers, body, hold)

    def _inspected(self, call: ModelRequest, headers: Headers, body: bytes, hold: BodyHold) -> Exchange:
        """Look into a body, and count its request; may be called in a thread."""
        model, worst = call.model, None
        document = parse(body) if call.method == "POST" else {}
        if call.method == "POST":
            model = inspect(call.wire, document, call.model, self._upstream.models)
        generates = call.kind is RequestKind.GENERATE
        if generates and self._ledger.limits_cost:
            worst = worst_case(call.wire, call.path, document, len(body))
            headers = priced_headers(headers)
        worst = self._ledger.begin(generates=generates, worst=worst)
        if worst and with_output(call.wire, document, worst.output or 0, self._upstream.base_url):
            body = json.dumps(document).encode()
        mask = Mask(self._secret)
        return Exchange(self._forwarder, call, model[:NAME_LENGTH], headers, body, mask, worst, hold.release)

    def _refusal(self, scope: Scope, refused: ModelRequestRefused) -> JSONResponse:
        wire = likely(self._upstream.wire, _path(scope), scope["headers"])
        content = error_body(wire, refused.http_status, refused.reason.replace(" ", "_"), str(refused))
        headers = {"connection": "close"} if refused.http_status in {408, 413, 503} else {}
        if refused.http_status == 429 and refused.reason != RESERVED:  # noqa: PLR2004 - HTTP's own number
            headers["x-should-retry"] = "false"
        return JSONResponse(content, refused.http_status, headers)

    def _settle(self, exchange: Exchange) -> None:
        """Count a request that is over, and write its line, once."""
        if exchange.settled:
            return
        exchange.settled = True
        seconds = time.monotonic() - exchange.begun
        meter, call = exchange.meter, exchange.call
        failed = bool(exchange.note)
        usage: Usage | None = None
        if call.kind is RequestKind.GENERATE and exchange.billable:
            usage = meter.finish(whole=not failed) if meter else Usage()
        n_bytes = exchange.n_bytes + (meter.n_bytes if meter else 0)
        cost = self._ledger.end(usage, n_bytes, seconds, failed=failed, worst=exchange.worst)
        if exchange.status >= SERVER_ERROR:
            LOG.warning("the model server %s failed: %s", self._upstream.prefix, exchange.note or exchange.status)
        if call.kind is RequestKind.GENERATE and exchange.note != CLIENT_LEFT:
            self._ledger.settle(exchange.status, failed=failed)
        asked = {"kind": call.kind, "model": exchange.model, "answered_by": meter.model if meter else ""}
        line = passed(call.wire, exchange.status, seconds, usage, **asked, cost=cost, note=exchange.note)
        self._log.write(line)


def _path(scope: Scope) -> str:
    """Return a path as it was sent, escapes and all."""
    return str(scope["raw_path"].decode("latin-1"))


def _refusal_line(scope: Scope, refused: ModelRequestRefused) -> dict[str, object]:
    return {
        "time": now(),
        "refused": refused.reason,
        "status": refused.http_status,
        "method": scope["method"][:NAME_LENGTH],
        "path": _path(scope)[:NAME_LENGTH],
    }


async def _left(receive: Receive) -> None:
    """Return when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _body(request: Request, most: int, hold: BodyHold) -> bytes:
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise ModelRequestRefused(415, "body", "The body must not be compressed: the proxy looks into it.")
    try:
        return await read_body(request, most, BODY_S, hold.more)
    except BodyRefused as refused:
        raise ModelRequestRefused(refused.http_status, "body", str(refused)) from None
