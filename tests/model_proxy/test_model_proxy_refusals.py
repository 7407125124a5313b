"""The model's door: what it refuses. Nothing that is refused ever comes to the model server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.agents.kit.scripted_model.server import Json, Reply, ScriptedModel
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.ledger import MAX_REFUSALS
from model_proxies import REAL_KEY, SPOKEN, VARIABLE, OpenDoor, open_door

each_wire = pytest.mark.parametrize("wire", list(SPOKEN))
FUNCTION = {"type": "function", "name": "shell", "parameters": {"properties": {"url": {}, "file_id": {}}}}
PIXEL = "data:image/png;base64,iVBORw0KGgo="
REMOTE = "https://example.org/a.png"


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenDoor]:
    monkeypatch.setenv(VARIABLE, REAL_KEY)
    with open_door(tmp_path) as opened:
        yield opened


def assert_refused(door: OpenDoor, answer: Any, wire: ApiFormat, status: int = 403, *, count: int = 1) -> None:
    """Nothing went out, it is written down as so many are by now, and the answer is an error in the format's shape."""
    document = answer.json()
    assert (answer.status_code, door.model.asked) == (status, [])
    assert (door.door.usage().requests, door.door.usage().refused) == (0, count)
    assert len(door.lines()) == count
    assert (door.lines()[-1]["status"], "refused" in door.lines()[-1]) == (status, True)
    match wire:
        case ApiFormat.MESSAGES:
            assert (document["type"], document["error"].keys()) == ("error", {"type", "message"})
        case ApiFormat.GEMINI:
            assert document["error"].keys() == {"code", "message", "status"}
            assert document["error"]["code"] == status
        case _:
            assert document["error"].keys() == {"message", "type", "param", "code"}


# The key


@each_wire
def test_nothing_passes_without_the_dummy_key(door: OpenDoor, wire: ApiFormat) -> None:
    """Without the dummy key, 401: the real one doesn't open the door either."""
    scheme = SPOKEN[wire].scheme
    for count, key in enumerate(("", "wrong", REAL_KEY), 1):
        headers = {scheme: f"Bearer {key}" if scheme == "authorization" else key} if key else {}
        answer = door.request("POST", SPOKEN[wire].path, SPOKEN[wire].body, headers=headers)

        assert_refused(door, answer, wire, 401, count=count)


def test_the_dummy_key_is_wanted_as_a_bearer(door: OpenDoor) -> None:
    """Another scheme of Authorization is no key."""
    answer = door.request("GET", "/v1/models", headers={"authorization": f"Basic {door.endpoint.key}"})

    assert_refused(door, answer, ApiFormat.CHAT, 401)


# A06: a tunnel through the model's door


TUNNELS = [
    "CONNECT {other} HTTP/1.1\nHost: {other}",
    "CONNECT {other} HTTP/1.1\nHost: 127.0.0.1",
    "GET http://{other}/v1/models HTTP/1.1\nHost: {other}",
    "GET http://{other}/v1/models HTTP/1.1\nHost: 127.0.0.1",
    "GET /v1/models HTTP/1.1\nHost: {other}@example.org",
    "GET /v1/models HTTP/1.1\nHost: example.org",
    "GET /v1/models HTTP/1.0",
    "GET //{other}/v1/models HTTP/1.1\nHost: 127.0.0.1",
    "GET /v1/models@{other} HTTP/1.1\nHost: 127.0.0.1",
    "GET @{other}/v1/models HTTP/1.1\nHost: 127.0.0.1",
    "GET .{other}/v1/models HTTP/1.1\nHost: 127.0.0.1",
    "GET \\\\{other}\\v1\\models HTTP/1.1\nHost: 127.0.0.1",
    "GET /v1/models/../../{other}/models HTTP/1.1\nHost: 127.0.0.1",
    "GET /v1/../files HTTP/1.1\nHost: 127.0.0.1",
    "GET /v1/models/..%2f..%2ffiles HTTP/1.1\nHost: 127.0.0.1",
    "GET /v1/%6dodels HTTP/1.1\nHost: 127.0.0.1",
    "GET /v1/models%0d%0aX-Header:%20x HTTP/1.1\nHost: 127.0.0.1",
    "GET /v1/models#@{other}/ HTTP/1.1\nHost: 127.0.0.1",
    "GET /v1/models?x=http://{other}/ HTTP/1.1\nHost: 127.0.0.1",
    "GET /v1/models HTTP/1.1\nHost: 127.0.0.1\nOrigin: http://127.0.0.1",
    "GET /v1/models HTTP/1.1\nHost: 127.0.0.1\nSec-Fetch-Site: same-site",
    "OPTIONS * HTTP/1.1\nHost: 127.0.0.1",
    "TRACE /v1/models HTTP/1.1\nHost: 127.0.0.1",
    "GET /v1/responses HTTP/1.1\nHost: 127.0.0.1\nUpgrade: websocket",
]


