"""Requests a model's answers through a model proxy, with retries, and writes a transcript."""

import asyncio
import json
import logging
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import httpx2

from evopolicygym.agents.kit.model_requests import ModelRequests, request_sha256
from evopolicygym.agents.kit.neutral_harness.chat_formats import CONVERSATIONS, Answer, Conversation
from evopolicygym.core import regular_file
from evopolicygym.core.agent import AgentEnd, Workspace
from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.core.text import now
from evopolicygym.model_proxy.failures import ServerFault, Trouble
from evopolicygym.model_proxy.formats import credential_header
from evopolicygym.model_proxy.proxy import ModelProxy
from evopolicygym.model_proxy.upstream import ModelUpstream
from evopolicygym.model_proxy.usage import ModelUsage

LOG = logging.getLogger(__name__)
TRIES = 8
PATIENCE_S = 600.0
"""Seconds after a first failure during which a request is retried."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
LOOK_S = 0.1
MOST_BYTES = 32 << 20
TRANSCRIPT_BYTES = 64 << 20
"""Maximum size of a transcript."""
MOST_CHARACTERS_A_TOKEN = 10
"""More characters for each token than any text of a harness has: about four are usual."""
OK = 200
Pause = Callable[[float], None]
"""Waits for a number of seconds; raises an exception if the turn should end."""


class ModelFailed(EvoPolicyGymError):
    """The model server gives no answer, and retrying won't help."""

    def __init__(self, message: str, end: AgentEnd) -> None:
        super().__init__(message)
        self.end = end
        """How the turn ends."""


class ConversationTooLong(EvoPolicyGymError):
    """The conversation exceeds the model's context."""


class AllowanceSpent(EvoPolicyGymError):
    """The run's limit of tokens or cost is reached."""


class _Failed(EvoPolicyGymError):
    """One attempt failed."""

    def __init__(self, trouble: Trouble, pause_s: float = 0.0) -> None:
        super().__init__(trouble.sentence())
        self.trouble = trouble
        self.pause_s = pause_s
        """The pause that the server requests; zero if it doesn't."""


