"""Decides which requests may pass: generation, counting tokens, listing models, and nothing else.

A path is never passed on as it came: it must match a pattern below exactly, without escapes, and is encoded again. A
body may hold tools that the agent's own program runs, and nothing that the server would fetch. Tool types are allowed
by name, so that a new kind of tool is refused until somebody has reviewed it. Servers differ in how they read keys
(``fileUri`` or ``file_uri``, in Go also ``Tools``): a key counts in any spelling.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qsl, urlencode

from evopolicygym.core import strict_json
from evopolicygym.model_proxy.formats import ApiFormat, Headers, ModelRequestRefused

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
"""Query fields that are passed on, with the pattern of each value; ``key`` is accepted and dropped."""


class RequestKind(StrEnum):
    """The purpose of a request."""

    GENERATE = "generate"
    COUNT = "count"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request whose method, path and query may pass."""

    wire: ApiFormat
    kind: RequestKind
    method: str
    path: str
    query: str
    """Without a key."""
    model: str = ""
    """The model that the path names, if any."""

    @property
    def target(self) -> str:
        """Path and query below the upstream's prefix."""
        return f"{self.path}?{self.query}" if self.query else self.path


_POSTS = (
    (ApiFormat.RESPONSES, RequestKind.GENERATE, rf"{_VERSION}/responses(?:/compact)?"),
    (ApiFormat.RESPONSES, RequestKind.COUNT, rf"{_VERSION}/responses/input_tokens"),
    (ApiFormat.CHAT, RequestKind.GENERATE, rf"{_VERSION}/chat/completions"),
    (ApiFormat.MESSAGES, RequestKind.GENERATE, rf"{_VERSION}/messages"),
    (ApiFormat.MESSAGES, RequestKind.COUNT, rf"{_VERSION}/messages/count_tokens"),
    (
        ApiFormat.GEMINI,
        RequestKind.GENERATE,
        rf"{_VERSION}/models/(?P<model>{_MODEL}):(?:generateContent|streamGenerateContent)",
    ),
    (ApiFormat.GEMINI, RequestKind.COUNT, rf"{_VERSION}/models/(?P<model>{_MODEL}):countTokens"),
)
_LISTING = re.compile(rf"{_VERSION}/models(?:/{_MODEL})?")


def read_query(raw: bytes) -> dict[str, str]:
    """Return a query's fields; raise ``ModelRequestRefused`` if it is ambiguous."""
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, strict_parsing=bool(raw), errors="strict", max_num_fields=16
        )
    except ValueError:
        raise ModelRequestRefused(400, "query", "Invalid query: it can't be decoded.") from None
    if len({name for name, _ in pairs}) < len(pairs):
        raise ModelRequestRefused(400, "query", "Invalid query: a field occurs twice.")
    return dict(pairs)


def classify_request(
    wire: ApiFormat, method: str, path: str, query: Mapping[str, str], headers: Headers
) -> ModelRequest:
    """Return a request's format and kind; raise ``ModelRequestRefused`` if it may not pass."""
    for name, value in query.items():
        if name != "key" and not (name in QUERY and QUERY[name].fullmatch(value)):
            raise ModelRequestRefused(
                403, "query", f"Invalid query: expected only {', '.join(sorted(QUERY))}, with plain values."
            )
    forwarded = urlencode({name: value for name, value in query.items() if name != "key"})
    if method == "POST":
        for api_format, kind, pattern in _POSTS:
            if wire in {ApiFormat.AUTO, api_format, _sibling(api_format)} and (match := re.fullmatch(pattern, path)):
                return ModelRequest(api_format, kind, method, path, forwarded, match.groupdict().get("model", ""))
    if method == "GET" and _LISTING.fullmatch(path):
        return ModelRequest(guess_format(wire, path, headers), RequestKind.LIST, method, path, forwarded)
    raise ModelRequestRefused(
        403,
        "endpoint",
        "The model proxy passes on generation, counting tokens and listing models in the format of its model server, "
        "and nothing else.",
    )


