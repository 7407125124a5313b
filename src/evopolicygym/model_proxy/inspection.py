"""What may stand in a request's body: tools that the agent's own program runs, and nothing that the server would fetch.

Tool types are allowed by name, so that a kind of tool that is new tomorrow is refused until somebody has looked at it.
Servers differ in how they read keys (``fileUri`` or ``file_uri``, in Go also ``Tools``): a key counts in any spelling.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from evopolicygym.core import strict_json
from evopolicygym.model_proxy.wire import ModelRequestRefused, Wire

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
"""Fields of a body by which the server would do more than generate."""
SEARCHING_MODEL = re.compile(r":online$|search", re.IGNORECASE)
STORED = frozenset({"fileid", "fileuri", "fileurl"})
ADDRESSES = frozenset({"url", "imageurl", "videourl", "audiourl"})
MEDIA = frozenset({"data", "file", "filedata", "image", "images", "audio", "video"})
"""Hold bytes as text; some servers take an address there too."""
ELSEWHERE = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*://")
OPAQUE = frozenset({"args", "response", "schema", "responseschema", "responsejsonschema", "metadata"})
"""Hold the agent's own data, which no server looks into."""
MAX_NESTING = 8
"""How deep tools may lie within tools."""
MAX_PARTS = 500_000
"""Commas and opening brackets in a body, in texts too: each value that is read takes a hundred bytes."""


def parse(body: bytes) -> dict[str, Any]:
    """Return a body's fields; raise ``ModelRequestRefused`` where a server might read it otherwise than we do."""
    if is_too_fine(body):
        raise ModelRequestRefused(413, "body", f"The body may have at most {MAX_PARTS} commas and brackets.")
    try:
        document = strict_json.decode(body)
    except strict_json.NotStrict as error:
        raise ModelRequestRefused(400, "body", f"The body is not strict JSON: {error}.") from None
    if not isinstance(document, dict):
        raise ModelRequestRefused(400, "body", "The body must be a JSON object.")
    return document


def is_too_fine(text: bytes) -> bool:
    """Return whether a JSON text may hold more values than are read."""
    return sum(text.count(sign) for sign in (b",", b"[", b"{")) > MAX_PARTS


def inspect(wire: Wire, document: Mapping[str, Any], path_model: str, models: tuple[str, ...]) -> str:
    """Return the model that a body asks for; raise ``ModelRequestRefused`` where it asks for what doesn't pass."""
    for key, value in document.items():
        feature = SERVER_SIDE.get(_folded(key))
        if feature and not (value is None or value is False or value == []):
            raise _refused(feature)
    model = _model(document, path_model, models)
    pending: list[Any] = [document]
    while pending:
        pending += _within(wire, pending.pop())
    return model


def _model(document: Mapping[str, Any], path_model: str, models: tuple[str, ...]) -> str:
    named = [path_model] if path_model else [value for key, value in document.items() if _folded(key) in _MODELS]
    for name in named:
        if not isinstance(name, str):
            raise ModelRequestRefused(400, "body", "A model is named by a text.")
        if SEARCHING_MODEL.search(name):
            raise _refused("models that search the web")
        if models and name not in models:
            raise ModelRequestRefused(403, "model", f"The models that this run may ask for: {', '.join(models)}.")
    if models and not named:
        raise ModelRequestRefused(403, "model", f"The body names no model; this run may ask for: {', '.join(models)}.")
    return str(named[0]) if named else ""


_MODELS = frozenset({"model", "models", "fallbacks"})
"""Some servers take a list of models to fall back to; that is refused for being no text."""


def _within(wire: Wire, node: object) -> Iterator[Any]:
    """Check one value, and yield the values inside that are to be checked too."""
    if isinstance(node, list):
        yield from node
        return
    if not isinstance(node, dict):
        return
    own = OPAQUE | {"input"} if wire is Wire.MESSAGES and node.get("type") == "tool_use" else OPAQUE
    for key, value in node.items():
        name = _folded(key)
        if name == "tools":
            _check_tools(wire, value, 0)
        elif name in STORED and value is not None:
            raise _refused("files stored in the account or fetched from elsewhere")
        elif (name in ADDRESSES and _strings(value, _is_no_data)) or (name in MEDIA and _strings(value, _is_elsewhere)):
            raise _refused("images and files that are to be fetched from elsewhere (send their bytes)")
        elif name not in own:
            yield value


def _strings(value: object, are: Callable[[str], bool]) -> bool:
    """Return whether a text, or one of a list of texts, is of a kind."""
    return any(isinstance(one, str) and are(one) for one in (value if isinstance(value, list) else [value]))


def _is_no_data(address: str) -> bool:
    return address[:5].lower() != "data:"


def _is_elsewhere(content: str) -> bool:
    return ELSEWHERE.match(content) is not None


def _check_tools(wire: Wire, tools: object, depth: int) -> None:
    if tools is None:
        return
    for tool in tools if isinstance(tools, list) else [tools]:
        if not isinstance(tool, dict) or depth > MAX_NESTING:
            raise ModelRequestRefused(400, "body", "Tools are a list of objects.")
        folded = {_folded(key): value for key, value in tool.items()}
        if len(folded) < len(tool):
            raise ModelRequestRefused(400, "body", "A tool names a field twice.")
        match wire:
            case Wire.GEMINI:
                for name in tool:
                    if _folded(name) not in GEMINI_TOOLS:
                        raise _refused_tool(name)
            case Wire.MESSAGES:
                kind = folded.get("type")
                if kind is not None and not (isinstance(kind, str) and ANTHROPIC_TOOLS.fullmatch(kind)):
                    raise _refused_tool(kind)
            case _:
                _check_openai(wire, folded, depth)


def _check_openai(wire: Wire, tool: Mapping[str, Any], depth: int) -> None:
    """Check a tool whose keys are folded."""
    match tool.get("type"):
        case "namespace":
            _check_tools(wire, tool.get("tools"), depth + 1)
        case "shell":
            place = tool.get("environment")
            if not isinstance(place, dict) or place.get("type") != "local" or len(_folded_keys(place)) < len(place):
                raise _refused_tool("shell on the server")
        case "tool_search":
            if tool.get("execution") != "client":
                raise _refused_tool("tool_search on the server")
        case str(kind) if kind in OPENAI_TOOLS:
            pass
        case kind:
            raise _refused_tool(kind)


def _refused(what: str) -> ModelRequestRefused:
    return ModelRequestRefused(
        403,
        "server side",
        f"The model proxy doesn't pass on {what}: nothing may be fetched or run for an agent on the model's server.",
    )


def _refused_tool(kind: object) -> ModelRequestRefused:
    return ModelRequestRefused(
        403,
        "server-side tool",
        f"The model proxy doesn't pass on the tool {str(kind)[:80]!r}: only tools that the agent's own program runs "
        f"are allowed (functions and the like).",
    )


def _folded(key: str) -> str:
    """Return a key as the most lenient server might read it."""
    return "".join(letter for letter in key.casefold() if letter.isalnum())


def _folded_keys(node: Mapping[str, Any]) -> set[str]:
    return {_folded(key) for key in node}
