"""The proxy's ASGI application: admits requests, counts them in the ledger and logs each."""

import asyncio
import json
import logging
import time
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from evopolicygym.core.text import now
from evopolicygym.model_proxy.failures import Trouble
from evopolicygym.model_proxy.formats import Headers, ModelRequestRefused, error_body, presented_keys
from evopolicygym.model_proxy.forward import CLIENT_LEFT, Exchange, Forwarder
from evopolicygym.model_proxy.ledger import RESERVED, Ledger, ModelLog, log_line
from evopolicygym.model_proxy.mask import Mask
from evopolicygym.model_proxy.request import (
    ModelRequest,
    RequestKind,
    classify_request,
    guess_format,
    inspect,
    parse,
    read_query,
)
from evopolicygym.model_proxy.upstream import ModelUpstream
from evopolicygym.model_proxy.usage import NAME_LENGTH, Usage
from evopolicygym.model_proxy.worst_case import InputBounds, priced_headers, with_output, worst_case
from evopolicygym.serving.body import BodyMemory, BodyRefused, BodyReservation, read_body
from evopolicygym.serving.guard import Guard, Refusal, is_secret

LOG = logging.getLogger(__name__)
BODY_S = 60.0
"""Seconds in which a body must arrive."""
WRONG_KEY = "Invalid key: expected the key that the run gave to its agent."
MAX_BUFFERED = 64 << 20
"""Bytes of bodies that are buffered at once, over all connections."""
LARGE = 256 << 10
"""Bytes of a body above which it is inspected in a thread, one at a time, while others are served."""


