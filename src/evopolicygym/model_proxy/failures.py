"""What a model server's failure means: one classification, by content as well as by status.

A failure can come as a status, as an event inside a stream that began with 200, as plain JSON with 200, or as no answer
at all. ``classify`` reads the first three in every API format, ``unreached`` the last. ``FAULTS`` says what follows.
"""

import json
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from evopolicygym.core.agent import AgentEnd
from evopolicygym.core.causes import Cause
from evopolicygym.model_proxy.mask import mask_account


class ServerFault(StrEnum):
    """How a model server failed."""

    OVERLOADED = "overloaded"
    RATE_LIMIT = "rate limit"
    NO_CREDIT = "no credit"
    KEY = "key"
    FORBIDDEN = "forbidden"
    NO_MODEL = "no model"
    CONTEXT = "context exceeded"
    REQUEST = "invalid request"
    UNCLEAR = "unclear"
    """It rejects a request without saying that the request is at fault."""
    BROKE_OFF = "broke off"
    HUNG = "hung"
    UNREADABLE = "unreadable"
    REFUSED = "refused"
    NO_HOST = "no host"
    CERTIFICATE = "certificate"
    SCHEME = "scheme"
    """https where http is spoken, or the other way round."""
    NO_MEMORY = "out of memory"


@dataclass(frozen=True, slots=True)
class FaultRule:
    """What follows from a fault."""

    what: str
    """The predicate of a sentence about the model server."""
    end: AgentEnd
    """The end of a turn that ends by it."""
    retried: bool = True
    """Whether the same request may succeed later."""
    may_have_worked: bool = False
    """Whether the model may have worked although no usage was reported."""
    hint: str = ""
    """What a person can do."""

    @property
    def cause(self) -> Cause:
        """Whose failure it is."""
        return Cause.MODEL_SERVER if self.end.pauses else Cause.REQUEST


FAULTS: Mapping[ServerFault, FaultRule] = {
    ServerFault.OVERLOADED: FaultRule("is overloaded or fails", AgentEnd.UNAVAILABLE),
    ServerFault.RATE_LIMIT: FaultRule("accepts no more requests for now", AgentEnd.LIMITED),
    ServerFault.NO_CREDIT: FaultRule(
        "says that the account, or its key, has no credit left",
        AgentEnd.LIMITED,
        retried=False,
        hint="Add credit or raise the key's limit, then resume",
    ),
    ServerFault.KEY: FaultRule(
        "rejects the key", AgentEnd.UNAUTHORIZED, retried=False, hint="Check the key, and --model-key"
    ),
    ServerFault.FORBIDDEN: FaultRule(
        "refuses this to the account",
        AgentEnd.UNAUTHORIZED,
        retried=False,
        hint="Check the account's rights, --model and --model-key",
    ),
    ServerFault.NO_MODEL: FaultRule(
        "has no such model or address", AgentEnd.UNAVAILABLE, retried=False, hint="Check --model and --model-url"
    ),
    ServerFault.NO_MEMORY: FaultRule(
        "has too little memory for the model",
        AgentEnd.UNAVAILABLE,
        retried=False,
        hint="Serve a smaller model, or with a smaller context",
    ),
    ServerFault.CONTEXT: FaultRule(
        "says that the request is longer than the model's context", AgentEnd.CONTEXT_EXCEEDED, retried=False
    ),
    ServerFault.REQUEST: FaultRule("says that the request is invalid", AgentEnd.CRASHED, retried=False),
    ServerFault.UNCLEAR: FaultRule(
        "rejects the request without saying why",
        AgentEnd.UNAVAILABLE,
        retried=False,
        hint="Check --model, --model-key, --model-url and --model-wire",
    ),
    ServerFault.BROKE_OFF: FaultRule("broke off its answer", AgentEnd.UNAVAILABLE, may_have_worked=True),
    ServerFault.HUNG: FaultRule("did not answer in time", AgentEnd.UNAVAILABLE, may_have_worked=True),
    ServerFault.UNREADABLE: FaultRule(
        "answered with something that is no answer", AgentEnd.UNAVAILABLE, may_have_worked=True
    ),
    ServerFault.REFUSED: FaultRule(
        "can't be reached", AgentEnd.UNAVAILABLE, hint="Check that it runs, and --model-url"
    ),
    ServerFault.NO_HOST: FaultRule(
        "can't be found: its host name is unknown", AgentEnd.UNAVAILABLE, retried=False, hint="Check --model-url"
    ),
    ServerFault.CERTIFICATE: FaultRule(
        "shows a certificate that is not trusted here",
        AgentEnd.UNAVAILABLE,
        retried=False,
        hint="Name the file of its certificate authority in SSL_CERT_FILE, or a directory in SSL_CERT_DIR",
    ),
    ServerFault.SCHEME: FaultRule(
        "speaks http where --model-url says https, or the other way round",
        AgentEnd.UNAVAILABLE,
        retried=False,
        hint="Check --model-url",
    ),
}
"""What follows from each fault; the pauses are those of ``core.causes``."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A failed request to a model server."""

    fault: ServerFault
    status: int = 0
    """HTTP status; that of the fault's kind where it came inside an answer with 200; 0 without any answer."""
    reason: str = ""
    """The server's own words in one line, without keys and account names; may be empty."""
    inside: bool = False
    """Whether it came inside an answer that had begun with 200."""
    names: tuple[str, ...] = ()
    """Models that the server has, where it has not the one that was asked for."""

    @property
    def rule(self) -> FaultRule:
        """What follows from it."""
        return FAULTS[self.fault]

    def sentence(self, server: str = "") -> str:
        """Return a sentence for people, with the server's name, status and words, and what to do."""
        where = f"The model server {server}" if server else "The model server"
        status = f" (HTTP {self.status}{' inside its answer' if self.inside else ''})" if self.status else ""
        words = f": {self.reason}" if self.reason else ""
        end = "" if (words or status).endswith((".", "!", "?")) else "."
        names = f" It has: {', '.join(self.names)}." if self.names else ""
        hint = f" {self.rule.hint}." if self.rule.hint else ""
        return f"{where} {self.rule.what}{status}{words}{end}{names}{hint}"


