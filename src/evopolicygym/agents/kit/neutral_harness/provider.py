"""Asks a model server for the next answer: again where that helps, and in the same figures as the model proxy.

What is asked is described in ``wires.py``.
"""

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx2

from evopolicygym.agents.kit.neutral_harness.wires import Answer, Conversation
from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.model_proxy.formats import credential_header
from evopolicygym.model_proxy.forward import CUT_OFF, keep_silent, tls_context
from evopolicygym.model_proxy.ledger import Ledger, ModelLog, log_line
from evopolicygym.model_proxy.mask import Mask, mask_account
from evopolicygym.model_proxy.request import RequestKind
from evopolicygym.model_proxy.upstream import ModelUpstream
from evopolicygym.model_proxy.usage import Usage, read_usage
from evopolicygym.model_proxy.worst_case import with_output, worst_case

LOG = logging.getLogger(__name__)
TRIES = 8
PATIENCE_S = 600.0
"""Seconds after a first failure within which it is tried again."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
LOOK_S = 0.1
MOST_BYTES = 32 << 20
OK, TOO_MANY, SERVER_ERROR = 200, 429, 500
PASSING = frozenset({408, 409, 425, TOO_MANY})
"""Statuses that may be others in a while, beside all from 500."""
REFUSING = frozenset({401, 403})
TOO_LONG = re.compile(
    r"context.?(length|window|size)|maximum context|prompt is too long|input (is|length).{0,20}(long|exceed)"
    r"|too many (input )?tokens|exceeds? the (maximum|model).{0,30}tokens",
    re.IGNORECASE,
)
Pause = Callable[[float], None]
"""Waits so many seconds; raises where there is no more to wait for."""


class ModelFailed(EvoPolicyGymError):
    """The model server gives no answer, and asking again won't help."""


class ConversationTooLong(EvoPolicyGymError):
    """The model takes no conversation of this length."""


class _Unavailable(EvoPolicyGymError):
    """It may answer in a while."""

    def __init__(self, message: str, pause_s: float = 0.0) -> None:
        super().__init__(message)
        self.pause_s = pause_s
        """What the server asks for; zero where it doesn't."""


class Provider:
    """One model behind one address."""

    def __init__(self, upstream: ModelUpstream, model: str, ledger: Ledger, log: ModelLog) -> None:
        self._upstream, self._model, self._ledger, self._log = upstream, model, ledger, log
        self._key = upstream.key()
        self._tls = tls_context()
        self._timeout = httpx2.Timeout(upstream.read_timeout_s, connect=upstream.connect_timeout_s)

    def ask(self, conversation: Conversation, pause: Pause) -> Answer:
        """Return the model's next answer.

        Raises ``ModelFailed``, ``ConversationTooLong``, and whatever ``pause`` raises.
        """
        document = conversation.body(self._model)
        deadline = 0.0
        for attempt in range(TRIES):
            try:
                return self._attempt(conversation, document, pause)
            except _Unavailable as error:
                wait_s = error.pause_s or min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**attempt)
                deadline = deadline or time.monotonic() + PATIENCE_S
                server = f"the model server {self._upstream.prefix}"
                if attempt == TRIES - 1 or time.monotonic() + wait_s > deadline:
                    raise ModelFailed(f"{server} failed {attempt + 1} times in a row: {error}") from error
                again = f"attempt {attempt + 2} of {TRIES} in {wait_s:.0f} s"
                LOG.warning("%s failed: %s; %s", server, error, again)
            _wait(wait_s, pause)
        raise AssertionError("unreachable")

    def _attempt(self, conversation: Conversation, document: dict[str, Any], pause: Pause) -> Answer:
        """Ask once; count it and write its line, however it ends."""
        body, worst = json.dumps(document).encode(), None
        if self._ledger.limits_cost:
            worst = worst_case(conversation.wire, conversation.path, document, len(body))
        worst = self._ledger.begin(generates=True, worst=worst)
        if worst:
            bounded = dict(document)
            with_output(conversation.wire, bounded, worst.output or 0, self._upstream.base_url)
            body = json.dumps(bounded).encode()
        began, status, data, note = time.monotonic(), 0, b"", ""
        usage: Usage | None = Usage()
        try:
            status, headers, data = asyncio.run(self._post(conversation, body, pause))
            if status != OK:
                usage = usage if status in CUT_OFF else None
                raise _refusal(status, headers, mask_account(data).decode("utf-8", "replace"))
            answer = json.loads(data)
            usage = read_usage(conversation.wire, answer.get("usage") or {})
            return conversation.read(answer)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
            note = "malformed"
            raise _Unavailable(f"its answer can't be read: {data[:300].decode('utf-8', 'replace')}") from error
        except httpx2.HTTPError as error:
            note = type(error).__name__
            usage = None if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout) else usage
            raise _Unavailable(f"{'no connection' if usage is None else 'no whole answer'} ({note})") from None
        except EvoPolicyGymError as error:
            note = type(error).__name__.strip("_").lower()
            raise
        finally:
            seconds = time.monotonic() - began
            cost = self._ledger.end(usage, len(body) + len(data), seconds, failed=bool(note), worst=worst)
            asked = {"kind": RequestKind.GENERATE, "model": self._model}
            self._log.write(log_line(conversation.wire, status, seconds, usage, **asked, cost=cost, note=note))

    async def _post(
        self, conversation: Conversation, body: bytes, pause: Pause
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, headers and body of an answer, with the key taken out; look up from it every so often."""
        getting = asyncio.ensure_future(self._got(conversation, body))
        try:
            while not getting.done():
                await asyncio.wait({getting}, timeout=LOOK_S)
                pause(0.0)
        finally:
            getting.cancel()
        return await getting

    async def _got(self, conversation: Conversation, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        keep_silent()
        headers = {"content-type": "application/json", "accept-encoding": "identity", **conversation.headers}
        headers |= credential_header(conversation.wire, self._key, [])
        address = self._upstream.prefix + conversation.path
        async with (
            httpx2.AsyncClient(verify=self._tls, trust_env=False, timeout=self._timeout) as client,
            client.stream("POST", address, headers=headers, content=body) as response,
        ):
            data = bytearray()
            async for chunk in response.aiter_bytes():
                data += chunk
                if len(data) > MOST_BYTES:
                    raise _Unavailable(f"its answer has more than {MOST_BYTES} bytes")
        mask = Mask(self._key)
        return response.status_code, response.headers, mask.feed(bytes(data)) + mask.finish()


def _wait(seconds: float, pause: Pause) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        pause(min(left, LOOK_S))


def _refusal(status: int, headers: Mapping[str, str], text: str) -> EvoPolicyGymError:
    """Return what an answer that is none means."""
    said = f"it answered {status}: {' '.join(text.split())[:300]}"
    if status in REFUSING:
        return ModelFailed(f"the model server doesn't take the key for this model ({said}); look at --model-key")
    if status < SERVER_ERROR and status != TOO_MANY and TOO_LONG.search(text):
        return ConversationTooLong(said)
    spent = headers.get("x-should-retry") == "false" or "insufficient_quota" in text
    if (status in PASSING or status >= SERVER_ERROR) and not spent:
        try:
            return _Unavailable(said, max(0.0, float(headers.get("retry-after", "0"))))
        except ValueError:  # a date
            return _Unavailable(said)
    return ModelFailed(f"the model server refuses ({said}); look at --model, --model-url and --model-wire")
