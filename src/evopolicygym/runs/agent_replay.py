"""Plays a run's model again: sends it what it was asked, and compares every answer."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from evopolicygym.agents.base import is_built_in, make
from evopolicygym.agents.kit.model_options import CACHE, MODEL_OPTIONS, SAMPLING
from evopolicygym.agents.kit.model_requests import YES
from evopolicygym.core import regular_file
from evopolicygym.core.agent import AgentConfig, ComparedAnswer, ModelAgent, ReplayableAgent
from evopolicygym.core.errors import AgentError, EvoPolicyGymError, UsageError
from evopolicygym.core.text import counted
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.rollback_guard import has_mark

ASKED_OF_SERVER = ("server", "file", "digest", "quantization", "context", "slots", "build")
"""What a server tells that may change its answers."""
KEPT = (*MODEL_OPTIONS, *SAMPLING, CACHE, "actions")
"""The options of an agent that its requests depend on."""
SHOWN = 60
"""Characters of an answer that are shown from the first difference on."""


@dataclass(frozen=True, slots=True)
class AgentReplayOptions:
    """The server that is asked again; by default the recorded one, if the run was played here."""

    model_url: str = ""
    model_key: str = ""
    """The environment variable with its key."""


def replay_agent(
    record: RunRecord,
    options: AgentReplayOptions,
    watch: Callable[[Iterable[ComparedAnswer], int], Iterable[ComparedAnswer]],
) -> tuple[bool, str]:
    """Return whether a model gives every recorded answer again, and a sentence with the first difference.

    A run whose agent can't be played again, and a server that fails, are differences too.
    """
    opened = record.state.opened
    try:
        agent = make(_config(record, options)) if is_built_in(opened.agent.name) else None
    except EvoPolicyGymError as error:
        return False, str(error)
    if not isinstance(agent, ReplayableAgent):
        return False, f"not played again: the agent {opened.agent.name!r} keeps no requests of its own"
    lines = list(_lines(record))
    total = sum(line.get("role") == "assistant" for line in lines)
    if not total:
        return False, f"not played again: no answer of the model is recorded in {record.paths.transcript.name}"
    try:
        compared = list(watch(agent.compare_answers(lines, opened.model_details), total))
    except (UsageError, AgentError) as error:
        return False, str(error)
    different = [index for index, answer in enumerate(compared) if not answer.is_same]
    if not different:
        digest = sha256(json.dumps([answer.again for answer in compared]).encode()).hexdigest()
        return True, f"{counted(len(compared), 'answer')} the same, byte for byte; SHA-256 of all {digest[:12]}…"
    first = different[0]
    why = [_difference(compared[first], first + 1, len(compared)), f"{len(different)} differ in all"]
    stated = opened.model_details.get("replayable", "no: nothing is recorded of its server")
    why += [f"replayable when it was played: {stated}"] * (stated != YES)
    why += _changes(opened.model_details, agent.model_details() if isinstance(agent, ModelAgent) else {})
    return False, "; ".join(why)


def _config(record: RunRecord, options: AgentReplayOptions) -> AgentConfig:
    """Return the agent with the server that is asked; raise ``UsageError`` if only a record from elsewhere names one.

    Such a record could name any address, and any variable of the environment as its key.
    """
    recorded = record.state.opened.agent
    if not (options.model_url or has_mark(record.paths.root)):
        raise UsageError("Missing model_url (--model-url): the run was not played here, and its record could name any.")
    chosen = {name: value for name, value in recorded.options.items() if name in KEPT}
    if options.model_url:
        chosen |= {"model_url": options.model_url, "model_key": options.model_key}
    elif options.model_key:
        chosen["model_key"] = options.model_key
    return AgentConfig(recorded.name, recorded.model, chosen, effort=recorded.effort)


def _lines(record: RunRecord) -> Iterator[Mapping[str, Any]]:
    try:
        with regular_file.reader(record.paths.transcript, record.paths.root) as file:
            for line in file:
                try:
                    document = json.loads(line)
                except ValueError:
                    continue
                if isinstance(document, dict):
                    yield document
    except OSError:
        return


def _difference(answer: ComparedAnswer, number: int, total: int) -> str:
    pairs = zip(answer.recorded, answer.again, strict=False)
    shorter = min(len(answer.recorded), len(answer.again))
    position = next((position for position, (then, now) in enumerate(pairs) if then != now), shorter)
    then, now = (text[position : position + SHOWN] for text in (answer.recorded, answer.again))
    return f"answer {number} of {total} differs from character {position + 1} on: recorded {then!r}, now {now!r}"


def _changes(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return what the server tells otherwise than when the run was opened."""
    changed = [name for name in ASKED_OF_SERVER if then.get(name, "") != now.get(name, "")]
    return [f"{name} was {then.get(name) or 'unknown'}, is {now.get(name) or 'unknown'}" for name in changed]