def test_the_door_is_no_tunnel(door: OpenDoor) -> None:
    """CONNECT, whole addresses, other hosts and tricks with paths lead nowhere, not even to the upstream."""
    with ScriptedModel() as other:
        for first_line in TUNNELS:
            answer = door.say(first_line.format(other=other.url.removeprefix("http://")))

            assert answer.split(b" ")[1] in {b"400", b"403"}, first_line
            assert (other.asked, door.model.asked, door.door.usage().requests) == ([], [], 0), first_line


def test_a_redirect_is_not_followed(door: OpenDoor) -> None:
    """An upstream that points elsewhere is an error, and elsewhere is not told."""
    with ScriptedModel() as other:
        door.model.replies = [Reply(status=307, headers={"location": f"{other.url}/v1/models"})]
        answer = door.ask()

        assert (answer.status_code, other.asked, len(door.model.asked)) == (502, [], 1)
        assert other.url not in answer.text + str(answer.headers)


def test_a_proxy_of_the_environment_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go to the upstream itself, whatever proxy the machine's environment names."""
    with ScriptedModel() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.setenv(VARIABLE, REAL_KEY)
        with open_door(tmp_path) as door:
            assert door.ask().status_code == 200
        assert proxy.asked == []


# Endpoints


OTHER_ENDPOINTS = [
    ("POST", "/v1/files"),
    ("GET", "/v1/files"),
    ("POST", "/v1/batches"),
    ("POST", "/v1/vector_stores"),
    ("POST", "/v1/images/generations"),
    ("POST", "/v1/audio/speech"),
    ("POST", "/v1/embeddings"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/fine_tuning/jobs"),
    ("POST", "/v1/assistants"),
    ("POST", "/v1/containers"),
    ("GET", "/v1/responses/resp_1"),
    ("DELETE", "/v1/models/a-model"),
    ("PUT", "/v1/responses"),
    ("POST", "/v1/messages/batches"),
    ("GET", "/v1/organizations/me"),
    ("POST", "/v1beta/cachedContents"),
    ("POST", "/upload/v1beta/files"),
    ("POST", "/v1beta/models/scripted:embedContent"),
    ("POST", "/v1beta/models/scripted:batchGenerateContent"),
    ("POST", "/v1beta/corpora/x:query"),
    ("GET", "/"),
    ("GET", "/metrics"),
]


def test_other_endpoints_don_t_pass(door: OpenDoor) -> None:
    """Files, batches, stores, images, training and all else are refused."""
    for method, path in OTHER_ENDPOINTS:
        answer = door.request(method, path, {} if method in {"POST", "PUT"} else None)

        assert (answer.status_code, door.model.asked) == (403, []), path


def test_other_queries_don_t_pass(door: OpenDoor) -> None:
    """A query that hides usage, changes the method or can be read in two ways is refused."""
    for query in ("fields=candidates", "alt=media", "key=a&key=b", "callback=x", "$httpMethod=DELETE", "&"):
        answer = door.request("POST", f"{SPOKEN[ApiFormat.GEMINI].path}?{query}", SPOKEN[ApiFormat.GEMINI].body)

        assert (answer.status_code in {400, 401, 403}, door.model.asked) == (True, []), query


def test_another_format_doesn_t_pass_a_named_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A door for one format refuses the paths of others."""
    monkeypatch.setenv(VARIABLE, REAL_KEY)
    with open_door(tmp_path, wire=ApiFormat.MESSAGES) as door:
        assert door.ask(ApiFormat.MESSAGES).status_code == 200
        assert [door.ask(wire).status_code for wire in (ApiFormat.CHAT, ApiFormat.RESPONSES, ApiFormat.GEMINI)] == [
            403
        ] * 3


# Tools and what else a server would do by itself

SERVER_SIDE: list[tuple[ApiFormat, Json]] = [
    *[
        (ApiFormat.RESPONSES, {"tools": [FUNCTION, {"type": kind}]})
        for kind in (
            "web_search",
            "web_search_preview_2025_03_11",
            "file_search",
            "code_interpreter",
            "computer_use_preview",
            "image_generation",
            "mcp",
            "shell",
            "tool_search",
            "tomorrows_tool",
            "Function",
            None,
            7,
        )
    ],
    (ApiFormat.RESPONSES, {"tools": [{"name": "untyped"}]}),
    (ApiFormat.RESPONSES, {"tools": {"type": "web_search"}}),
    (ApiFormat.RESPONSES, {"Tools": [{"type": "web_search"}]}),
    (ApiFormat.RESPONSES, {"tool\u017f": [{"type": "web_search"}]}),
    (ApiFormat.RESPONSES, {"tools": [{"type": "namespace", "tools": [{"type": "web_search"}]}]}),
    (ApiFormat.RESPONSES, {"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]}),
    (ApiFormat.RESPONSES, {"input": [{"type": "additional_tools", "tools": [{"type": "mcp"}]}]}),
    (ApiFormat.RESPONSES, {"prompt": {"id": "pmpt_1"}}),
    (ApiFormat.RESPONSES, {"background": True}),
    (ApiFormat.RESPONSES, {"conversation": "conv_1"}),
    (ApiFormat.RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": REMOTE}]}]}),
    (ApiFormat.RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": REMOTE}]}]}),
    (ApiFormat.RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}]}),
    (ApiFormat.CHAT, {"web_search_options": {}}),
    (ApiFormat.CHAT, {"tools": [{"type": "builtin_function", "function": {"name": "$web_search"}}]}),
    (ApiFormat.CHAT, {"plugins": [{"id": "web"}]}),
    (ApiFormat.CHAT, {"search_parameters": {"mode": "on"}}),
    (ApiFormat.CHAT, {"enable_search": True}),
    (ApiFormat.CHAT, {"extra_body": {"plugins": []}}),
    (ApiFormat.CHAT, {"api_base": "http://127.0.0.1:1"}),
    (ApiFormat.CHAT, {"model": "scripted:online"}),
    (ApiFormat.CHAT, {"model": "gpt-4o-search-preview"}),
    (
        ApiFormat.CHAT,
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": REMOTE}}]}]},
    ),
    (
        ApiFormat.CHAT,
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"URL": REMOTE}}]}]},
    ),
    (ApiFormat.CHAT, {"messages": [{"role": "user", "content": [{"type": "video", "video": [REMOTE]}]}]}),
    (ApiFormat.CHAT, {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}]}),
    *[
        (ApiFormat.MESSAGES, {"tools": [{"type": kind, "name": "tool"}]})
        for kind in (
            "web_search_20250305",
            "web_fetch_20250910",
            "code_execution_20250825",
            "computer_20250124",
            "mcp_toolset",
            "tomorrows_tool_20990101",
            "bash_20250124x",
        )
    ],
    (ApiFormat.MESSAGES, {"mcp_servers": [{"type": "url", "url": REMOTE, "name": "x"}]}),
    (ApiFormat.MESSAGES, {"container": {"skills": [{"type": "anthropic", "skill_id": "xlsx"}]}}),
    (
        ApiFormat.MESSAGES,
        {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": REMOTE}}]}]},
    ),
    (
        ApiFormat.MESSAGES,
        {"messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "file", "file_id": "f"}}]}]},
    ),
    *[
        (ApiFormat.GEMINI, {"tools": [{"functionDeclarations": []}, {name: {}}]})
        for name in (
            "google_search",
            "googleSearch",
            "googleSearchRetrieval",
            "url_context",
            "urlContext",
            "code_execution",
            "codeExecution",
            "googleMaps",
            "computerUse",
            "fileSearch",
            "mcpServers",
            "tomorrowsTool",
        )
    ],
    (ApiFormat.GEMINI, {"tools": {"googleSearch": {}}}),
    (ApiFormat.GEMINI, {"cachedContent": "cachedContents/1"}),
    (ApiFormat.GEMINI, {"contents": [{"parts": [{"fileData": {"fileUri": REMOTE}}]}]}),
    (ApiFormat.GEMINI, {"contents": [{"parts": [{"file_data": {"file_uri": REMOTE}}]}]}),
]


def test_what_a_server_would_do_by_itself_is_refused(door: OpenDoor) -> None:
    """Searching, fetching, running code, MCP, stored things and every unknown tool are refused with 403."""
    for count, (wire, fields) in enumerate(SERVER_SIDE, 1):
        assert_refused(door, door.ask(wire, **fields), wire, count=count)


OF_THE_AGENT: list[tuple[ApiFormat, Json]] = [
    (ApiFormat.RESPONSES, {"tools": [FUNCTION, {"type": "custom", "name": "apply_patch"}, {"type": "local_shell"}]}),
    (ApiFormat.RESPONSES, {"tools": [{"type": "namespace", "name": "n", "tools": [FUNCTION]}]}),
    (ApiFormat.RESPONSES, {"tools": [{"type": "shell", "environment": {"type": "local"}}]}),
    (
        ApiFormat.RESPONSES,
        {"tools": [{"type": "tool_search", "execution": "client"}], "background": False, "prompt": None},
    ),
    (ApiFormat.RESPONSES, {"input": [{"type": "function_call_output", "call_id": "c", "output": REMOTE}]}),
    (ApiFormat.RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": PIXEL}]}]}),
    (ApiFormat.RESPONSES, {"text": {"format": {"type": "json_schema", "schema": {"properties": {"file_id": {}}}}}}),
    (ApiFormat.CHAT, {"tools": [{"type": "function", "function": FUNCTION}], "tool_choice": "auto"}),
    (ApiFormat.CHAT, {"messages": [{"role": "tool", "tool_call_id": "c", "content": REMOTE}]}),
    (ApiFormat.CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": PIXEL}}]}]}),
    (ApiFormat.MESSAGES, {"tools": [{"name": "Bash", "input_schema": {"properties": {"url": {"type": "string"}}}}]}),
    (ApiFormat.MESSAGES, {"tools": [{"type": "custom", "name": "a"}, {"type": "bash_20250124", "name": "bash"}]}),
    (
        ApiFormat.MESSAGES,
        {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "input": {"url": REMOTE, "tools": 1}}]}]},
    ),
    (ApiFormat.GEMINI, {"tools": [{"functionDeclarations": [{"name": "shell"}]}, {"function_declarations": []}]}),
    (ApiFormat.GEMINI, {"contents": [{"parts": [{"functionCall": {"name": "f", "args": {"url": REMOTE}}}]}]}),
    (ApiFormat.GEMINI, {"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]}]}),
]


def test_what_the_agent_does_itself_passes(door: OpenDoor) -> None:
    """Functions, local shells, bytes of images, and addresses that are mere text or arguments pass unchanged."""
    for wire, fields in OF_THE_AGENT:
        assert door.ask(wire, **fields).status_code == 200, fields
    assert [asked.body for asked in door.model.asked] == [SPOKEN[wire].body | fields for wire, fields in OF_THE_AGENT]


ODD_BODIES = [
    b"",
    b"[]",
    b"null",
    b'{"a": NaN}',
    b'{"a": 1e',
    b'{"tools": [], "tools": [{"type": "web_search"}]}',
    b'{"a": {"type": "x", "type": "y"}}',
    b'\xef\xbb\xbf{"model": "a"}',
    json.dumps({"model": "a"}).encode("utf-16"),
    b'{"a": "\xff"}',
    b'{"a":' * 5000 + b"1" + b"}" * 5000,
    b'{"model": 7}',
    b'{"tools": ["web_search"]}',
    b'{"tools": [{"type": "function", "Type": "web_search"}]}',
]


def test_a_body_that_servers_might_read_otherwise(door: OpenDoor) -> None:
    """What is no plain JSON object, or says a thing twice, is refused and never forwarded."""
    for count, body in enumerate(ODD_BODIES, 1):
        assert_refused(door, door.request("POST", "/v1/chat/completions", body), ApiFormat.CHAT, 400, count=count)


def test_a_compressed_body(door: OpenDoor) -> None:
    """A body that the door can't look into is refused."""
    headers = door.key_header(ApiFormat.CHAT) | {"content-encoding": "zstd"}
    answer = door.request("POST", "/v1/chat/completions", b"{}", headers=headers)

    assert_refused(door, answer, ApiFormat.CHAT, 415)


@each_wire
def test_only_named_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wire: ApiFormat) -> None:
    """Where the models are named, others are refused, in a body or in a path."""
    monkeypatch.setenv(VARIABLE, REAL_KEY)
    with open_door(tmp_path, models=("another",)) as door:
        answer = door.ask(wire)

        assert_refused(door, answer, wire)
        assert "another" in answer.text
    with open_door(tmp_path, models=("scripted",)) as door:
        assert door.ask(wire).status_code == 200
        assert door.ask(ApiFormat.CHAT, models=["other"]).status_code == 400


# The log


def test_refusals_are_written_down(door: OpenDoor) -> None:
    """A refused request leaves its reason, method and path in the log: no query, no key, and not too much of it."""
    door.request("GET", f"/v1/files/{'x' * 5000}?key={door.endpoint.key}", headers={})
    (line,) = door.lines()

    assert (line["refused"], line["status"], line["method"]) == ("endpoint", 403, "GET")
    assert line["path"].startswith("/v1/files/xxx")
    assert len(line["path"]) < 200
    assert door.endpoint.key not in door.log.read_text(encoding="utf-8")


def test_refusals_can_t_push_out_the_rest(door: OpenDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number, refused requests get no more lines, while others still do."""
    assert MAX_REFUSALS >= 100
    monkeypatch.setattr("evopolicygym.model_proxy.ledger.MAX_REFUSALS", 3)
    for _ in range(6):
        door.request("GET", "/v1/files")
    door.ask()

    assert ["refused" in line for line in door.lines()] == [True, True, True, False]
    assert door.door.usage().refused == 6
