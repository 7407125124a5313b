"""How much a model is to think: what is laid out for each tool, and what the reference harness asks for.

That it comes to the model's server, by the tools as they are, is held in ``test_cli_agent_tools.py``.
"""

import itertools
import json
import tomllib
from typing import Any

import pytest

from evopolicygym.agents.builtin.claude_code import ClaudeCode
from evopolicygym.agents.builtin.codex import Codex
from evopolicygym.agents.builtin.gemini import Gemini
from evopolicygym.agents.builtin.mini_swe_agent import MiniSweAgent
from evopolicygym.agents.builtin.opencode import OpenCode
from evopolicygym.agents.builtin.qwen import Qwen
from evopolicygym.agents.kit.neutral_harness.chat_formats import Chat, Messages
from evopolicygym.agents.kit.tool import Tool, ToolTask
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.upstream import ModelAddress

ENDPOINT = ModelAddress("http://127.0.0.1:9", "dummy", ApiFormat.CHAT)
TOLD = [
    (Codex, {"model_reasoning_effort": "high"}),
    (Gemini, {"thinkingLevel": "HIGH"}),
    (Qwen, {"reasoning": {"effort": "high"}}),
    (OpenCode, {"reasoningEffort": "high"}),
]


def tables(document: Any) -> list[Any]:
    """Return a document and everything in it."""
    inner = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    return [document, *(found for one in inner for found in tables(one))]


@pytest.mark.parametrize(("tool", "told"), TOLD)
def test_effort_in_settings(tool: type[Tool], told: dict[str, Any]) -> None:
    """A tool that takes it from its settings finds it there, and nothing of it where none was asked for."""
    for effort in ("high", ""):
        ((path, text),) = tool(effort).files("m", ENDPOINT).items()
        settings = tomllib.loads(text) if path.endswith(".toml") else json.loads(text)
        found = [one for one in tables(settings) if isinstance(one, dict) and told.items() <= one.items()]

        assert len(found) == bool(effort)
        assert bool(effort) or not any(name in text for name in told)


@pytest.mark.parametrize(
    ("tool", "told"),
    [(ClaudeCode, ("--effort", "high")), (MiniSweAgent, ("-c", "model.model_kwargs.extra_body.reasoning_effort=high"))],
)
def test_effort_in_arguments(tool: type[Tool], told: tuple[str, str]) -> None:
    """A tool that takes it as an argument is given it, and only where it was asked for."""
    with_effort, without = (tuple(tool(effort).arguments(ToolTask("m", "Go on."))) for effort in ("high", ""))

    assert told in itertools.pairwise(with_effort)
    assert not any("effort" in word for word in without)


@pytest.mark.parametrize(
    ("conversation", "told"),
    [
        (Chat, {"reasoning_effort": "high"}),
        (Messages, {"output_config": {"effort": "high"}, "thinking": {"type": "adaptive"}}),
    ],
)
def test_effort_of_the_neutral_agent(conversation: type[Chat | Messages], told: dict[str, Any]) -> None:
    """The reference harness asks for it as the format has it, and for nothing more where none was."""
    bodies = []
    for effort in ("high", ""):
        talk = conversation(effort)
        talk.say("Go on.")
        bodies.append(talk.body("m"))

    assert bodies[0] == bodies[1] | told
    assert not told.keys() & bodies[1].keys()


def test_costs_that_tools_tell() -> None:
    """A cost that a tool tells is kept with its usage, and none is made up where it tells none."""
    counts = {"input_tokens": 1, "output_tokens": 2}
    result = {"type": "result", "session_id": "s", "subtype": "success", "is_error": False, "usage": counts}
    part = {"tokens": {"input": 1, "output": 2, "reasoning": 0, "cache": {"read": 0}}, "cost": 0}

    assert ClaudeCode().parse_event({**result, "total_cost_usd": 0.25}).usage["cost"] == 0.25
    assert "cost" not in ClaudeCode().parse_event(result).usage
    assert "cost" not in OpenCode().parse_event({"type": "step_finish", "part": part}).usage  # it knows no price here
