"""A limit of cost: what a request costs at most is reserved before it is sent, and what has no price doesn't pass."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from evopolicygym.agents.kit.model_requests import ModelRequests
from evopolicygym.agents.kit.neutral_harness.model_client import AllowanceSpent, ModelClient
from evopolicygym.agents.kit.scripted_model.server import INPUT, OUTPUT, Json, Reply, ScriptedModel
from evopolicygym.core.agent import Allowance, PriceSnapshot, Rates, Workspace
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.upstream import ModelUpstream
from evopolicygym.model_proxy.usage import Usage
from evopolicygym.model_proxy.worst_case import (
    DEFAULT_OUTPUT,
    IMAGE_TOKENS,
    ITEM_TOKENS,
    LEAST_OUTPUT,
    SERVER_TOKENS,
    InputBounds,
    priced_headers,
    text_tokens,
    with_output,
    worst_case,
)
from fakes import TIME
from model_proxies import REAL_KEY, SPOKEN, VARIABLE, OpenDoor, open_door, wait_for_requests

PRICE = PriceSnapshot("scripted", "given", TIME, Rates(input=1.0, output=100.0, cached_input=0.1, cache_write=2.0))
"""A bound of the default on output costs 3.3 USD."""
BOUND = {ApiFormat.RESPONSES: "max_output_tokens", ApiFormat.CHAT: "max_tokens", ApiFormat.MESSAGES: "max_tokens"}
PIXEL = "data:image/png;base64," + "A" * 4000
PDF = {"type": "base64", "media_type": "application/pdf", "data": "A"}
UNPRICED: list[tuple[ApiFormat, Json]] = [
    *(
        (wire, {"service_tier": tier})
        for wire in (ApiFormat.RESPONSES, ApiFormat.CHAT)
        for tier in ("priority", "auto", "fast")
    ),
    (ApiFormat.MESSAGES, {"service_tier": "auto"}),
    (ApiFormat.MESSAGES, {"speed": "fast"}),
    (ApiFormat.MESSAGES, {"inference_geo": "us"}),
    (ApiFormat.MESSAGES, {"cache_control": {"type": "ephemeral", "ttl": "1h"}}),
    (
        ApiFormat.MESSAGES,
        {"system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]},
    ),
    (ApiFormat.MESSAGES, {"tools": [{"name": "f", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]}),
    (ApiFormat.MESSAGES, {"context_management": {"edits": [{"type": "compact_20260112"}]}}),
    (ApiFormat.MESSAGES, {"context_management": {"edits": [{"type": "clear_thinking_20251015"}], "summary": True}}),
    (ApiFormat.MESSAGES, {"context_management": [{"type": "clear_thinking_20251015"}]}),
    (ApiFormat.MESSAGES, {"messages": [{"role": "user", "content": [{"type": "document", "source": PDF}]}]}),
    (ApiFormat.RESPONSES, {"previous_response_id": "resp_1"}),
    (ApiFormat.RESPONSES, {"input": [{"type": "item_reference", "id": "msg_1"}]}),
    (ApiFormat.RESPONSES, {"input": [{"id": "msg_1"}]}),
    (ApiFormat.RESPONSES, {"prompt_cache_retention": "24h"}),
    (ApiFormat.RESPONSES, {"Service_Tier": "default"}),
    (ApiFormat.RESPONSES, {"context_management": [{"type": "compaction"}]}),
    (ApiFormat.RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_file", "file_data": "A"}]}]}),
    (ApiFormat.CHAT, {"n": 8}),
    (ApiFormat.CHAT, {"n": True}),
    (ApiFormat.CHAT, {"prediction": {"type": "content", "content": "a"}}),
    (ApiFormat.CHAT, {"modalities": ["text", "audio"]}),
    (ApiFormat.CHAT, {"provider": {"sort": "throughput"}}),
    (
        ApiFormat.CHAT,
        {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "A"}}]}]},
    ),
    (ApiFormat.GEMINI, {"generationConfig": {"candidateCount": 8}}),
    (ApiFormat.GEMINI, {"generation_config": {"candidate_count": 8}}),
    (ApiFormat.GEMINI, {"generationConfig": {"responseModalities": ["AUDIO"]}}),
    (ApiFormat.GEMINI, {"generationConfig": {"speechConfig": {}}}),
    (ApiFormat.GEMINI, {"serviceTier": "priority"}),
    (ApiFormat.GEMINI, {"contents": [{"parts": [{"inlineData": {"mimeType": "audio/wav", "data": "A"}}]}]}),
]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, REAL_KEY)


def limited(directory: Path, max_cost: float, **changes: Any) -> Any:
    """Open a door under a limit of cost."""
    return open_door(directory, max_cost=max_cost, price=PRICE, **changes)


def most(tokens: int, output: int) -> float:
    """Return the US dollars that a request costs at most."""
    return ((tokens + SERVER_TOKENS) * 2 + output * 100) / 1_000_000


def most_of(body: Json, output: int) -> float:
    """Return the US dollars that the first request of a chat costs at most."""
    return (InputBounds().bound(ApiFormat.CHAT, body)[0] * 2 + output * 100) / 1_000_000


def sent(door: OpenDoor) -> list[Json]:
    """Return the bodies that came to the model server."""
    return [asked.body for asked in door.model.asked]


def test_what_has_no_price_does_not_pass(tmp_path: Path) -> None:
    """Higher tiers, speed, several answers, stored input, longer caches, sounds: refused."""
    with limited(tmp_path, 100.0) as door:
        found = [(door.ask(wire, **fields).status_code, fields) for wire, fields in UNPRICED]
        found.append((door.request("POST", "/v1/responses/compact", {"model": "m", "input": []}).status_code, {}))

        assert [fields for status, fields in found if status != 403] == []
        assert (door.model.asked, {line["refused"] for line in door.lines()}) == ([], {"unpriced"})


def test_what_tools_send_has_a_price(tmp_path: Path) -> None:
    """What command-line tools say of themselves passes, and so do images."""
    schema = {"type": "object", "properties": {"file": {"type": "string"}, "ttl": {"type": "string"}}}
    image = {"type": "image_url", "image_url": {"url": PIXEL}}
    bodies: list[tuple[ApiFormat, Json]] = [
        (ApiFormat.RESPONSES, {"store": False, "service_tier": "flex", "include": [], "prompt_cache_key": "k"}),
        (ApiFormat.RESPONSES, {"input": [{"type": "reasoning", "id": "r", "encrypted_content": "A", "summary": []}]}),
        (ApiFormat.CHAT, {"n": 1, "messages": [{"role": "user", "content": [image]}]}),
        *(
            (ApiFormat.GEMINI, {"contents": [{"parts": [{name: {kind: "image/png", "data": "A" * 4000}}]}]})
            for name, kind in (("inlineData", "mimeType"), ("inline_data", "mime_type"))
        ),
        (ApiFormat.CHAT, {"tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]}),
        (
            ApiFormat.MESSAGES,
            {"tools": [{"name": "f", "input_schema": schema, "cache_control": {"type": "ephemeral"}}]},
        ),
        (ApiFormat.MESSAGES, {"cache_control": {"type": "ephemeral"}, "thinking": {"type": "adaptive"}}),
        (ApiFormat.MESSAGES, {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}),
        (ApiFormat.GEMINI, {"generationConfig": {"temperature": 1, "thinkingConfig": {"thinkingBudget": 9}}}),
        (ApiFormat.GEMINI, {"generation_config": {"top_k": 1, "thinking_config": {"thinking_budget": 9}}}),
    ]
    with limited(tmp_path, 100.0) as door:
        assert [door.ask(wire, **fields).status_code for wire, fields in bodies] == [200] * len(bodies)


@pytest.mark.parametrize("wire", SPOKEN)
def test_output_is_always_bounded(wire: ApiFormat, tmp_path: Path) -> None:
    """A bound is written into a request that states none, at most as large as what is left pays for."""
    with limited(tmp_path, 0.5) as door:
        assert door.ask(wire).status_code == 200
        (body,) = sent(door)

    stated = body["generationConfig"]["maxOutputTokens"] if wire is ApiFormat.GEMINI else body[BOUND[wire]]
    assert stated == 9 if wire is ApiFormat.MESSAGES else LEAST_OUTPUT < stated < 0.5 * 1_000_000 / 100


def test_the_field_that_a_server_heeds() -> None:
    """Of Chat Completions, OpenAI's servers heed the newer field and others the older; the smaller bound holds."""
    for base_url, name in (("https://api.openai.com/v1", "max_completion_tokens"), ("https://a.test/v1", "max_tokens")):
        body = {"messages": [], "max_tokens": 70, "max_completion_tokens": 50}
        worst = worst_case(ApiFormat.CHAT, "/v1/chat/completions", body, 100)

        assert worst == Usage(input=100, output=50)
        assert with_output(ApiFormat.CHAT, body, 50, base_url)
        assert body == {"messages": [], name: 50}
        assert not with_output(ApiFormat.CHAT, body, 50, base_url)


