"""JSON from an untrusted sender is read in one way or refused, wherever it comes in."""

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from asking import ask, assert_unharmed, refusal, submit
from evopolicygym.core.rollout import FailureReason
from evopolicygym.core.strict_json import MOST_NESTING, NotStrict, decode, dumps
from fakes import RunMaker
from playground import Playground, local_executor, policy
from simulators import spec


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    """Return a place to play policies in."""
    with local_executor("bubblewrap", spec("Plain"), tmp_path_factory.mktemp("yard")) as ground:
        yield ground


ODD = {
    b'{"env_instances": [0], "env_instances": [0]}': "'env_instances'",
    b'{"env_instances": [0], "key": {"a": 1, "a": 1}}': "'a'",
    b'{"env_instances": [0], "env_\\u0069nstances": [0]}': "'env_instances'",
    b'\xef\xbb\xbf{"env_instances": [0]}': "byte order mark",
    '{"env_instances": [0]}'.encode("utf-16"): "UTF-16",
    '{"env_instances": [0]}'.encode("utf-16-le"): "UTF-16-LE",
    '{"env_instances": [0]}'.encode("utf-16-be"): "UTF-16-BE",
    '{"env_instances": [0]}'.encode("utf-32"): "UTF-32",
    '{"env_instances": [0]}'.encode("utf-32-be"): "UTF-32-BE",
    b'{"env_instances": [0], "key": "\xe9"}': "0xe9 at position 31",
    b'{"env_instances": [0], "key": NaN}': "NaN",
    b'{"env_instances": [0], "key": -Infinity}': "-Infinity",
    b'{"env_instances": [0], "key": 1e999}': "1e999",
    b'{"env_instances": [0], "key": ' + b"[" * 200 + b"]" * 200 + b"}": f"{MOST_NESTING} deep",
    b'{"env_instances": [0], "key": ' + b'{"a":' * 9000 + b"0" + b"}" * 9000 + b"}": f"{MOST_NESTING} deep",
    b'{"env_instances": [0]} {}': "column 24",
    b'{"env_instances": [' + b"1" * 5000 + b"]}": "4300 digits",
}


@pytest.mark.parametrize(("body", "named"), ODD.items(), ids=[str(body[:50]) for body in ODD])
def test_a_request_of_two_meanings_is_refused(new_run: RunMaker, body: bytes, named: str) -> None:
    """A body that another reader might read otherwise is refused, told what was found in it, and not charged."""
    run = new_run()
    before = run.journal()
    answer = submit(run, body)

    assert refusal(answer) == (400, "invalid_request")
    assert named in answer.json()["error"]["message"]
    assert len(answer.content) < 300
    assert_unharmed(run, before)


@pytest.mark.parametrize("name", ["é", "\ud800", "a" * 200, '"', "\n"])
def test_a_field_named_twice_is_refused_with_any_name(name: str) -> None:
    """Whatever text a field's name is, twice is too often."""
    with pytest.raises(NotStrict, match="twice"):
        decode(json.dumps({name: 0})[:-1] + "," + json.dumps({name: 1})[1:])


def test_what_is_strict_is_read() -> None:
    """Nesting up to the bound, numbers of any size that is finite, and any text in UTF-8 are read as they are."""
    deep = "[" * MOST_NESTING + "]" * MOST_NESTING
    value: Any = decode(f'{{"a": {{"a": "\\u00e9\ud7ff"}}, "b": [1e308, -0.0, {10**400}], "c": null}}'.encode())

    assert value == {"a": {"a": "é\ud7ff"}, "b": [1e308, -0.0, 10**400], "c": None}
    assert decode(deep)
    with pytest.raises(NotStrict, match="deep"):
        decode(f"[{deep}]")


def test_feedback_that_an_agent_has_spoilt_is_as_good_as_none(new_run: RunMaker) -> None:
    """What an agent wrote in its feedback's place is not passed on, however it is nested or spelled."""
    run = new_run(films=1)
    submit(run, {"env_instances": [0], "films": [0]})
    (file,) = run.paths.feedback.glob("*/summary.json")
    file.parent.chmod(0o755)
    file.unlink()
    spoilt = (b'{"films": ' + b"[" * 500 + b"]" * 500 + b"}", b'{"films": NaN}', b'{"films": 1, "films": 2}')
    told = [file.write_bytes(one) and ask(run, "GET", "/submissions/0").json()["summary"]["films"] for one in spoilt]

    assert told == [None] * 3


@pytest.mark.parametrize(
    "report",
    [
        b'{"reason": "memory", "reason": "error", "message": "", "traceback": ""}',
        b'{"reason": "memory", "message": Infinity, "traceback": ""}',
        b'{"reason": "memory", "message": ' + b"[" * 300 + b"]" * 300 + b"}",
        '{"reason": "memory", "message": "", "traceback": ""}'.encode("utf-16"),
    ],
)
def test_a_report_of_two_meanings_is_none(yard: Playground, report: bytes) -> None:
    """A policy that writes its failure's report itself, and not strictly, has died; the case is played once."""
    forged = (
        f"report = {report!r}\nos.write(4, b'\\4\\0\\0\\0' + len(report).to_bytes(4, 'little') + bytes(16) + report)"
    )
    failure = yard.play_one(policy(f"{forged}\nos._exit(0)")).episode.failure

    assert (failure and failure.reason, yard.repeated) == (FailureReason.DIED, [])


LEAVES = (
    some.sampled_from([math.inf, -math.inf, -0.0, None, True])
    | some.integers()
    | some.floats(allow_nan=False)
    | some.text()
)
VALUES = some.recursive(LEAVES, lambda each: some.lists(each) | some.dictionaries(some.text(), each), max_leaves=8)


@settings(max_examples=30)
@given(value=VALUES, indent=some.none() | some.integers(0, 2))
def test_what_is_written_is_read_back(value: Any, indent: int | None) -> None:
    """Any JSON value comes back bit for bit from what is written of it; infinities come back as their names."""
    assert repr(decode(dumps(value, indent))) == repr(named(value))


def named(value: Any) -> Any:
    """Return a value with the names of infinities in their places."""
    match value:
        case dict():
            return {key: named(item) for key, item in value.items()}
        case list():
            return [named(item) for item in value]
        case float():
            return {math.inf: "Inf", -math.inf: "-Inf"}.get(value, value)
    return value
