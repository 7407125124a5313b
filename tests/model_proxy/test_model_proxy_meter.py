"""The parts of the model's door that see single bytes: the meter, and the mask that takes the key out."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from evopolicygym.agents.kit.scripted_model.server import INPUT, OUTPUT, Reply, answer_pieces
from evopolicygym.model_proxy import usage as module
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.forward import MAX_ERROR
from evopolicygym.model_proxy.mask import Mask, mask_account
from evopolicygym.model_proxy.usage import AnswerMeter, Usage, read_usage
from model_proxies import REAL_KEY, SPOKEN

STREAM = "text/event-stream; charset=utf-8"


def stream_of(wire: ApiFormat) -> bytes:
    spoken = SPOKEN[wire]
    path = (spoken.stream_path or spoken.path).partition("?")[0]
    return b"".join(answer_pieces(path, spoken.body | spoken.stream_fields, Reply()))


@given(some.sampled_from(list(SPOKEN)), some.integers(1, 200), some.booleans())
def test_a_stream_is_read_wherever_it_is_cut(wire: ApiFormat, size: int, carriage: bool) -> None:  # noqa: FBT001
    """Usage is the same in chunks of any size, and with either end of line."""
    stream = stream_of(wire).replace(b"\n", b"\r\n") if carriage else stream_of(wire)
    meter = AnswerMeter(wire, STREAM)
    for start in range(0, len(stream), size):
        meter.feed(stream[start : start + size])
    usage = meter.finish(whole=True)

    assert (usage.input, usage.output, meter.model, meter.n_bytes) == (INPUT, OUTPUT, "scripted", len(stream))


@given(
    some.binary(max_size=300), some.sampled_from(list(ApiFormat)), some.sampled_from([STREAM, "application/json", ""])
)
def test_no_answer_breaks_the_meter(data: bytes, wire: ApiFormat, kind: str) -> None:
    """Whatever comes, the meter says what it knows and raises nothing."""
    meter = AnswerMeter(wire, kind)
    meter.feed(b"data: " + data)
    meter.feed(data)

    assert isinstance(meter.finish(whole=True), Usage)


Value = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=3),
    lambda inner: (
        some.lists(inner, max_size=3)
        | some.dictionaries(
            some.sampled_from(["usage", "response", "message", "choices", "input_tokens", "usageMetadata", "type"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(Value, some.sampled_from(list(ApiFormat)))
def test_no_document_breaks_the_meter(value: object, wire: ApiFormat) -> None:
    """Usage of any other shape than expected is not told."""
    meter = AnswerMeter(wire, "application/json")
    meter.feed(json.dumps(value).encode())
    usage = meter.finish(whole=True)

    assert usage.input is None or usage.input >= 0


def test_a_streamed_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gemini's stream without events is one list, and its last element tells the whole usage."""
    chunks = [{"usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": n}} for n in (1, 2, 3)]
    meter = AnswerMeter(ApiFormat.GEMINI, "application/json")
    meter.feed(json.dumps(chunks).encode())

    assert meter.finish(whole=True) == Usage(5, 0, None, 3, 0)
    monkeypatch.setattr(module, "MAX_EVENT_BYTES", 10)
    meter = AnswerMeter(ApiFormat.GEMINI, "application/json")
    meter.feed(json.dumps(chunks).encode())

    assert meter.finish(whole=True) == Usage()


def test_an_endless_line_costs_no_more_than_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line too long to keep is passed over, and those after it are read."""
    monkeypatch.setattr(module, "MAX_EVENT_BYTES", 2000)
    meter = AnswerMeter(ApiFormat.RESPONSES, STREAM)
    meter.feed(b"data: " + b"x" * 5000)
    meter.feed(b"x\n\n" + stream_of(ApiFormat.RESPONSES))

    assert meter.finish(whole=True).input == INPUT


@pytest.mark.parametrize(
    ("fields", "cached"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 3}}, 3),
        ({"cached_tokens": 4}, 4),
        ({"prompt_cache_hit_tokens": 0}, 0),
        ({"prompt_tokens_details": None}, None),
        ({"prompt_tokens_details": {"cached_tokens": True}}, None),
    ],
)
def test_cached_input_has_several_names(fields: dict[str, object], cached: int | None) -> None:
    """Servers that speak Chat Completions tell cached input in three places."""
    usage = read_usage(ApiFormat.CHAT, {"prompt_tokens": 9, "completion_tokens": 1} | fields)

    assert usage == Usage(9, cached, None, 1)


def test_usage_beside_a_choice() -> None:
    """Usage within the last choice of a stream counts too."""
    meter = AnswerMeter(ApiFormat.CHAT, STREAM)
    meter.feed(
        b'data: {"choices": [{"finish_reason": "stop", "usage": {"prompt_tokens": 1, "completion_tokens": 2}}]}\n\n'
    )

    assert meter.finish(whole=True) == Usage(1, None, None, 2)


@given(
    some.lists(some.sampled_from([REAL_KEY, REAL_KEY[:9], REAL_KEY[9:], "sk-", "s", " ", "\n\n"])), some.integers(1, 9)
)
def test_the_mask_finds_a_key_wherever_it_is_cut(words: list[str], size: int) -> None:
    """No cut lets the key through, and everything else comes out as it was."""
    text, mask = "".join(words), Mask(REAL_KEY)
    parts = [mask.feed(text[start : start + size].encode()) for start in range(0, len(text), size)]
    passed = b"".join([*parts, mask.finish()]).decode()

    assert passed == text.replace(REAL_KEY, "*" * len(REAL_KEY))


def test_the_mask_holds_nothing_else_back() -> None:
    """An event that can't be the beginning of the key passes at once; a word too short for a secret is left alone."""
    assert Mask(REAL_KEY).feed(b"data: {}\n\n") == b"data: {}\n\n"
    assert Mask("EMPTY").feed(b"The list is EMPTY") == b"The list is EMPTY"
    assert Mask("").feed(b"x") == b"x"


def test_names_of_accounts_by_the_thousand() -> None:
    """An error that repeats what an agent asked for, as long as errors may be, holds nobody up."""
    asked = b"org-" * (MAX_ERROR // 4)

    assert mask_account(asked) == asked


def test_names_of_accounts() -> None:
    """What looks like a name of an account goes, what looks like a code stays."""
    assert mask_account(b"org-a1b2c3d4 sk-proj-****************abcd user_not_found") == b"org-*** sk-*** user_not_found"