def test_an_image_counts_whatever_its_bytes() -> None:
    """An image is taken at the most that servers count for one."""
    for block in (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 4000}},
        {
            "type": "tool_result",
            "content": [{"type": "image_url", "image_url": {"url": "data:image/png," + "A" * 3985}}],
        },
    ):
        body = {"max_tokens": 5, "messages": [{"role": "user", "content": [block]}]}
        bound, _ = InputBounds().bound(ApiFormat.MESSAGES, body)

        assert IMAGE_TOKENS + SERVER_TOKENS < bound < IMAGE_TOKENS + SERVER_TOKENS + 150


def test_a_request_that_is_too_dear_is_not_sent(tmp_path: Path) -> None:
    """What is left pays for no answer of use, so nothing is sent, and the limit is said to be reached."""
    with limited(tmp_path, most(200, LEAST_OUTPUT)) as door:
        answer = door.ask(ApiFormat.CHAT, messages=[{"role": "user", "content": "a" * 10_000}])

        assert (answer.status_code, answer.headers["x-should-retry"], door.model.asked) == (429, "false", [])
        assert door.door.spent()
        assert door.ask(ApiFormat.CHAT, messages=[]).status_code == 200
        assert not door.door.spent()


def test_requests_at_once_do_not_share_what_is_left(tmp_path: Path) -> None:
    """Of many requests at the same moment, as many pass as can be paid for at their worst; others may ask again."""
    with limited(tmp_path, 2.5 * most(100, 1000)) as door, ThreadPoolExecutor(8) as pool:
        door.model.replies += [Reply(hang="before")] * 2
        hung = [pool.submit(door.ask, ApiFormat.CHAT, max_tokens=1000) for _ in range(2)]
        wait_for_requests(door.model, 2)
        refused = door.ask(ApiFormat.CHAT, max_tokens=1000, messages=[{"role": "user", "content": "a" * 60_000}])
        door.model.released.set()

        assert (refused.status_code, "x-should-retry" in refused.headers, door.door.spent()) == (429, False, "")
        assert [future.result().status_code for future in hung] == [200, 200]
        assert door.ask(ApiFormat.CHAT, max_tokens=1000).status_code == 200