REASON_LENGTH = 300
MAX_PARSED = 1 << 20
"""Bytes of an answer above which it is no error."""

CONTEXT_CODES = frozenset(
    {
        "context_length_exceeded",  # OpenAI, Azure, Groq, Cerebras, DeepSeek, vLLM
        "context_window_exceeded",
        "model_context_window_exceeded",  # Z.ai
        "exceed_context_size_error",  # llama.cpp
        "request_too_large",  # Anthropic, 413
        "tokens_limit_reached",  # GitHub Models
        "model_max_prompt_tokens_exceeded",  # GitHub Copilot
        "input_too_long",
        "prompt_too_long",
        "string_above_max_length",  # OpenAI, one message over its limit
        "1261",  # Zhipu
    }
)
CONTEXT_WORDS: Mapping[str, str] = {
    r"maximum context length": "OpenAI, Azure, DeepSeek, vLLM, OpenRouter, Mistral, Fireworks",
    r"exceeds? (?:the|this model's|the model's) context (?:window|length|limit|size)": "OpenAI Responses",
    r"exceed context limit": "Anthropic, input and max_tokens together",
    r"prompt is too long": "Anthropic, Vertex, Fireworks",
    r"prompt too long": "Ollama",
    r"input is too long": "Bedrock",
    r"input token count.{0,40}exceeds": "Gemini, Vertex",
    r"request payload size exceeds": "Gemini, bytes",
    r"exceeds the maximum number of tokens": "Gemini",
    r"maximum prompt length": "xAI",
    r"prompt exceeds max length": "Zhipu",
    r"exceeded model token limit": "Moonshot",
    r"range of input length should be": "DashScope",
    r"maximum (?:allowed )?input length": "Volcengine, Together, Databricks",
    r"reduce the length of (?:the|your) (?:messages|input|prompt)": "Groq, Cerebras, OpenAI",
    r"tokens? limit \d* ?for this model": "watsonx",
    r"longer than the (?:model's |maximum )?(?:context|model) length": "SGLang, vLLM, Together",
    r"`?inputs`? tokens \+ `?max_new_tokens`? must be": "Text Generation Inference, Together",
    r"`?inputs`? must have less than \d+ tokens": "Text Generation Inference",
    r"exceeds? the available context size": "llama.cpp",
    r"(?:greater|more) than the context length": "LM Studio",
    r"context (?:the )?overflows?": "LM Studio",
    r"context length of only": "LM Studio",
    r"context window exceeds limit": "MiniMax",
    r"context[ _](?:length|window)[ _]exceeded": "several",
    r"exceeded (?:max )?context length": "Ollama",
    r"configured context size is": "several",
    r"too many tokens: ": "Cohere, which says how many",
    r"request (?:body )?too large for": "Groq, GitHub Models, OpenAI (429: more than a minute's tokens)",
    r"request exceeds the maximum size": "Anthropic, 413",
    r"prompt token count of \d+ exceeds": "GitHub Copilot",
    r"exceed max message tokens": "Volcengine",
    r"input length.{0,40}exceeds? the (?:maximum|context)": "several",
}
"""What providers say of a request longer than the model's context, whatever the status: patterns, and whose words."""

