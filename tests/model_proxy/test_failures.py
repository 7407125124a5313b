"""What a model server's failure means: by content as well as by status, in each format and in the words of each server.

Each is seen through the proxy: what it is classified as, whether it is retried, and what is charged.
"""

import json
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from evopolicygym.agents.kit.scripted_model.server import INPUT, OUTPUT, Json, Reply
from evopolicygym.core.agent import AgentEnd
from evopolicygym.core.causes import Cause
from evopolicygym.model_proxy.failures import CONTEXT_WORDS, CREDIT_WORDS, FAULTS, ServerFault, classify, unreached
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.proxy import ModelProxy
from evopolicygym.model_proxy.upstream import ModelUpstream
from evopolicygym.model_proxy.usage import Usage, read_usage
from model_proxies import PRICE, REAL_KEY, VARIABLE, OpenDoor, open_door

FAR_FROM_SPENT = 1000.0


@pytest.fixture(autouse=True)
def real_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, REAL_KEY)


@pytest.fixture
def door(tmp_path: Path) -> Iterator[OpenDoor]:
    with open_door(tmp_path, max_cost=FAR_FROM_SPENT, price=PRICE) as opened:
        yield opened


def events(*documents: Json) -> bytes:
    """Return a stream of events."""
    return b"".join(
        f"event: {item.get('type', 'message')}\ndata: {json.dumps(item)}\n\n".encode() for item in documents
    )


START = {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 70, "output_tokens": 1}}}
CREATED = {"type": "response.created", "response": {"status": "in_progress", "usage": None}}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
CHUNK = {"choices": [{"index": 0, "delta": {"content": "We"}, "finish_reason": None}]}


def failed(code: str, message: str) -> Json:
    """Return the event that ends a response as failed."""
    return {
        "type": "response.failed",
        "response": {"status": "failed", "error": {"code": code, "message": message}, "usage": None},
    }