class ProxyEndpoint:
    """The application behind a model proxy."""

    def __init__(
        self,
        upstream: ModelUpstream,
        dummy: str,
        secret: str,
        forwarder: Forwarder,
        ledger: Ledger,
        log: ModelLog,
        *,
        warns: bool,
    ) -> None:
        self._upstream = upstream
        self._dummy = dummy
        self._secret = secret
        self._forwarder = forwarder
        self._ledger = ledger
        self._log = log
        self._body_memory = BodyMemory(MAX_BUFFERED)
        self._inspecting = asyncio.Semaphore(1)
        self._bounds = InputBounds()
        self._under_way: dict[int, float] = {}
        """When each request under way began, by its identity."""
        self._left_after_s = 0.0
        """For how long the last request had waited when its client left; 0 if it didn't."""
        self._warns, self._warned = warns, ("", 0)
        self._guard = Guard(self._answer, self._admit, self._refused, upstream.max_body_bytes)
        Mask(secret)  # compiles and caches its patterns before the first request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._guard(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._body_memory.reserve() as reservation:
            try:
                exchange = await self._exchange(Request(scope, receive), reservation)
            except ModelRequestRefused as refused:
                await self._refuse(scope, refused)(scope, receive, send)
                return
            await self._forward(exchange, receive, send)

    def _admit(self, scope: Scope) -> Scope | None:
        """Return a request that has the agent's key; None for another."""
        try:
            keys = presented_keys(scope["headers"], read_query(scope["query_string"]))
        except ModelRequestRefused:  # an invalid query, which is refused as such
            return scope
        return scope if any(is_secret(key, self._dummy) for key in keys) else None

    def _refused(self, scope: Scope, refusal: Refusal) -> JSONResponse:
        """Return the answer to a request that the guard refuses."""
        reason, message = ("key", WRONG_KEY) if refusal.reason == "token" else (refusal.reason, refusal.message)
        return self._refuse(scope, ModelRequestRefused(refusal.http_status, reason, message))

    async def _forward(self, exchange: Exchange, receive: Receive, send: Send) -> None:
        """Forward a request until its answer has ended or the client has disconnected."""

        async def recording(message: Message) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body"):
                self._settle(exchange)  # before the client sees the end
            await send(message)

        self._under_way[id(exchange)] = exchange.started
        forwarding = asyncio.ensure_future(exchange.run(recording))
        disconnect = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await asyncio.wait((forwarding, disconnect), return_when=asyncio.FIRST_COMPLETED)
        finally:
            forwarding.cancel()
            disconnect.cancel()
            await asyncio.gather(forwarding, disconnect, return_exceptions=True)
            self._settle(exchange)

    @property
    def is_waiting(self) -> bool:
        """Whether a request is under way; thread-safe."""
        return bool(self._under_way)

    def waiting_s(self) -> float:
        """Return for how many seconds the oldest request under way has waited; thread-safe.

        If none is under way, it is the wait of the last one if its client left, else 0.
        """
        waits = [time.monotonic() - started for started in list(self._under_way.values())]
        return max(waits, default=self._left_after_s)

    async def _exchange(self, request: Request, reservation: BodyReservation) -> Exchange:
        headers: Headers = request.scope["headers"]
        query = read_query(request.scope["query_string"])
        call = classify_request(self._upstream.wire, request.method, _path(request.scope), query, headers)
        body = await _read_body(request, reservation) if call.method == "POST" else b""
        if len(body) <= LARGE:
            return self._inspect(call, headers, body, reservation)
        async with self._inspecting:
            return await asyncio.to_thread(self._inspect, call, headers, body, reservation)

    def _inspect(self, call: ModelRequest, headers: Headers, body: bytes, reservation: BodyReservation) -> Exchange:
        """Inspect a body and reserve its cost; may run in a thread."""
        model, worst, conversation = call.model, None, b""
        document = parse(body) if call.method == "POST" else {}
        if call.method == "POST":
            model = inspect(call.wire, document, call.model, self._upstream.models)
        generates = call.kind is RequestKind.GENERATE
        if generates and self._ledger.limits_cost:
            most_input, conversation = self._bounds.bound(call.wire, document)
            worst = worst_case(call.wire, call.path, document, most_input)
            headers = priced_headers(headers)
        worst = self._ledger.begin(generates=generates, worst=worst)
        if worst and with_output(call.wire, document, worst.output or 0, self._upstream.base_url):
            body = json.dumps(document).encode()
        streams = generates and document.get("stream") is True
        mask, release = Mask(self._secret), reservation.release
        return Exchange(
            self._forwarder, call, model[:NAME_LENGTH], headers, body, mask, worst, release, conversation, streams
        )

    def _refuse(self, scope: Scope, refused: ModelRequestRefused) -> JSONResponse:
        """Count and log a refused request, and return the answer."""
        self._ledger.refuse()
        self._log.write(_refusal_line(scope, refused))
        wire = guess_format(self._upstream.wire, _path(scope), scope["headers"])
        content = error_body(wire, refused.http_status, refused.reason.replace(" ", "_"), str(refused))
        headers = {"connection": "close"} if refused.http_status in {408, 413, 503} else {}
        if refused.http_status == 429 and refused.reason != RESERVED:  # noqa: PLR2004 - HTTP's own number
            headers["x-should-retry"] = "false"
        return JSONResponse(content, refused.http_status, headers)

    def _settle(self, exchange: Exchange) -> None:
        """Count and log a request that has ended; the second call does nothing."""
        if exchange.settled:
            return
        exchange.settled = True
        self._under_way.pop(id(exchange), None)
        seconds = time.monotonic() - exchange.started
        meter, call = exchange.meter, exchange.call
        generates = call.kind is RequestKind.GENERATE
        whole = exchange.is_over and exchange.trouble is None
        reported = meter.finish(whole=whole) if meter and generates else Usage()
        trouble = exchange.trouble or (meter.trouble if meter and generates else None)
        usage = _used(reported, trouble) if generates else None
        n_bytes = exchange.n_bytes + (meter.n_bytes if meter else 0)
        left = not exchange.is_over
        self._left_after_s = seconds if left else 0.0
        cost = self._ledger.end(usage, n_bytes, seconds, failed=left or trouble is not None, worst=exchange.worst)
        if usage is not None and exchange.worst is not None:
            self._bounds.remember(exchange.conversation, exchange.worst.input or 0, usage)
        if trouble:
            self._warn(trouble)
        if generates and not left:
            self._ledger.settle(trouble)
        names = {"kind": call.kind, "model": exchange.model, "answered_by": meter.model if meter else ""}
        note = CLIENT_LEFT if left and not trouble else _note(trouble)
        line = log_line(call.wire, exchange.status, seconds, usage, **names, cost=cost, note=note)
        self._log.write(line)

    def _warn(self, trouble: Trouble) -> None:
        """Log a failure of the model server; one that goes on is logged at its 1st, 2nd, 4th, 8th … time."""
        sentence = trouble.sentence(self._upstream.prefix)
        self._warned = (sentence, self._warned[1] + 1) if self._warned[0] == sentence else (sentence, 1)
        times = self._warned[1]
        if self._warns and times & (times - 1) == 0:
            LOG.warning("%s%s", sentence, f" ({times} times in a row)" if times > 1 else "")


def _used(reported: Usage, trouble: Trouble | None) -> Usage | None:
    """Return what a generation used: where the server says that it failed, what it reported and nothing else."""
    if trouble is None or trouble.rule.may_have_worked:
        return reported
    if reported == Usage():
        return None
    return replace(reported, input=reported.input or 0, output=reported.output or 0, unexplained=0)


def _note(trouble: Trouble | None) -> str:
    if trouble is None:
        return ""
    inside = " inside the answer" if trouble.inside else ""
    return f"{trouble.fault}{inside}{f': {trouble.reason}' if trouble.reason else ''}"


def _path(scope: Scope) -> str:
    """Return the raw path of a request, with its escapes."""
    return str(scope["raw_path"].decode("latin-1"))


def _refusal_line(scope: Scope, refused: ModelRequestRefused) -> dict[str, object]:
    return {
        "time": now(),
        "refused": refused.reason,
        "status": refused.http_status,
        "method": scope["method"][:NAME_LENGTH],
        "path": _path(scope)[:NAME_LENGTH],
    }


async def _wait_for_disconnect(receive: Receive) -> None:
    """Return once the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _read_body(request: Request, reservation: BodyReservation) -> bytes:
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise ModelRequestRefused(415, "body", "Invalid content-encoding: expected an uncompressed body.")
    try:
        return await read_body(request, BODY_S, reservation.add)
    except BodyRefused as refused:
        raise ModelRequestRefused(refused.http_status, "body", str(refused)) from None