CREDIT_CODES = frozenset(
    {
        "insufficient_quota",  # OpenAI, DashScope
        "billing_hard_limit_reached",  # OpenAI, 400
        "billing_not_active",  # OpenAI
        "billing_error",  # Anthropic
        "exceeded_current_quota_error",  # Moonshot
        "arrearage",  # DashScope
        "insufficient_balance",
        "insufficient_credits",
        "payment_required",
        "credit_limit_exceeded",
        "1113",  # Zhipu
        "1008",  # MiniMax
    }
)
CREDIT_WORDS: Mapping[str, str] = {
    r"credit balance is too low": "Anthropic, 400",
    r"insufficient (?:account )?(?:balance|credits?|funds|quota)": "DeepSeek, OpenRouter, Moonshot",
    r"requires more credits": "OpenRouter",
    r"(?:key|account|spend|spending|usage|credit) limit (?:was |is |has been )?(?:exceeded|reached)": "OpenRouter, 403",
    r"(?:monthly|weekly|daily) limit (?:was |is |has been )?(?:exceeded|reached)": "OpenRouter, 403",
    r"used all available credits": "xAI",
    r"reached (?:its|your) (?:monthly |specified )?(?:spend(?:ing)?|usage|api usage) limits?": "xAI, Anthropic",
    r"exceeded your current quota": "OpenAI; Gemini, unless it says when to come back",
    r"account in good standing": "DashScope",
    r"(?:run|ran) out of credits?": "several",
    r"billing hard limit": "OpenAI",
    r"余额不足": "Zhipu",
}
"""What providers say of an account, or a key, without credit, whatever the status: patterns, and whose words."""

MODEL_CODES = frozenset({"model_not_found", "model_not_available", "model_not_exist", "modelnotfound"})
MODEL_WORDS = re.compile(
    r"model[^.]{0,80}(?:not found|does not exist|is not available|isn't loaded)|no such model"
    r"|unknown model|invalid model|not a valid model|no endpoints found|no models? loaded",
    re.IGNORECASE,
)
MEMORY_WORDS: Mapping[str, str] = {
    r"requires more (?:system|gpu) memory": "Ollama",
    r"\bout of memory\b|outofmemory": "CUDA, vLLM, llama.cpp",
    r"(?:failed|unable) to allocate": "llama.cpp, Ollama",
    r"insufficient (?:system resources|memory)": "LM Studio",
    r"no available memory for the cache blocks": "vLLM",
}
"""What servers say that have too little memory for a model or its context: patterns, and whose words."""
SCHEME_WORDS = re.compile(r"plain http request was sent to https|http request to an https server", re.IGNORECASE)
KEY_WORDS = re.compile(r"\b(?:invalid|incorrect|missing|no)\b[^.]{0,20}api[ _-]?key|api key not valid", re.IGNORECASE)
COMES_BACK = re.compile(r"retrydelay|retry in \d|try again in|per.?minute", re.IGNORECASE)
"""Words of a limit that passes soon, even where the same sentence speaks of a quota."""

_CONTEXT, _CREDIT, _MEMORY = (
    re.compile("|".join(words), re.IGNORECASE) for words in (CONTEXT_WORDS, CREDIT_WORDS, MEMORY_WORDS)
)