@pytest.mark.parametrize("reply", [Reply(cut=True), Reply(tell_usage=False), Reply(status=504)])
def test_what_was_not_told_counts_at_its_worst(reply: Reply, tmp_path: Path) -> None:
    """An answer that breaks off, took too long, or tells no usage, has cost what was reserved."""
    with limited(tmp_path, 1.0) as door:
        door.model.replies.append(reply)
        with suppress(httpx2.HTTPError):  # the answer breaks off
            door.ask(ApiFormat.CHAT, max_tokens=2000)
        usage = door.door.usage()

        assert (usage.cost, usage.unknown) == (0, 1)
        assert usage.assumed_cost == pytest.approx(most_of(SPOKEN[ApiFormat.CHAT].body, 2000))


def test_who_leaves_pays_the_worst(tmp_path: Path) -> None:
    """Leaving before the answer ends is no way to have it for nothing."""
    with limited(tmp_path, 1.0) as door:
        door.model.replies.append(Reply(hang="between"))
        body = json.dumps(SPOKEN[ApiFormat.CHAT].body | {"stream": True, "max_tokens": 2000})
        with door.connect() as connection:
            head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {door.endpoint.key}\r\nContent-Length: {len(body)}"
            connection.sendall(f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n\r\n{body}".encode())
            wait_for_requests(door.model, 1)
            connection.recv(1 << 16)
        assert door.model.left.wait(60)
        door.door.close()

        assert door.door.usage().assumed_cost == pytest.approx(most_of(SPOKEN[ApiFormat.CHAT].body, 2000))


def test_the_servers_figure_takes_the_place_of_the_worst(tmp_path: Path) -> None:
    """Once an answer has told its usage, nothing stays reserved."""
    with limited(tmp_path, 1.0) as door:
        assert door.ask(ApiFormat.RESPONSES).status_code == 200
        usage = door.door.usage()

    assert usage.assumed_cost == 0
    assert usage.cost == pytest.approx(((INPUT - 400) * 1.0 + 400 * 0.1 + OUTPUT * 100.0) / 1_000_000)


def test_a_harness_of_ours_reserves_too(tmp_path: Path) -> None:
    """The neutral harness bounds its output and is refused as a tool is, before anything is sent."""
    with ScriptedModel() as model:
        upstream = ModelUpstream(model.url + "/v1", VARIABLE, ApiFormat.CHAT)
        workspace = Workspace(tmp_path, tmp_path / "log", 0, "none", left=Allowance(cost=0.2), price=PRICE)
        with ModelClient(upstream, ModelRequests("scripted", upstream.wire, {}, {}, caches=True), workspace) as client:
            conversation = client.conversation("")
            conversation.say("Begin.")
            client.ask(conversation, lambda _: None)
            conversation.say("a" * 200_000)
            with pytest.raises(AllowanceSpent):
                client.ask(conversation, lambda _: None)

    (asked,) = model.asked
    assert 0 < asked.body["max_tokens"] < DEFAULT_OUTPUT
    assert client.usage().cost == pytest.approx(((INPUT - 400) * 1.0 + 400 * 0.1 + OUTPUT * 100.0) / 1_000_000)


def test_betas_that_may_change_a_price_are_left_out() -> None:
    """A longer context or a faster model is not had by a header."""
    asked = [(b"anthropic-beta", b"claude-code-20250219, context-1m-2025-08-07,fast-mode-2026-02-01"), (b"a", b"b")]

    assert priced_headers(asked) == [(b"anthropic-beta", b"claude-code-20250219"), (b"a", b"b")]


# How closely requests are bounded


def conversation(n_turns: int, sentence: str = "The pole falls to the left, so push left. ") -> list[Json]:
    """Return the messages of so many turns, which end with the user's."""
    told = [
        message
        for turn in range(n_turns)
        for message in (
            {"role": "user", "content": f"{turn}: " + sentence * 20},
            {"role": "assistant", "content": f"{turn}: " + sentence * 5},
        )
    ]
    return told[:-1]


@pytest.mark.parametrize("wire", [ApiFormat.CHAT, ApiFormat.MESSAGES, ApiFormat.RESPONSES])
def test_what_a_conversation_took_is_known_when_it_goes_on(wire: ApiFormat) -> None:
    """Of a conversation that goes on, the text that was added is bounded, and the model's answer by its tokens."""
    name = "input" if wire is ApiFormat.RESPONSES else "messages"
    bounds, tools = InputBounds(), [{"name": "bash", "description": "Run a command. " * 500}]
    first, digest = bounds.bound(wire, {name: conversation(1), "tools": tools, BOUND[wire]: 1})
    bounds.remember(digest, first, Usage(2000, 0, 0, 100))
    going_on, _ = bounds.bound(wire, {name: conversation(2), "tools": tools, BOUND[wire]: 9, "stream": True})
    again, _ = bounds.bound(wire, {name: conversation(1), "tools": tools, BOUND[wire]: 9})
    alone, _ = InputBounds().bound(wire, {name: conversation(2)[2:]})
    other, _ = bounds.bound(wire, {name: conversation(2)[1:], "tools": tools})

    assert first > 3000
    assert 2000 <= again <= 2000 + ITEM_TOKENS
    assert 2000 + 100 < going_on < 2000 + 100 + alone
    assert other > first


def test_marks_for_a_cache_are_no_other_conversation() -> None:
    """A mark that moves to the last message leaves those before as they were."""
    bounds = InputBounds()
    block = {"type": "text", "text": "Begin. " * 1000, "cache_control": {"type": "ephemeral"}}
    bound, digest = bounds.bound(ApiFormat.MESSAGES, {"messages": [{"role": "user", "content": [block]}]})
    bounds.remember(digest, bound, Usage(1500, 0, 1400, 10))
    before = {"role": "user", "content": [{"type": "text", "text": "Begin. " * 1000}]}
    more = [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": [{**block, "text": "Go on."}]}]

    assert 1500 < bounds.bound(ApiFormat.MESSAGES, {"messages": [before, *more]})[0] < 1620


def test_a_model_of_small_tokens_widens_the_bounds() -> None:
    """Once a request took more than its bound, those of other conversations are as much larger."""
    bounds = InputBounds()
    bound, digest = bounds.bound(ApiFormat.CHAT, {"messages": [{"role": "user", "content": "a b " * 5000}]})
    other = {"messages": [{"role": "user", "content": "c d " * 5000}]}
    before, _ = bounds.bound(ApiFormat.CHAT, other)
    bounds.remember(digest, bound, Usage(3 * bound, 0, 0, 1))

    assert bounds.bound(ApiFormat.CHAT, other)[0] > 2.5 * before


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("The quick brown fox jumps over the lazy dog. " * 100, 1000, 2700),
        ("def act(self, obs):\n    return 0 if obs[2] < 0 else 1\n" * 100, 2000, 3600),
        ("aGVsbG8gd29ybGQsIHRoaXMgaXMgYmFzZTY0" * 100, 2200, 3600),
        ("0123456789" * 100, 1000, 1000),
        ("日本語" * 100, 300, 900),
        (" " * 1600, 1, 101),
    ],
)
def test_the_bound_of_a_text(text: str, least: int, most: int) -> None:
    """Texts of each kind are bounded above what tokenisers make of them, and well below their bytes."""
    assert least <= text_tokens(text) <= most


def test_a_run_comes_close_to_its_limit(tmp_path: Path) -> None:
    """A conversation with a long beginning spends nine tenths of its limit and never more, and says what came next."""
    start = "You are a careful engineer. " * 1500
    with open_door(tmp_path, max_cost=0.15, price=replace(PRICE, rates=Rates(1.25, 10.0))) as door:
        messages: list[Json] = [{"role": "system", "content": start}]
        tokens = 8000
        for turn in range(100):
            messages.append({"role": "user", "content": f"Step {turn}: what now?"})
            tokens += 60
            usage = {"prompt_tokens": tokens, "completion_tokens": 40, "total_tokens": tokens + 40}
            message = {"role": "assistant", "content": f"Do {turn}."}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            door.model.replies = [Reply(raw=json.dumps({"choices": [choice], "usage": usage}).encode())]
            if door.ask(ApiFormat.CHAT, messages=messages).status_code != 200:
                break
            messages.append(message)
        spent, said = door.door.usage().cost or 0.0, door.door.spent()

    assert 0.9 * 0.15 < spent <= 0.15
    assert (f"{spent:.3g} of 0.15 USD spent" in said, "could cost up to" in said) == (True, True)
