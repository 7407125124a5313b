"""The requests that pass a model proxy: generation, counting tokens, listing models, and nothing else.

A path is never passed on as it came: it must be one of those below to the letter, without escapes, and what goes out
is written anew. What may stand in a body is described in ``inspection.py``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import parse_qsl, urlencode

from evopolicygym.model_proxy.wire import Headers, ModelRequestRefused, Wire

_VERSION = r"(?:/v\d{1,2}(?:(?:alpha|beta)\d?)?)?"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._@+-]*(?::[A-Za-z0-9._-]+)?"
_MODEL = rf"(?:{_NAME}/){{0,3}}{_NAME}"
QUERY = {
    "alt": re.compile(r"sse|json"),
    "beta": re.compile(r"true|false"),
    "api-version": re.compile(r"[\w.-]{1,40}", re.ASCII),
    "client_version": re.compile(r"[\w.+-]{1,40}", re.ASCII),
    "limit": re.compile(r"\d{1,5}", re.ASCII),
    "pageSize": re.compile(r"\d{1,5}", re.ASCII),
    "pageToken": re.compile(r"[\w=.-]{1,500}", re.ASCII),
    "after": re.compile(r"[\w.:/-]{1,200}", re.ASCII),
    "after_id": re.compile(r"[\w.:/-]{1,200}", re.ASCII),
    "before_id": re.compile(r"[\w.:/-]{1,200}", re.ASCII),
}
"""What a query may say; ``key`` besides, which isn't passed on."""


class RequestKind(StrEnum):
    """What a request is for."""

    GENERATE = "generate"
    COUNT = "count"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request that may pass, as far as its first line tells."""

    wire: Wire
    kind: RequestKind
    method: str
    path: str
    query: str
    """Without a key."""
    model: str = ""
    """Where the path names it."""

    @property
    def target(self) -> str:
        """What stands after the upstream's own prefix."""
        return f"{self.path}?{self.query}" if self.query else self.path


_POSTS = (
    (Wire.RESPONSES, RequestKind.GENERATE, rf"{_VERSION}/responses(?:/compact)?"),
    (Wire.RESPONSES, RequestKind.COUNT, rf"{_VERSION}/responses/input_tokens"),
    (Wire.CHAT, RequestKind.GENERATE, rf"{_VERSION}/chat/completions"),
    (Wire.MESSAGES, RequestKind.GENERATE, rf"{_VERSION}/messages"),
    (Wire.MESSAGES, RequestKind.COUNT, rf"{_VERSION}/messages/count_tokens"),
    (
        Wire.GEMINI,
        RequestKind.GENERATE,
        rf"{_VERSION}/models/(?P<model>{_MODEL}):(?:generateContent|streamGenerateContent)",
    ),
    (Wire.GEMINI, RequestKind.COUNT, rf"{_VERSION}/models/(?P<model>{_MODEL}):countTokens"),
)
_LISTING = re.compile(rf"{_VERSION}/models(?:/{_MODEL})?")


def read_query(raw: bytes) -> dict[str, str]:
    """Return a query's fields; raise ``ModelRequestRefused`` where it can't be read in one way only."""
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, strict_parsing=bool(raw), errors="strict", max_num_fields=16
        )
    except ValueError:
        raise ModelRequestRefused(400, "query", "The query can't be read.") from None
    if len({name for name, _ in pairs}) < len(pairs):
        raise ModelRequestRefused(400, "query", "The query names a field twice.")
    return dict(pairs)


def recognise(wire: Wire, method: str, path: str, query: Mapping[str, str], headers: Headers) -> ModelRequest:
    """Return what a request is; raise ``ModelRequestRefused`` where it is none that passes."""
    for name, value in query.items():
        if name != "key" and not (name in QUERY and QUERY[name].fullmatch(value)):
            raise ModelRequestRefused(
                403, "query", f"The query may hold only {', '.join(sorted(QUERY))}, with plain values."
            )
    kept = urlencode({name: value for name, value in query.items() if name != "key"})
    if method == "POST":
        for spoken, kind, pattern in _POSTS:
            if wire in {Wire.AUTO, spoken, _sibling(spoken)} and (match := re.fullmatch(pattern, path)):
                return ModelRequest(spoken, kind, method, path, kept, match.groupdict().get("model", ""))
    if method == "GET" and _LISTING.fullmatch(path):
        return ModelRequest(likely(wire, path, headers), RequestKind.LIST, method, path, kept)
    raise ModelRequestRefused(
        403,
        "endpoint",
        "The model proxy passes on generation, counting tokens and listing models in the format of its model server, "
        "and nothing else.",
    )


def likely(wire: Wire, path: str, headers: Headers) -> Wire:
    """Return the format that a request most likely speaks, whether it may pass or not."""
    if wire is not Wire.AUTO:
        return wire
    names = {name for name, _ in headers}
    if b"x-goog-api-key" in names or "/v1beta/" in path or re.search(r":\w+$", path):
        return Wire.GEMINI
    if b"x-api-key" in names or b"anthropic-version" in names or "/messages" in path:
        return Wire.MESSAGES
    return Wire.RESPONSES if "/responses" in path else Wire.CHAT


def _sibling(spoken: Wire) -> Wire:
    """Return the format that is served under the same address and key."""
    return {Wire.RESPONSES: Wire.CHAT, Wire.CHAT: Wire.RESPONSES}.get(spoken, spoken)
