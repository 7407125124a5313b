"""API formats of model servers: how each carries a key and how each reports an error."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from evopolicygym.core.errors import EvoPolicyGymError

Headers = list[tuple[bytes, bytes]]
"""Headers as received: names in lower case, a pair for each line."""
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


class ApiFormat(StrEnum):
    """An API format of a model server."""

    AUTO = "auto"
    """Any of the others, distinguished by each request's path."""
    RESPONSES = "responses"
    """OpenAI Responses."""
    CHAT = "chat"
    """OpenAI Chat Completions, which many servers implement."""
    MESSAGES = "messages"
    """Anthropic Messages."""
    GEMINI = "gemini"
    """Gemini ``generateContent`` and ``streamGenerateContent``."""


class ModelRequestRefused(EvoPolicyGymError):
    """The model proxy refuses or fails to forward a request; the agent's program is shown the message."""

    def __init__(self, http_status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.http_status = http_status
        self.reason = reason
        """One or two words for the log."""


def error_body(wire: ApiFormat, status: int, reason: str, message: str) -> dict[str, Any]:
    """Return an error body in the shape of an API format."""
    match wire:
        case ApiFormat.MESSAGES:
            return {"type": "error", "error": {"type": _ANTHROPIC_ERRORS.get(status, "api_error"), "message": message}}
        case ApiFormat.GEMINI:
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


def presented_keys(headers: Headers, query: Mapping[str, str]) -> Iterator[bytes]:
    """Yield every key that a request presents."""
    for name, value in headers:
        if name == b"authorization":
            scheme, _, key = value.partition(b" ")
            yield key.strip() if scheme.lower() == b"bearer" else b""
        elif name in CREDENTIALS:
            yield value.strip()
    if "key" in query:
        yield query["key"].encode()


def credential_header(wire: ApiFormat, key: str, headers: Headers) -> dict[str, str]:
    """Return the header that carries the real key in an API format; empty without a key."""
    if not key:
        return {}
    names = {name for name, _ in headers}
    match wire:
        case ApiFormat.GEMINI:
            return {"x-goog-api-key": key}
        case ApiFormat.MESSAGES if b"authorization" not in names:
            return {"x-api-key": key}
        case _:
            return {"authorization": f"Bearer {key}"}