STATUS_OF_CODE: Mapping[str, int] = {
    "overloaded_error": 529,
    "overloaded": 529,
    "unavailable_error": 503,
    "service_unavailable": 503,
    "unavailable": 503,
    "server_error": 500,
    "server_is_overloaded": 503,
    "slow_down": 503,
    "internal": 500,
    "internal_error": 500,
    "internal_server_error": 500,
    "internalservererror": 500,
    "api_error": 500,
    "timeout_error": 504,
    "deadline_exceeded": 504,
    "upstream_error": 502,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "rate_limit_reached_error": 429,
    "rate_limit": 429,
    "throttlingexception": 429,
    "throttling": 429,
    "resource_exhausted": 429,
    "engine_overloaded_error": 429,
    "too_many_requests": 429,
    "authentication_error": 401,
    "invalid_authentication_error": 401,
    "invalid_api_key": 401,
    "unauthenticated": 401,
    "permission_error": 403,
    "permission_denied": 403,
    "permission_denied_error": 403,
    "not_found_error": 404,
    "not_found": 404,
    "resource_not_found_error": 404,
    "invalid_request_error": 400,
    "invalid_argument": 400,
    "badrequesterror": 400,
    "invalid_prompt": 400,
    "bad_request": 400,
    "failed_precondition": 400,
    "invalid_parameter_error": 400,
    "content_filter": 400,
    "validationerror": 422,
}
"""The HTTP status of each error type or code that providers use, for errors that come inside an answer."""
OF_THE_REQUEST = frozenset(code for code, status in STATUS_OF_CODE.items() if status in {400, 422}) - {
    "failed_precondition"
}
"""Codes by which a server says that the request is at fault."""
SERVER_ERROR = 500
"""HTTP statuses from this one on are the server's own failures."""
PASSING = frozenset({408, 409, 425})
TIMED_OUT = frozenset({408, 499, 504, 524})
"""Timeouts, after which the model may still have worked."""


def classify(status: int, body: bytes, *, inside: bool = False) -> Trouble:
    """Return what an error means that came with a status of 400 or more, or ``inside`` an answer with 200.

    ``body`` is an answer's body or an event's data, in any API format.
    """
    codes, words = _codes_and_words(body)
    if inside or status < 400:  # noqa: PLR2004 - HTTP's own number
        named = next((STATUS_OF_CODE[code] for code in codes if code in STATUS_OF_CODE), 0)
        status = named or _number(codes) or SERVER_ERROR
    text = f"{' '.join(codes)} {words}"
    fault = _fault(status, codes, text)
    reason = _one_line(words or " ".join(codes))
    return Trouble(fault, status, reason, inside)


def _fault(status: int, codes: tuple[str, ...], text: str) -> ServerFault:
    named = frozenset(codes)
    if named & CONTEXT_CODES or _CONTEXT.search(text):
        return ServerFault.CONTEXT
    if status == 402 or ((named & CREDIT_CODES or _CREDIT.search(text)) and not COMES_BACK.search(text)):  # noqa: PLR2004
        return ServerFault.NO_CREDIT
    if status == 429:  # noqa: PLR2004 - HTTP's own numbers, here and below
        return ServerFault.RATE_LIMIT
    if status in {401, 407} or (status < SERVER_ERROR and KEY_WORDS.search(text)):
        return ServerFault.KEY
    if status == 404 or (status < SERVER_ERROR and (named & MODEL_CODES or MODEL_WORDS.search(text))):  # noqa: PLR2004
        return ServerFault.NO_MODEL
    if status == 403:  # noqa: PLR2004
        return ServerFault.FORBIDDEN
    if SCHEME_WORDS.search(text):
        return ServerFault.SCHEME
    if status in TIMED_OUT:
        return ServerFault.HUNG
    if _MEMORY.search(text):
        return ServerFault.NO_MEMORY
    if status >= SERVER_ERROR or status in PASSING:
        return ServerFault.OVERLOADED
    if status == 413:  # noqa: PLR2004
        return ServerFault.CONTEXT
    return ServerFault.REQUEST if named & OF_THE_REQUEST else ServerFault.UNCLEAR