class ModelClient:
    """Sends requests to one model through a model proxy of its own."""

    def __init__(self, upstream: ModelUpstream, requests: ModelRequests, workspace: Workspace) -> None:
        """Open the proxy with the price and the limits of a turn."""
        self._upstream, self._requests = upstream, requests
        self._seed, self._n_asked = workspace.seed, 0
        self.asked: dict[str, object] = {}
        """The hash of the last request, with its seed if it had one, for the transcript."""
        self._proxy = ModelProxy(upstream.within(workspace), workspace.model_log, workspace.report, warns=False)
        self._address = self._proxy.serve(socket.create_server(("127.0.0.1", 0)))
        self.has_answered = False
        """Whether the model has answered at least once."""
        self.findings: dict[str, str] = {}
        """``prompt_cut`` if the server read less of a request than it was sent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._proxy.close()

    def usage(self) -> ModelUsage:
        """Return the usage so far; it is final once the client is closed."""
        return self._proxy.usage()

    def waiting_s(self) -> float:
        """Return for how many seconds the request under way has waited; 0 if there is none."""
        return self._proxy.waiting_s()

    def conversation(self, effort: str, *, bash: bool = True) -> Conversation:
        """Return a new conversation in the model server's API format."""
        return CONVERSATIONS[self._upstream.wire](effort, bash=bash)

    def ask(self, conversation: Conversation, pause: Pause) -> Answer:
        """Return the model's next answer.

        Raises ``ModelFailed``, ``ConversationTooLong``, ``AllowanceSpent``, and whatever ``pause`` raises.
        """
        seed = self._requests.seed(self._seed, self._n_asked)
        document = self._requests.document(conversation, seed)
        self._n_asked += 1
        self.asked = {"request_sha256": request_sha256(document)} | ({} if seed is None else {"seed": seed})
        body, used = json.dumps(document).encode(), self._proxy.usage().input
        deadline, before = 0.0, ""
        for attempt in range(TRIES):
            try:
                answer = self._attempt(conversation, body, pause)
            except _Failed as error:
                trouble, wait_s = error.trouble, error.pause_s or min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**attempt)
            else:
                self._compare_prompt(document, self._proxy.usage().input - used)
                return answer
            message = trouble.sentence(self._upstream.prefix)
            if trouble.fault is ServerFault.CONTEXT:
                raise ConversationTooLong(message)
            deadline = deadline or time.monotonic() + PATIENCE_S
            if not trouble.rule.retried or attempt == TRIES - 1 or time.monotonic() + wait_s > deadline:
                times = f" It was asked {attempt + 1} times in a row." if attempt else ""
                raise ModelFailed(message + times, trouble.rule.end)
            again = "The same again." if message == before else message
            LOG.warning("%s Attempt %d of %d follows in %.0f s.", again, attempt + 2, TRIES, wait_s)
            before = message
            _wait(wait_s, pause)
        raise AssertionError("unreachable")

    def _compare_prompt(self, document: Mapping[str, Any], read: int) -> None:
        """Warn once if a server counted fewer tokens than a request must have had; some cut long ones silently.

        Only what the harness said counts, since servers may leave out earlier reasoning of the model.
        """
        contents = [message["content"] for message in document["messages"] if message["role"] != "assistant"]
        sent = sum(len(text) for text in contents if isinstance(text, str))
        if self.findings or not 0 < read * MOST_CHARACTERS_A_TOKEN < sent:
            return
        self.findings["prompt_cut"] = f"the model server read {read} tokens of {sent} characters"
        LOG.warning(
            "The model server read %d tokens of a request of %d characters: it cuts what exceeds its context. "
            "Serve the model with a larger one.",
            read,
            sent,
        )

    def _attempt(self, conversation: Conversation, body: bytes, pause: Pause) -> Answer:
        try:
            status, headers, data = asyncio.run(self._post(conversation, body, pause))
        except httpx2.HTTPError:
            raise _Failed(self._proxy.trouble() or Trouble(ServerFault.BROKE_OFF)) from None
        if status != OK and (spent := self._proxy.spent()):
            raise AllowanceSpent(spent)
        if trouble := self._proxy.trouble():
            raise _Failed(trouble, _pause_s(headers))
        if status != OK:
            refusal = " ".join(data.decode("utf-8", "replace").split())[:300]
            raise ModelFailed(f"The request was not sent to the model server: {refusal}", AgentEnd.CRASHED)
        try:
            answer = conversation.read(json.loads(data))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
            shown = " ".join(data[:300].decode("utf-8", "replace").split())
            raise _Failed(Trouble(ServerFault.UNREADABLE, reason=shown)) from error
        self.has_answered = True
        return answer

    async def _post(
        self, conversation: Conversation, body: bytes, pause: Pause
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, headers and body of an answer; call ``pause`` while waiting for it."""
        request = asyncio.ensure_future(self._send(conversation, body))
        try:
            while not request.done():
                await asyncio.wait({request}, timeout=LOOK_S)
                pause(0.0)
        finally:
            request.cancel()
        return await request

    async def _send(self, conversation: Conversation, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        headers = {"content-type": "application/json", **conversation.headers}
        headers |= credential_header(conversation.wire, self._address.key, [])
        address = self._address.address + conversation.path
        async with (
            httpx2.AsyncClient(trust_env=False, timeout=None, verify=False) as client,
            client.stream("POST", address, headers=headers, content=body) as response,
        ):
            data = bytearray()
            async for chunk in response.aiter_bytes():
                data += chunk
                if len(data) > MOST_BYTES:
                    raise _Failed(Trouble(ServerFault.UNREADABLE, reason=f"it has more than {MOST_BYTES} bytes"))
        return response.status_code, response.headers, bytes(data)


def _wait(seconds: float, pause: Pause) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        pause(min(left, LOOK_S))


def _pause_s(headers: Mapping[str, str]) -> float:
    """Return the pause that a server requests in seconds; 0 for none, and for a date."""
    try:
        return max(0.0, float(headers.get("retry-after", "0")))
    except ValueError:
        return 0.0


class Transcript:
    """A file with a JSON line for each message between an agent and its model."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._room = TRANSCRIPT_BYTES - (path.stat().st_size if path.exists() else 0)

    def write(self, role: str, **what: Any) -> None:  # noqa: ANN401 - anything that is JSON
        """Append a line while there is room; errors such as a full disk are ignored."""
        data = json.dumps({"time": now(), "role": role, **what}) + "\n"
        self._room -= len(data)
        if self._room < 0:
            return
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with regular_file.appender(self._path) as file:
                file.write(data.encode())