def guess_format(wire: ApiFormat, path: str, headers: Headers) -> ApiFormat:
    """Return the most likely API format of a request, whether it may pass or not."""
    if wire is not ApiFormat.AUTO:
        return wire
    names = {name for name, _ in headers}
    if b"x-goog-api-key" in names or "/v1beta/" in path or re.search(r":\w+$", path):
        return ApiFormat.GEMINI
    if b"x-api-key" in names or b"anthropic-version" in names or "/messages" in path:
        return ApiFormat.MESSAGES
    return ApiFormat.RESPONSES if "/responses" in path else ApiFormat.CHAT


def _sibling(api_format: ApiFormat) -> ApiFormat:
    """Return the format that a server offers under the same address and key."""
    return {ApiFormat.RESPONSES: ApiFormat.CHAT, ApiFormat.CHAT: ApiFormat.RESPONSES}.get(api_format, api_format)


OPENAI_TOOLS = frozenset({"function", "custom", "local_shell", "apply_patch"})
ANTHROPIC_TOOLS = re.compile(r"custom|(?:bash|text_editor|memory)_\d{8}")
GEMINI_TOOLS = frozenset({"functiondeclarations"})
SERVER_SIDE = {
    "websearchoptions": "web search",
    "searchparameters": "web search",
    "searchoptions": "web search",
    "enablesearch": "web search",
    "plugins": "plugins of the server",
    "mcpservers": "MCP servers",
    "container": "containers of the server",
    "prompt": "prompts stored in the account",
    "cachedcontent": "content stored in the account",
    "conversation": "conversations stored in the account",
    "background": "answers that are fetched later",
    "extrabody": "fields hidden in others",
    "apibase": "another model server",
    "baseurl": "another model server",
}
"""Fields of a body that make the server do more than generate."""
SEARCHING_MODEL = re.compile(r":online$|search", re.IGNORECASE)
STORED = frozenset({"fileid", "fileuri", "fileurl"})
ADDRESSES = frozenset({"url", "imageurl", "videourl", "audiourl"})
MEDIA = frozenset({"data", "file", "filedata", "image", "images", "audio", "video"})
"""Fields of bytes as text; some servers accept an address there too."""
ELSEWHERE = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*://")
OPAQUE = frozenset({"args", "response", "schema", "responseschema", "responsejsonschema", "metadata"})
"""Fields of the agent's own data, which no server interprets."""
MAX_NESTING = 8
"""Most levels of tools nested in tools."""
MAX_PARTS = 500_000
"""Most commas and opening brackets in a body, strings included: each parsed value takes about 100 bytes."""


def parse(body: bytes) -> dict[str, Any]:
    """Return a body's fields; raise ``ModelRequestRefused`` if a server might parse it differently."""
    if has_too_many_parts(body):
        raise ModelRequestRefused(413, "body", f"Invalid body: expected at most {MAX_PARTS} commas and brackets.")
    try:
        document = strict_json.decode(body)
    except strict_json.NotStrict as error:
        raise ModelRequestRefused(400, "body", f"Invalid body: expected strict JSON: {error}.") from None
    if not isinstance(document, dict):
        raise ModelRequestRefused(400, "body", "Invalid body: expected a JSON object.")
    return document


def has_too_many_parts(text: bytes) -> bool:
    """Return whether a JSON text may hold more values than are parsed."""
    return sum(text.count(sign) for sign in (b",", b"[", b"{")) > MAX_PARTS


def inspect(wire: ApiFormat, document: Mapping[str, Any], path_model: str, models: tuple[str, ...]) -> str:
    """Return the model that a body names; raise ``ModelRequestRefused`` if a field may not pass."""
    for key, value in document.items():
        feature = SERVER_SIDE.get(_fold_key(key))
        if feature and not (value is None or value is False or value == []):
            raise _refused(feature)
    model = _model(document, path_model, models)
    pending: list[Any] = [document]
    while pending:
        pending += _check_node(wire, pending.pop())
    return model


def _model(document: Mapping[str, Any], path_model: str, models: tuple[str, ...]) -> str:
    names = [path_model] if path_model else [value for key, value in document.items() if _fold_key(key) in _MODELS]
    for name in names:
        if not isinstance(name, str):
            raise ModelRequestRefused(400, "body", "Invalid model: expected a string.")
        if SEARCHING_MODEL.search(name):
            raise _refused("models that search the web")
        if models and name not in models:
            raise ModelRequestRefused(403, "model", f"Invalid model: this run allows {', '.join(models)}.")
    if models and not names:
        raise ModelRequestRefused(403, "model", f"Missing model: this run allows {', '.join(models)}.")
    return str(names[0]) if names else ""


