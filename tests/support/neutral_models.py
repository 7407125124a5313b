"""Models for the agent ``neutral`` that call its tool, in both formats, and turns that are played with them.

The server that says their words is in ``agents/kit/scripted_model/``.
"""

import json
from dataclasses import replace
from threading import Event
from typing import Any

from enclosed import desk
from evopolicygym.agents.base import make
from evopolicygym.agents.kit.scripted_model.server import CACHED, INPUT, OUTPUT, REASONING, Json, Reply, ScriptedModel
from evopolicygym.core.agent import AgentConfig, Turn
from evopolicygym.model_proxy.formats import ApiFormat
from fakes import OpenRun
from model_proxies import VARIABLE


def calling(wire: ApiFormat, *commands: str) -> Reply:
    """Return an answer that calls bash so often."""
    return raw_calling(wire, *(json.dumps({"command": command}) for command in commands))


def raw_calling(wire: ApiFormat, *arguments: str, name: str = "bash") -> Reply:
    """Return an answer that calls a tool with arguments as they stand, which Messages must have as JSON."""
    if wire is ApiFormat.CHAT:
        calls = [
            {"id": f"call_{place}", "type": "function", "function": {"name": name, "arguments": one}}
            for place, one in enumerate(arguments)
        ]
        message: Json = {"role": "assistant", "content": None, "refusal": None, "tool_calls": calls}
        usage: Json = {
            "prompt_tokens": INPUT,
            "prompt_tokens_details": {"cached_tokens": CACHED},
            "completion_tokens": OUTPUT,
            "completion_tokens_details": {"reasoning_tokens": REASONING},
        }
        document: Json = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}], "usage": usage}
    else:
        blocks: list[Json] = [{"type": "thinking", "thinking": "Hm.", "signature": "signed"}]
        blocks += [
            {"type": "tool_use", "id": f"toolu_{place}", "name": name, "input": json.loads(one)}
            for place, one in enumerate(arguments)
        ]
        usage = {"input_tokens": INPUT - CACHED, "cache_read_input_tokens": CACHED, "output_tokens": OUTPUT}
        document = {"type": "message", "role": "assistant", "content": blocks, "stop_reason": "tool_use"}
        document["usage"] = usage
    return Reply(raw=json.dumps(document).encode())


def agent(model: ScriptedModel, wire: ApiFormat = ApiFormat.CHAT) -> AgentConfig:
    """Return the agent that asks this model; the key must stand in its variable."""
    base = model.url + ("/v1" if wire is ApiFormat.CHAT else "")
    options = {"model_url": base, "model_key": VARIABLE, "model_wire": wire.value}
    return AgentConfig("neutral", "scripted", options)


def turn(
    run: OpenRun,
    model: ScriptedModel,
    *replies: Reply,
    wire: ApiFormat = ApiFormat.CHAT,
    stop: Event | None = None,
    level: str = "bubblewrap",
) -> Turn:
    """Play one turn with a model that answers so."""
    model.replies += replies
    return make(agent(model, wire)).play(replace(desk(run), isolation=level), run.door, stop or Event())


def told(model: ScriptedModel) -> list[str]:
    """Return what the model was told of its calls, in their order, as its last request has it."""
    found = []
    for message in model.asked[-1].body["messages"]:
        if message["role"] == "tool":
            found.append(message["content"])
        elif isinstance(message["content"], list):
            found += [block["content"] for block in message["content"] if block["type"] == "tool_result"]
    return found


def transcript(run: OpenRun) -> list[dict[str, Any]]:
    """Return the transcript's lines."""
    return [json.loads(line) for line in run.paths.transcript.read_text(encoding="utf-8").splitlines()]
