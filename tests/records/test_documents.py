"""Documents: every event survives its JSON, and what is not known is refused and not guessed at."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.cases import Split
from evopolicygym.core.errors import RecordError
from evopolicygym.core.event import (
    AgentEnded,
    AgentMetered,
    AgentStarted,
    EpisodePlayed,
    EpisodeRepeated,
    Event,
    FinishAsked,
    PolicyRestored,
    PostHocPlayed,
    RunResumed,
    RunStopped,
    StopReason,
)
from evopolicygym.core.rollout import Failure, FailureReason
from evopolicygym.core.spaces import Box, Dict, Discrete, to_schema
from evopolicygym.core.strict_json import dumps
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.records.journal import KINDS, decode_event, encode_event
from fakes import TIME, charged, episode, opening, published, trained, whole_run

BOUNDS = Dict(
    (
        ("one", Box((2,), "float32", -math.inf, math.inf)),
        ("each", Box((2,), "float64", (-math.inf, 0.0), (1.0, math.inf))),
        ("many", Box((2, 50), "float64", tuple([-math.inf] * 99 + [0.0]), math.inf)),
        ("word", Discrete(2, 0, ("no", "yes"))),
    )
)
FAILED = replace(episode(-1.5), success=None, failure=Failure(FailureReason.TIMEOUT, "it took 5 s", 3, "Traceback …"))
EVENTS = [
    PostHocPlayed(TIME, "a", "00"),
    *whole_run(),
    opening(observation_schema=to_schema(BOUNDS), action_schema=to_schema(BOUNDS)),
    opening(agent=AgentConfig("command", "model", {"steps": [{"submit": [0, 1]}]}, ("python3", "agent.py"))),
    RunResumed(TIME),
    RunStopped(TIME, StopReason.ENVIRONMENT, "the simulator's process ended"),
    AgentStarted(TIME, 0),
    AgentMetered(TIME, 0, 1.5, {"input": 3, "cost": 0.5}),
    AgentEnded(TIME, 0, "crashed", "ValueError: ünïcode \u2028 \x00"),
    EpisodePlayed(Split.TRAIN, "a", 0, FAILED, 0),
    EpisodeRepeated(TIME, Split.HELD_OUT, 31, "the simulator's process ended"),
    published(0, SubmissionStatus.INIT_TIMEOUT),
    FinishAsked(TIME),
    PolicyRestored(TIME, 3),
    replace(charged(0), films=(1, 0)),
    replace(charged(0), settings={"speed": 4.6, "steps": 3, "careful": True, "mode": "plain"}),
    replace(charged(0), parent=-1, hypothesis="ünïcode \u2028"),
    replace(published(0), filmed=2),
]


def again(event: Event) -> Event:
    return decode_event(json.loads(dumps(encode_event(event))))


def document(event: Event, **changes: Any) -> dict[str, Any]:
    return {**json.loads(dumps(encode_event(event))), **changes}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_event_survives_its_json(event: Event) -> None:
    """What is read is what was written, infinite bounds included."""
    assert event == again(event)


def test_every_kind_is_among_those_tried() -> None:
    """No kind of event is forgotten above."""
    assert set(KINDS.values()) == {type(event) for event in EVENTS}


@given(some.floats(allow_nan=False))
def test_numbers_survive_exactly(value: float) -> None:
    """A return is read back to the last bit, infinite ones too."""
    event = EpisodePlayed(Split.HELD_OUT, "a", 0, episode(value))

    assert event == again(event)


def test_nan_survives() -> None:
    """What is not a number stays so."""
    event = again(EpisodePlayed(Split.HELD_OUT, "a", 0, episode(math.nan)))

    assert isinstance(event, EpisodePlayed)
    assert math.isnan(event.episode.episode_return)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (document(charged(0), kind="submission_refunded"), "submission_refunded"),
        (document(charged(0), kind=None), "kind None"),
        ({"time": TIME}, "kind None"),
        (document(charged(0), note="x"), "note"),
        (document(charged(0), submit_index="first"), "submit_index"),
        (document(charged(0), env_instances=[0.5]), "env_instances.0"),
        ({"kind": "submission_charged", "time": TIME}, "submit_index"),
        (document(published(0), status="fine"), "status"),
        (document(trained(0, 0), split="test"), "split"),
        (document(trained(0, 0), episode={**document(trained(0, 0))["episode"], "score": 1}), "episode.score"),
        (document(opening(), observation_schema={"type": "Graph"}), "Graph"),
        (document(opening(), action_schema={"type": "Discrete"}), "run_opened"),
        (document(opening(), task={**document(opening())["task"], "seed": 7}), "task.seed"),
    ],
)
def test_what_is_not_known_is_refused(broken: dict[str, Any], said: str) -> None:
    """An unknown kind, an unknown field at any depth or a value of another type is refused by name."""
    with pytest.raises(RecordError, match=said):
        decode_event(broken)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, '"NaN"'),
        ([math.inf, -math.inf, 1.5], '["Inf","-Inf",1.5]'),
        ({"a": {"b": (math.inf, None, True, 3)}}, '{"a":{"b":["Inf",null,true,3]}}'),
        ({1: math.nan}, '{"1":"NaN"}'),
        ({"set": {2, 1}}, '{"set":[1,2]}'),
        ("ü\u2028", '"ü\u2028"'),
        (object, "\"<class 'object'>\""),
    ],
)
def test_json_has_words_for_what_is_not_finite(value: Any, expected: str) -> None:
    """NaN and infinities are the strings of the protocol, wherever they stand."""
    assert expected == dumps(value)


def test_json_of_numpys_values() -> None:
    """An array is a list and a scalar a number, those that are not finite too."""
    import numpy as np

    value = {"a": np.array([1.5, np.inf]), "b": np.float32(0.5), "c": np.int64(3), "d": np.bool_(1)}

    assert dumps(value) == '{"a":[1.5,"Inf"],"b":0.5,"c":3,"d":true}'
