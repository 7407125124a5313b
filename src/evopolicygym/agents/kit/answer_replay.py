"""Sends the requests of a run's transcript to a model's server again, and compares the answers."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from evopolicygym.agents.kit.model_requests import ModelRequests, request_sha256
from evopolicygym.agents.kit.neutral_harness.chat_formats import Answer, Conversation, ToolCall, add_step
from evopolicygym.core.agent import ComparedAnswer
from evopolicygym.core.errors import AgentError, UsageError
from evopolicygym.model_proxy.formats import credential_header
from evopolicygym.model_proxy.upstream import ModelUpstream

Line = Mapping[str, Any]
OK = 200


def compare_answers(
    upstream: ModelUpstream, requests: ModelRequests, begin: Callable[[], Conversation], lines: Iterable[Line]
) -> Iterator[ComparedAnswer]:
    """Yield each answer of a transcript beside the one that the server gives now; ``begin`` opens a conversation.

    Each request has the recorded history, so that answers after a different one are compared too. Raises ``UsageError``
    if a request can't be made again, ``AgentError`` if the server fails.
    """
    import httpx2

    from evopolicygym.model_proxy.forward import tls_context

    timeout = httpx2.Timeout(upstream.most_silence_s, connect=upstream.connect_timeout_s)
    with httpx2.Client(verify=tls_context(), trust_env=False, timeout=timeout) as client:
        for conversation, line in _answers(begin, lines):
            document = requests.document(conversation, line.get("seed"))
            if request_sha256(document) != line.get("request_sha256"):
                raise UsageError(
                    "A request can't be made again: it is not recorded, or this version words its requests otherwise."
                )
            yield ComparedAnswer(_shown(_recorded(line)), _shown(_ask(client, upstream, conversation, document)))


def _answers(begin: Callable[[], Conversation], lines: Iterable[Line]) -> Iterator[tuple[Conversation, Line]]:
    """Yield each line with an answer, and the conversation before it."""
    conversation, answer, results = begin(), None, list[str]()
    for line in lines:
        role = line.get("role")
        if role == "tool":
            results.append(str(line.get("text")))
        if role not in {"user", "assistant"}:
            continue
        if line.get("begins"):
            conversation = begin()
        elif answer is not None:
            add_step(conversation, answer, results)
        answer, results = None, []
        if role == "user":
            conversation.say(str(line.get("text")))
        else:
            yield conversation, line
            answer = _recorded(line)


def _recorded(line: Line) -> Answer:
    """Return an answer as it was recorded."""
    text, commands = str(line.get("text")), line.get("commands") or []
    message = line.get("message") or ({"role": "assistant", "content": text} if text else None)
    if line.get("as") == "text" or not message:
        return Answer(message, text, ())
    calls = message.get("tool_calls") or [
        block for block in message["content"] if isinstance(block, dict) and block.get("type") == "tool_use"
    ]
    pairs = zip(calls, commands, strict=True)
    return Answer(message, text, tuple(ToolCall(str(call["id"]), command) for call, command in pairs))


def _ask(client: Any, upstream: ModelUpstream, conversation: Conversation, document: Mapping[str, Any]) -> Answer:  # noqa: ANN401 - a library that is imported late
    import httpx2

    headers = {**conversation.headers, **credential_header(conversation.wire, upstream.key(), [])}
    try:
        response = client.post(upstream.prefix + conversation.path, json=document, headers=headers)
        if response.status_code != OK:
            words = " ".join(response.text.split())[:300]
            raise AgentError(f"The model server {upstream.prefix} answered with {response.status_code}: {words}")
        return conversation.read(response.json())
    except httpx2.HTTPError as error:
        raise AgentError(f"The model server {upstream.prefix} gave no answer: {error}") from error
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise AgentError(f"The model server {upstream.prefix} gave an answer that is none: {error}") from error


def _shown(answer: Answer) -> str:
    """Return what of an answer the model said: its text, and its calls without the ids that the server made up."""
    calls = [call.command for call in answer.calls]
    return answer.text + (f"\n{json.dumps(calls)}" if calls else "")