INSIDE: list[tuple[ApiFormat, bytes, ServerFault, int]] = [
    (ApiFormat.MESSAGES, events(OVERLOADED), ServerFault.OVERLOADED, 0),
    (ApiFormat.MESSAGES, events(START, OVERLOADED), ServerFault.OVERLOADED, 70),
    (ApiFormat.RESPONSES, events(CREATED, failed("server_error", "Sorry.")), ServerFault.OVERLOADED, 0),
    (ApiFormat.RESPONSES, events(CREATED, failed("rate_limit_exceeded", "Slow.")), ServerFault.RATE_LIMIT, 0),
    (ApiFormat.RESPONSES, events(failed("insufficient_quota", "No money.")), ServerFault.NO_CREDIT, 0),
    (ApiFormat.RESPONSES, events(failed("context_length_exceeded", "Long.")), ServerFault.CONTEXT, 0),
    (
        ApiFormat.RESPONSES,
        events(CREATED, {"type": "error", "code": "server_is_overloaded", "message": "Busy.", "param": None}),
        ServerFault.OVERLOADED,
        0,
    ),
    (ApiFormat.CHAT, events(CHUNK, {"error": {"code": 502, "message": "Provider"}}), ServerFault.OVERLOADED, 0),
    (
        ApiFormat.CHAT,
        events(
            CHUNK,
            {
                "error": {"code": 429, "message": "Slow"},
                "choices": [{"index": 0, "delta": {}, "finish_reason": "error"}],
            },
        ),
        ServerFault.RATE_LIMIT,
        0,
    ),
    (ApiFormat.CHAT, events({"choices": [{"delta": {}, "finish_reason": "error"}]}), ServerFault.OVERLOADED, 0),
    (
        ApiFormat.CHAT,
        b'error: {"code":400,"message":"the request exceeds the available context size","type":"x"}\n\n',
        ServerFault.CONTEXT,
        0,
    ),
    (
        ApiFormat.GEMINI,
        events({"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}}),
        ServerFault.OVERLOADED,
        0,
    ),
    (
        ApiFormat.GEMINI,
        events({"error": {"code": 429, "message": "Quota.", "status": "RESOURCE_EXHAUSTED"}}),
        ServerFault.RATE_LIMIT,
        0,
    ),
]
"""Failures inside a stream that began with 200: format, stream, fault, and tokens that the server reported."""


@pytest.mark.parametrize(("wire", "stream", "fault", "tokens"), INSIDE)
def test_a_failure_inside_a_stream(
    wire: ApiFormat, stream: bytes, fault: ServerFault, tokens: int, door: OpenDoor
) -> None:
    """It is the fault that the same status would be; what the server reported is charged and nothing is assumed."""
    door.model.replies.append(Reply(raw=stream))
    answer = door.stream(wire)
    trouble, usage = door.door.trouble(), door.door.usage()

    assert (answer.status_code, answer.content) == (200, stream)
    assert trouble is not None
    assert (trouble.fault, trouble.inside) == (fault, True)
    assert (usage.failed, usage.unknown, usage.assumed_cost, usage.tokens) == (1, 0, 0.0, tokens)
    assert door.lines()[0]["note"].startswith(f"{fault} inside the answer")
    assert door.stream(wire).status_code == 200
    assert door.door.trouble() is None


@pytest.mark.parametrize(
    ("wire", "document", "fault"),
    [
        (ApiFormat.CHAT, {"error": {"message": "Upstream", "code": 502}}, ServerFault.OVERLOADED),
        (ApiFormat.CHAT, {"choices": [{"error": {"code": 429, "message": "Slow"}}]}, ServerFault.RATE_LIMIT),
        (ApiFormat.CHAT, {"error": "model 'm' not found"}, ServerFault.OVERLOADED),
        (ApiFormat.CHAT, {"object": "error", "message": "Out", "code": 401}, ServerFault.KEY),
        (ApiFormat.MESSAGES, OVERLOADED, ServerFault.OVERLOADED),
        (ApiFormat.RESPONSES, {"object": "response", "status": "failed", "output": []}, ServerFault.OVERLOADED),
        (ApiFormat.GEMINI, {"error": {"code": 500, "status": "INTERNAL"}}, ServerFault.OVERLOADED),
    ],
)
def test_a_failure_in_plain_json(wire: ApiFormat, document: Json, fault: ServerFault, door: OpenDoor) -> None:
    """An error with status 200 is one."""
    door.model.replies.append(Reply(raw=json.dumps(document).encode()))
    door.ask(wire)
    trouble = door.door.trouble()

    assert trouble is not None
    assert trouble.fault is fault
    assert (door.door.usage().assumed_cost, door.door.usage().tokens) == (0.0, 0)


@pytest.mark.parametrize("raw", [b"", b"<html><title>Sign in</title></html>", b"{}", b'{"choices": []}', b"[]"])
def test_an_answer_that_is_none(raw: bytes, door: OpenDoor) -> None:
    """What is no answer is a failure, and what it used is unknown."""
    door.model.replies.append(Reply(raw=raw))
    door.ask(ApiFormat.CHAT)
    trouble, usage = door.door.trouble(), door.door.usage()

    assert trouble is not None
    assert (trouble.fault, usage.unknown, (usage.assumed_cost or 0.0) > 0) == (ServerFault.UNREADABLE, 1, True)


@pytest.mark.parametrize("wire", [wire for wire in ApiFormat if wire is not ApiFormat.AUTO])
def test_a_stream_without_its_end(wire: ApiFormat, door: OpenDoor) -> None:
    """A stream that just stops, as if it were whole, broke off; an empty one is no answer."""
    beginning = {
        ApiFormat.MESSAGES: START,
        ApiFormat.RESPONSES: CREATED,
        ApiFormat.CHAT: CHUNK,
        ApiFormat.GEMINI: {"candidates": [{"content": {"parts": [{"text": "We"}]}}]},
    }
    found = []
    for stream in (events(beginning[wire]), b""):
        door.model.replies.append(Reply(raw=stream))
        door.stream(wire)
        trouble = door.door.trouble()
        found.append(trouble and trouble.fault)

    assert found == [ServerFault.BROKE_OFF, ServerFault.UNREADABLE]
    assert door.door.usage().unknown == 2


def test_four_failures_of_large_requests_spend_nothing(tmp_path: Path) -> None:
    """A reservation is released when the server says that it failed, however it says so."""
    with open_door(tmp_path, max_cost=50.0, price=PRICE) as door:
        for reply in (Reply("no", 529), Reply(raw=json.dumps(OVERLOADED).encode()), Reply("no", 500), Reply("no", 429)):
            door.model.replies.append(reply)
            door.ask(ApiFormat.MESSAGES, messages=[{"role": "user", "content": "a b" * 20_000}])

        assert (len(door.model.asked), door.door.usage().failed) == (4, 4)
        assert (door.door.usage().cost, door.door.usage().assumed_cost, door.door.spent()) == (0.0, 0.0, "")


def test_what_is_unknown_is_a_bound_beside_what_is_known(tmp_path: Path) -> None:
    """What a server did not report is told beside what was spent, never as a part of it."""
    with open_door(tmp_path, max_cost=9.0, price=PRICE) as door:
        assert door.ask(ApiFormat.CHAT, max_tokens=10).status_code == 200
        known = door.door.usage().cost or 0.0
        door.model.replies.append(Reply(raw=b"{}"))
        door.ask(ApiFormat.CHAT, max_tokens=10)
        door.ask(ApiFormat.CHAT, messages=[{"role": "user", "content": "a" * 200_000}])
        said, assumed = door.door.spent(), door.door.usage().assumed_cost or 0.0

    assert known > 0
    assert f"{known:.3g} of 9 USD spent, and up to {assumed:.3g} USD that the model server did not report" in said


LONG: list[tuple[str, int, str, str]] = [
    ("OpenAI", 400, "context_length_exceeded", "This model's maximum context length is 128000 tokens."),
    ("OpenAI Responses", 400, "invalid_request_error", "Your input exceeds the context window of this model."),
    ("OpenAI", 429, "rate_limit_exceeded", "Request too large for gpt-5 in organization org-1 on tokens per min (TPM)"),
    ("Anthropic", 400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    ("Anthropic", 400, "", "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"),
    ("Anthropic", 413, "request_too_large", "Request exceeds the maximum size"),
    ("Gemini", 400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens allowed"),
    ("Bedrock", 400, "ValidationException", "Input is too long for requested model."),
    ("Azure", 400, "", "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens"),
    ("OpenRouter", 400, "", "This endpoint's maximum context length is 131072 tokens. However, you requested about 9"),
    ("a router", 500, "", "Provider returned error: prompt is too long: 210000 tokens > 200000 maximum"),
    ("Mistral", 400, "", "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"),
    ("DeepSeek", 400, "", "This model's maximum context length is 65536 tokens. However, you requested 70000"),
    ("Moonshot", 400, "invalid_request_error", "Invalid request: Your request exceeded model token limit: 131072"),
    ("DashScope", 400, "", "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]"),
    ("Groq", 413, "rate_limit_exceeded", "Request too large for model `x` on tokens per minute (TPM): Limit 6000"),
    ("Cerebras", 400, "", "Please reduce the length of the messages or completion. Current length is 8193"),
    ("xAI", 400, "", "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    ("Together", 422, "", "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097."),
    ("Fireworks", 400, "", "The prompt is too long: 200000, model maximum context length: 131072"),
    ("Cohere", 400, "", "too many tokens: total number of tokens in the prompt cannot exceed 4081"),
    ("vLLM", 400, "BadRequestError", "The decoder prompt (length 5000) is longer than the maximum model length."),
    ("SGLang", 400, "", "The input (5000 tokens) is longer than the model's context length (4096 tokens)."),
    ("llama.cpp", 400, "exceed_context_size_error", "request (5000 tokens) exceeds the available context size (4096)"),
    ("LM Studio", 400, "", "The number of tokens to keep from the initial prompt is greater than the context length"),
    ("Ollama", 400, "", "prompt too long; exceeded max context length by 4 tokens"),
    ("GitHub Models", 413, "tokens_limit_reached", "Request body too large for gpt-4o model. Max size: 8000 tokens."),
    ("MiniMax", 200, "2013", "invalid params, context window exceeds limit"),
    ("Zhipu", 400, "1261", "Prompt exceeds max length"),
    ("watsonx", 400, "", "the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model"),
    ("Volcengine", 400, "", "Total tokens of image and text exceed max message tokens"),
    ("Volcengine", 400, "", "Input length 150000 exceeds the maximum length 131072"),
    ("Gemini", 400, "INVALID_ARGUMENT", "Request payload size exceeds the limit: 20971520 bytes."),
    ("Databricks", 400, "", "Input exceeds the maximum allowed input length of 8192 tokens"),
    ("Text Generation Inference", 422, "", "`inputs` must have less than 4096 tokens. Given: 5000"),
    ("LM Studio", 400, "", "Trying to keep the first 5005 tokens when context the overflows."),
    ("LM Studio", 400, "", "However, the model is loaded with context length of only 4096 tokens"),
    ("Copilot", 400, "model_max_prompt_tokens_exceeded", "prompt token count of 150000 exceeds the limit of 128000"),
    ("a router", 502, "", "context length exceeded"),
    ("a local server", 400, "", "Prompt has 32769 tokens, but the configured context size is 32768 tokens"),
]  # fmt: skip
NO_MONEY: list[tuple[str, int, str, str]] = [
    ("Anthropic", 400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
    ("OpenAI", 429, "insufficient_quota", "You exceeded your current quota, please check your plan and billing."),
    ("OpenAI", 400, "billing_hard_limit_reached", "Billing hard limit has been reached"),
    ("DeepSeek", 402, "invalid_request_error", "Insufficient Balance"),
    ("OpenRouter", 402, "402", "This request requires more credits, or fewer max_tokens."),
    ("OpenRouter", 403, "403", "Key limit exceeded. Manage it using the settings."),
    ("Moonshot", 429, "exceeded_current_quota_error", "Your account is suspended, please check your plan"),
    ("DashScope", 400, "Arrearage", "Access denied, please make sure your account in good standing."),
    ("xAI", 403, "", "Your team has either used all available credits or reached its monthly spending limit."),
    ("Zhipu", 429, "1113", "余额不足或无可用资源包,请充值。"),
    ("a router", 400, "", "Your organization ran out of credits."),
    ("a router", 403, "", "Monthly limit exceeded"),
    ("a page", 402, "", "<html><head><title>402 Payment Required</title></head><body>Pay.</body></html>"),
]
OTHERS: list[tuple[int, str, str, ServerFault]] = [
    (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota. Please retry in 13.2s.", ServerFault.RATE_LIMIT),
    (429, "ThrottlingException", "Too many tokens, please wait before trying again.", ServerFault.RATE_LIMIT),
    (
        429,
        "rate_limit_exceeded",
        "Rate limit reached on tokens per day (TPD): try again in 14m",
        ServerFault.RATE_LIMIT,
    ),
    (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", ServerFault.KEY),
    (401, "authentication_error", "invalid x-api-key", ServerFault.KEY),
    (403, "permission_error", "Your account may not use this model.", ServerFault.FORBIDDEN),
    (404, "not_found_error", "model: claude-x", ServerFault.NO_MODEL),
    (400, "invalid_request_error", "The model `x` does not exist", ServerFault.NO_MODEL),
    (400, "", "The plain HTTP request was sent to HTTPS port", ServerFault.SCHEME),
    (400, "invalid_request_error", "max_tokens: 99999 > 8192, the maximum of output", ServerFault.REQUEST),
    (400, "", "Bad Request", ServerFault.UNCLEAR),
    (503, "unavailable_error", "Loading model", ServerFault.OVERLOADED),
    (504, "", "<html><title>504 Gateway Time-out</title></html>", ServerFault.HUNG),
    (529, "overloaded_error", "Overloaded", ServerFault.OVERLOADED),
]


def body_of(code: str, message: str) -> bytes:
    """Return an error as servers send it."""
    return (
        message.encode() if "<html" in message else json.dumps({"error": {"type": code, "message": message}}).encode()
    )


@pytest.mark.parametrize(("server", "status", "code", "message"), LONG)
def test_a_request_longer_than_the_context(server: str, status: int, code: str, message: str, door: OpenDoor) -> None:
    """In the words of each server, at any status, it is said so at once and never retried: the tool is told 400."""
    door.model.replies.append(Reply(status=status, raw=body_of(code, message)))
    answer, trouble = door.ask(), door.door.trouble()

    assert trouble is not None, server
    assert (trouble.fault, trouble.rule.cause, trouble.rule.retried) == (ServerFault.CONTEXT, Cause.REQUEST, False)
    if status != 200:
        assert (answer.status_code in {400, 413}, answer.headers["x-should-retry"]) == (True, "false")
    assert (door.door.usage().cost, door.door.usage().assumed_cost) == (0.0, 0.0)


@pytest.mark.parametrize(("server", "status", "code", "message"), NO_MONEY)
def test_an_account_without_credit(server: str, status: int, code: str, message: str, door: OpenDoor) -> None:
    """In the words of each server, at any status, it pauses the run and is not retried."""
    door.model.replies.append(Reply(status=status, raw=body_of(code, message)))
    answer, trouble = door.ask(), door.door.trouble()

    assert trouble is not None, server
    assert (trouble.fault, trouble.rule.end) == (ServerFault.NO_CREDIT, AgentEnd.LIMITED)
    assert answer.headers["x-should-retry"] == "false"


def test_every_pattern_has_its_example() -> None:
    """No pattern is there that no example above needs."""
    for words, examples in ((CONTEXT_WORDS, LONG), (CREDIT_WORDS, NO_MONEY)):
        said = [message for _, _, _, message in examples]
        needed = {pattern: [text for text in said if re.search(pattern, text, re.IGNORECASE)] for pattern in words}
        assert [pattern for pattern, found in needed.items() if not found] == []


@pytest.mark.parametrize(("status", "code", "message", "fault"), OTHERS)
def test_other_failures(status: int, code: str, message: str, fault: ServerFault) -> None:
    """Limits that pass, keys, models and requests are told apart."""
    assert classify(status, body_of(code, message)).fault is fault


def test_the_rules_agree_with_the_table_of_causes() -> None:
    """Only a request that can never succeed is the agent's; whatever else the server says pauses the run."""
    agents = {fault for fault, rule in FAULTS.items() if rule.cause is Cause.REQUEST}

    assert FAULTS.keys() == {*ServerFault}
    assert agents == {ServerFault.CONTEXT, ServerFault.REQUEST}
    assert all(not FAULTS[fault].retried for fault in agents)


def test_a_sentence_says_where_what_and_why() -> None:
    """A person is told the server, the status, its words without names of accounts, and what to do."""
    body = json.dumps({"error": {"type": "authentication_error", "message": "Unknown key of org-a1b2c3d4e5."}}).encode()
    sentence = classify(401, body).sentence("https://api.example.org/v1")

    for part in ("https://api.example.org/v1", "HTTP 401", "Unknown key", "--model-key"):
        assert part in sentence
    assert "a1b2c3d4e5" not in sentence


# What can't be reached


def reached(url: str, directory: Path) -> ServerFault | None:
    """Return the fault of asking a server at a URL."""
    with open_door(directory) as other, ModelProxy(ModelUpstream(url)) as proxy:
        endpoint = proxy.serve(socket.create_server(("127.0.0.1", 0)))
        OpenDoor(proxy, endpoint, other.model, other.log).ask()
        trouble = proxy.trouble()
    return trouble and trouble.fault


def test_hosts_and_schemes(tmp_path: Path) -> None:
    """A name that nobody knows, https where http is spoken, and a port where nobody listens are told apart."""
    with open_door(tmp_path) as plain, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        refused = reached(f"http://127.0.0.1:{nobody.getsockname()[1]}", tmp_path / "1")
        scheme = reached(plain.model.url.replace("http:", "https:"), tmp_path / "2")
    unknown = reached("http://no-such-host.invalid", tmp_path / "3")

    assert (refused, scheme) == (ServerFault.REFUSED, ServerFault.SCHEME)
    assert unknown in {ServerFault.NO_HOST, ServerFault.REFUSED}  # a machine without a resolver can't tell


def test_causes_are_found_behind_others() -> None:
    """The error of the system decides, however often it is wrapped."""

    def wrapped(cause: BaseException) -> BaseException:
        error = httpx2.ConnectError("failed")
        error.__cause__ = OSError("all attempts failed")
        error.__cause__.__cause__ = ExceptionGroup("attempts", [cause]) if isinstance(cause, Exception) else cause
        return error

    certificate = ssl.SSLCertVerificationError()
    certificate.verify_message = "self-signed certificate"
    found = [
        unreached(wrapped(cause)).fault
        for cause in (
            certificate,
            ssl.SSLError(1, "wrong version number"),
            socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
            socket.gaierror(socket.EAI_AGAIN, "Try again"),
            ConnectionRefusedError(),
        )
    ]

    assert found == [
        ServerFault.CERTIFICATE,
        ServerFault.SCHEME,
        ServerFault.NO_HOST,
        ServerFault.REFUSED,
        ServerFault.REFUSED,
    ]


# Usage in other dialects


@pytest.mark.parametrize(
    ("wire", "fields", "usage"),
    [
        (
            ApiFormat.CHAT,  # reasoning outside of the output
            {
                "prompt_tokens": 32,
                "completion_tokens": 9,
                "total_tokens": 135,
                "completion_tokens_details": {"reasoning_tokens": 94},
            },
            Usage(32, None, None, 103, 94),
        ),
        (
            ApiFormat.CHAT,  # reasoning outside of the output that it would fit into, as the total says
            {"prompt_tokens": 10, "completion_tokens": 50, "total_tokens": 100, "reasoning_tokens": 40},
            Usage(10, None, None, 90, 40),
        ),
        (
            ApiFormat.CHAT,  # both outside
            {
                "prompt_tokens": 200,
                "cached_tokens": 100,
                "completion_tokens": 50,
                "total_tokens": 390,
                "reasoning_tokens": 40,
            },
            Usage(300, 100, None, 90, 40),
        ),
        (ApiFormat.CHAT, {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 530}, (30, 500)),
        (
            ApiFormat.CHAT,  # cached input outside of the input
            {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 130, "cached_tokens": 100},
            Usage(110, 100, None, 20),
        ),
        (ApiFormat.CHAT, {"prompt_tokens": 10.0, "completion_tokens": 2.0}, Usage(10, None, None, 2)),
        (
            ApiFormat.CHAT,
            {"prompt_tokens": 90, "completion_tokens": 1, "prompt_tokens_details": {"cache_write_tokens": 80}},
            Usage(90, None, 80, 1),
        ),
        (
            ApiFormat.MESSAGES,
            {
                "input_tokens": 5,
                "output_tokens": 1,
                "cache_creation": {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 10},
            },
            Usage(45, None, 40, 1),
        ),
        (
            ApiFormat.RESPONSES,
            {"input_tokens": 7, "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 9}},
            Usage(7, None, None, 12, 9),
        ),
        (
            ApiFormat.GEMINI,
            {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 95},
            (15, 80),
        ),
    ],
)
def test_usage_in_other_dialects(wire: ApiFormat, fields: Json, usage: Usage | tuple[int, int]) -> None:
    """The total is compared: what no part explains is unknown, never small."""
    found = read_usage(wire, fields)

    if isinstance(usage, Usage):
        assert (found, found.is_known) == (usage, True)
    else:
        assert (found.tokens, found.unexplained, found.is_known) == (*usage, False)


def test_an_unexplained_total_is_charged_as_a_bound(door: OpenDoor) -> None:
    """What a total says more than its parts counts at the dearest rate, beside what is known."""
    usage = {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 530}
    choice = {"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}
    door.model.replies.append(Reply(raw=json.dumps({"choices": [choice], "usage": usage}).encode()))
    door.ask()
    found = door.door.usage()

    assert (found.unknown, found.tokens, found.assumed_tokens) == (1, 30, 500)
    assert found.assumed_cost == pytest.approx(500 * 0.01)


@pytest.mark.parametrize("later", [{"output_tokens": 0, "input_tokens": 0}, {"output_tokens": 0, "input_tokens": None}])
def test_usage_only_grows(later: Json, door: OpenDoor) -> None:
    """A later zero or null of a stream erases nothing."""
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 100, "output_tokens": 40}}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": later}
    door.model.replies.append(Reply(raw=events(start, end, {"type": "message_stop"})))
    door.stream(ApiFormat.MESSAGES)

    assert (door.door.usage().input, door.door.usage().output, door.door.usage().unknown) == (100, 40, 0)


def test_a_running_count_is_no_output(door: OpenDoor) -> None:
    """Of a chat that breaks off, counts that its chunks told are the input's alone."""
    running = {**CHUNK, "usage": {"prompt_tokens": 50, "completion_tokens": 3}}
    door.model.replies.append(Reply(raw=events(running)))
    door.stream(ApiFormat.CHAT)
    line = door.lines()[0]

    assert (line["input"], line["output"], door.door.usage().unknown) == (50, None, 1)


def test_how_long_a_request_waits(door: OpenDoor) -> None:
    """While a server says nothing, it is known for how long."""
    door.model.replies.append(Reply(hang="before"))
    asking = threading.Thread(target=door.ask, daemon=True)
    asking.start()
    assert door.model.came.wait(60)
    waited = door.door.waiting_s()
    door.model.released.set()
    asking.join()
    while door.door.waiting_s():  # the client has its answer a moment before the door is done with it
        threading.Event().wait(0.01)

    assert waited > 0
    assert door.door.usage().tokens == INPUT + OUTPUT