_MODELS = frozenset({"model", "models", "fallbacks"})
"""Some servers take a list of models to fall back to; such a list is refused, since a model must be a string."""


def _check_node(wire: ApiFormat, node: object) -> Iterator[Any]:
    """Check one value, and yield the nested values that must be checked too."""
    if isinstance(node, list):
        yield from node
        return
    if not isinstance(node, dict):
        return
    opaque = OPAQUE | {"input"} if wire is ApiFormat.MESSAGES and node.get("type") == "tool_use" else OPAQUE
    for key, value in node.items():
        name = _fold_key(key)
        if name == "tools":
            _check_tools(wire, value, 0)
        elif name in STORED and value is not None:
            raise _refused("files stored in the account or fetched from elsewhere")
        elif (name in ADDRESSES and _any_string(value, _is_not_data)) or (
            name in MEDIA and _any_string(value, _is_elsewhere)
        ):
            raise _refused("images and files by address (send their bytes)")
        elif name not in opaque:
            yield value


def _any_string(value: object, predicate: Callable[[str], bool]) -> bool:
    """Return whether a string, or any of a list of strings, satisfies a predicate."""
    return any(isinstance(item, str) and predicate(item) for item in (value if isinstance(value, list) else [value]))


def _is_not_data(address: str) -> bool:
    return address[:5].lower() != "data:"


def _is_elsewhere(content: str) -> bool:
    return ELSEWHERE.match(content) is not None


def _check_tools(wire: ApiFormat, tools: object, depth: int) -> None:
    if tools is None:
        return
    for tool in tools if isinstance(tools, list) else [tools]:
        if not isinstance(tool, dict) or depth > MAX_NESTING:
            raise ModelRequestRefused(400, "body", "Invalid tools: expected a list of objects.")
        folded = {_fold_key(key): value for key, value in tool.items()}
        if len(folded) < len(tool):
            raise ModelRequestRefused(400, "body", "Invalid tool: a field occurs twice.")
        match wire:
            case ApiFormat.GEMINI:
                for name in tool:
                    if _fold_key(name) not in GEMINI_TOOLS:
                        raise _refused_tool(name)
            case ApiFormat.MESSAGES:
                kind = folded.get("type")
                if kind is not None and not (isinstance(kind, str) and ANTHROPIC_TOOLS.fullmatch(kind)):
                    raise _refused_tool(kind)
            case _:
                _check_openai(wire, folded, depth)


def _check_openai(wire: ApiFormat, tool: Mapping[str, Any], depth: int) -> None:
    """Check a tool of OpenAI's formats whose keys are folded."""
    match tool.get("type"):
        case "namespace":
            _check_tools(wire, tool.get("tools"), depth + 1)
        case "shell":
            env = tool.get("environment")
            if not isinstance(env, dict) or env.get("type") != "local" or len(_fold_keys(env)) < len(env):
                raise _refused_tool("shell on the server")
        case "tool_search":
            if tool.get("execution") != "client":
                raise _refused_tool("tool_search on the server")
        case str(kind) if kind in OPENAI_TOOLS:
            pass
        case kind:
            raise _refused_tool(kind)


def _refused(feature: str) -> ModelRequestRefused:
    return ModelRequestRefused(
        403,
        "server side",
        f"The model proxy doesn't pass on {feature}: a model server may fetch or run nothing for an agent.",
    )


def _refused_tool(kind: object) -> ModelRequestRefused:
    return ModelRequestRefused(
        403,
        "server-side tool",
        f"The model proxy doesn't pass on the tool {str(kind)[:80]!r}: only tools that the agent's own program runs "
        f"are allowed (functions and the like).",
    )


def _fold_key(key: str) -> str:
    """Return a key as the most lenient server would read it."""
    return "".join(letter for letter in key.casefold() if letter.isalnum())


def _fold_keys(node: Mapping[str, Any]) -> set[str]:
    return {_fold_key(key) for key in node}