def error_in(document: object) -> object:
    """Return the error in a document of an answer with 200, in any API format; None if it has none."""
    if not isinstance(document, dict):
        return None
    kind = document.get("type")
    if kind == "error" or document.get("object") == "error":
        return document.get("error") or document
    if error := document.get("error"):
        return error
    inner = document.get("response")
    if kind == "response.failed" or (isinstance(inner, dict) and inner.get("status") == "failed"):
        return (inner.get("error") if isinstance(inner, dict) else None) or document
    if document.get("status") == "failed" and document.get("object") == "response":
        return document
    choices = document.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and (choice.get("error") or choice.get("finish_reason") == "error"):
            return choice.get("error") or {"message": "the answer ended with finish_reason: error"}
    return None


def unreadable(body: bytes) -> Trouble:
    """Return what it means that a whole answer is none, with its words."""
    codes, words = _codes_and_words(body)
    return Trouble(ServerFault.UNREADABLE, reason=_one_line(words or " ".join(codes)))


def unreached(error: BaseException) -> Trouble:
    """Return what it means that no connection to a model server could be made."""
    for cause in _chain(error):
        match cause:
            case ssl.SSLCertVerificationError():
                return Trouble(ServerFault.CERTIFICATE, reason=_one_line(cause.verify_message))
            case ssl.SSLError():
                return Trouble(ServerFault.SCHEME, reason=_one_line(str(cause.args[-1] if cause.args else "")))
            case socket.gaierror() if cause.errno == socket.EAI_AGAIN:
                return Trouble(ServerFault.REFUSED, reason="its host name can't be looked up for now")
            case socket.gaierror():
                return Trouble(ServerFault.NO_HOST)
            case ConnectionRefusedError():
                return Trouble(ServerFault.REFUSED, reason="the connection was refused")
            case _:
                pass
    return Trouble(ServerFault.REFUSED)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        if isinstance(error, BaseExceptionGroup):
            for part in error.exceptions:
                yield from _chain(part)
        error = error.__cause__ or error.__context__


def _codes_and_words(body: bytes) -> tuple[tuple[str, ...], str]:
    """Return an error's types and codes, in lower case, and its message."""
    text = body[:MAX_PARSED].decode("utf-8", "replace")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return (), _plain_text(text)
    if isinstance(document, list):  # Gemini, streamed without events
        document = document[0] if document else None
    if not isinstance(document, dict):
        return (), "" if document is None else str(document)
    error = error_in(document)
    holders = [item for item in (error, document) if isinstance(item, dict)]
    codes = [
        str(holder[name]).lower()
        for holder in holders
        for name in ("code", "type", "status", "__type", "reason")
        if isinstance(holder.get(name), str | int) and not isinstance(holder[name], bool)
    ]
    words = error if isinstance(error, str) else next(filter(None, map(_message, holders)), "")
    return tuple(dict.fromkeys(code for code in codes if code != "error")), str(words)


def _message(error: Mapping[str, Any]) -> str:
    """Return an error's message, with what a router quotes of the server behind it."""
    value = next((error[name] for name in ("message", "detail", "error_description", "msg") if error.get(name)), "")
    message = value if isinstance(value, str) else json.dumps(value)
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if raw:
        message += f" ({raw if isinstance(raw, str) else json.dumps(raw)})"
    details = error.get("details")
    if isinstance(details, list) and "retryDelay" in (listed := json.dumps(details)):
        message += f" ({listed[listed.index('retryDelay') :][:40]})"
    return message


def _number(codes: tuple[str, ...]) -> int:
    """Return an HTTP status among the codes; 0 if there is none."""
    return next((int(code) for code in codes if re.fullmatch(r"[45]\d\d", code)), 0)


_TITLE = re.compile(r"<(title|h1)\b[^>]*>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<(?:script|style)\b.*?</(?:script|style)>|<[^>]{0,500}>", re.IGNORECASE | re.DOTALL)


def _plain_text(text: str) -> str:
    """Return a text, of a page of HTML its title."""
    if "<" not in text:
        return text
    titles = [_TAG.sub(" ", match[2]) for match in _TITLE.finditer(text)]
    return " - ".join(dict.fromkeys(titles)) or _TAG.sub(" ", text)


def _one_line(text: str) -> str:
    line = mask_account(" ".join(text.split()).encode()).decode()
    return line if len(line) <= REASON_LENGTH else line[:REASON_LENGTH] + " …"
