"""The formats that model servers speak: how each takes a key, and how each says no.

Which paths a format has is described in ``call.py``, and how it tells usage in ``meter.py``.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from evopolicygym.core.errors import EvoPolicyGymError

Headers = list[tuple[bytes, bytes]]
"""As they came: names in lower case, one pair a line."""
CREDENTIALS = (b"authorization", b"x-api-key", b"x-goog-api-key")
_ANTHROPIC_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}
_GEMINI_ERRORS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
}


class Wire(StrEnum):
    """What a model server speaks."""

    AUTO = "auto"
    """Any of the others, distinguished by each request's path."""
    RESPONSES = "responses"
    """OpenAI Responses."""
    CHAT = "chat"
    """OpenAI Chat Completions, which many servers speak."""
    MESSAGES = "messages"
    """Anthropic Messages."""
    GEMINI = "gemini"
    """Gemini ``generateContent`` and ``streamGenerateContent``."""


class ModelRequestRefused(EvoPolicyGymError):
    """The model proxy doesn't pass a request on, or can't; the message is what the agent's program is shown."""

    def __init__(self, http_status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.http_status = http_status
        self.reason = reason
        """One word or two for the log."""


def error_body(wire: Wire, status: int, reason: str, message: str) -> dict[str, Any]:
    """Return an error in a format's own shape."""
    match wire:
        case Wire.MESSAGES:
            return {"type": "error", "error": {"type": _ANTHROPIC_ERRORS.get(status, "api_error"), "message": message}}
        case Wire.GEMINI:
            return {
                "error": {
                    "code": status,
                    "message": message,
                    "status": _GEMINI_ERRORS.get(status, "FAILED_PRECONDITION"),
                }
            }
        case _:
            kind = "server_error" if status >= 500 else "invalid_request_error"  # noqa: PLR2004 - HTTP's own number
            return {"error": {"message": message, "type": kind, "param": None, "code": reason}}


def presented(headers: Headers, query: Mapping[str, str]) -> Iterator[bytes]:
    """Yield every key that a request presents."""
    for name, value in headers:
        if name == b"authorization":
            scheme, _, key = value.partition(b" ")
            yield key.strip() if scheme.lower() == b"bearer" else b""
        elif name in CREDENTIALS:
            yield value.strip()
    if "key" in query:
        yield query["key"].encode()


def credential(wire: Wire, key: str, headers: Headers) -> dict[str, str]:
    """Return the header that carries the real key, in the place where a format wants it."""
    if not key:
        return {}
    names = {name for name, _ in headers}
    match wire:
        case Wire.GEMINI:
            return {"x-goog-api-key": key}
        case Wire.MESSAGES if b"authorization" not in names:
            return {"x-api-key": key}
        case _:
            return {"authorization": f"Bearer {key}"}
