"""Each command-line tool, as it is installed, plays a whole run inside bubblewrap against a scripted model."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.agents.kit.scripted_model.conversation import Script, Shell, Step
from evopolicygym.agents.kit.scripted_model.server import CACHED, INPUT, OUTPUT, REASONING, Reply, ScriptedModel
from evopolicygym.core.agent import AgentConfig, Allowance
from evopolicygym.core.errors import AgentError
from evopolicygym.core.event import AgentEnded
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import find_runs
from evopolicygym.records.run_document import run_document
from evopolicygym.runs import turns
from model_proxies import PRICE, VARIABLE
from tool_runs import DONE, EDIT, ENOUGH, SCRIPT, found, key_in, needs, played_with
from whole_runs import Told, config, events, played

pytestmark = pytest.mark.usefixtures("real_key")


def run_by(
    agent: str, program: str, tmp_path: Path, steps: Sequence[Step] = SCRIPT
) -> tuple[Told, dict[str, Any], int]:
    """Return a run that a tool has played, its document, and how many generations the model has served."""
    with ScriptedModel(Script(steps)) as model:
        told = played_with(agent, found(program) or "", model, tmp_path / "runs")
    return told, run_document(told.paths), len(model.generations)


@pytest.mark.nightly
@pytest.mark.tools
@pytest.mark.parametrize(
    ("agent", "program", "missed", "output"),
    [
        pytest.param("codex", "codex", 0, OUTPUT, marks=needs("codex")),
        pytest.param("claude_code", "claude", 0, OUTPUT, marks=needs("claude")),
        pytest.param("gemini", "gemini", 0, OUTPUT - REASONING, marks=needs("gemini")),
        pytest.param("qwen", "qwen", 0, OUTPUT, marks=needs("qwen")),
        pytest.param("opencode", "opencode", 1, OUTPUT, marks=needs("opencode")),
        pytest.param("kimi_code", "kimi", None, 0, marks=needs("kimi")),
    ],
)
def test_whole_run(
    agent: str, program: str, missed: int | None, output: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It edits, submits, gives up, is asked to go on in its conversation, submits again; all is in the record."""
    monkeypatch.setattr(turns, "AGENT_LAST_WORDS_S", 60.0)  # it is to end by itself, having told its usage
    told, document, served = run_by(agent, program, tmp_path)
    ends = [(event.end, event.message) for event in events(told.paths) if isinstance(event, AgentEnded)]
    usage, transcript = document["usage"], told.paths.transcript.read_text(encoding="utf-8")

    assert ends[0] == ("finished", ENOUGH), transcript[-2000:]
    assert len(ends) == 2
    assert [one.charged.env_instances for one in told.state.submissions] == [(0,), (1,)]
    assert (document["outcome"]["closed"], told.state.held_out() is not None) == ("budget_spent", True)
    assert DONE in transcript or "submission 1: ok" in transcript
    assert usage["generations"] == served
    assert (usage["input"], usage["output"]) == (served * INPUT, served * OUTPUT)
    assert usage["cached_input"] == served * CACHED
    assert key_in(told) == []
    if missed is None:
        assert document["tool_usage"] is None
    else:
        assert document["tool_usage"]["input"] == (served - missed) * INPUT
        assert document["tool_usage"]["output"] == (served - missed) * output


@pytest.mark.nightly
@pytest.mark.tools
@needs("mini")
def test_whole_run_without_events(tmp_path: Path) -> None:
    """mini-SWE-agent, which takes up no conversation and tells nothing as JSON, plays its run in one turn."""
    steps = (Shell(EDIT), Shell("./judge submit 0"), Shell("./judge submit 1"), Shell("sleep 30"))
    told, document, served = run_by("mini_swe_agent", "mini", tmp_path, steps)

    assert [one.charged.env_instances for one in told.state.submissions] == [(0,), (1,)]
    assert (document["usage"]["input"], document["usage"]["output"]) == (served * INPUT, served * OUTPUT)
    assert (document["tool_usage"], told.state.held_out() is not None, key_in(told)) == (None, True, [])
    assert "submission 0: ok" in told.paths.transcript.read_text(encoding="utf-8")


def places(body: object, word: str, path: str = "") -> list[str]:
    """Return where a word stands alone in a request."""
    if isinstance(body, dict):
        return [place for name, value in body.items() for place in places(value, word, f"{path}.{name}".strip("."))]
    return [path] if isinstance(body, str) and body.lower() == word else []


@pytest.mark.nightly
@pytest.mark.tools
@pytest.mark.parametrize(
    ("agent", "program", "place"),
    [
        pytest.param("codex", "codex", "reasoning.effort", marks=needs("codex")),
        pytest.param("claude_code", "claude", "output_config.effort", marks=needs("claude")),
        pytest.param("gemini", "gemini", "generationConfig.thinkingConfig.thinkingLevel", marks=needs("gemini")),
        pytest.param("qwen", "qwen", "reasoning.effort", marks=needs("qwen")),
        pytest.param("opencode", "opencode", "reasoning_effort", marks=needs("opencode")),
        pytest.param("mini_swe_agent", "mini", "reasoning_effort", marks=needs("mini")),
    ],
)
def test_effort_reaches_the_model(agent: str, program: str, place: str, tmp_path: Path) -> None:
    """How much a model is to think comes to its server where that server looks for it, by each tool as it is."""
    with ScriptedModel(Script((Shell("./judge submit 0"), Shell("sleep 30")))) as model:
        played_with(agent, found(program) or "", model, tmp_path / "runs", budget=1, effort="low")
    asked = [places(one.body, "low") for one in model.generations]

    assert [place] in asked, asked


@pytest.mark.nightly
@pytest.mark.tools
@needs("codex")
@pytest.mark.parametrize("level", ["process", "none"])
def test_weaker_levels(level: str, tmp_path: Path) -> None:
    """Codex plays its run at the levels that hide nothing, too, with its home in the record and no key in it."""
    with ScriptedModel(Script(SCRIPT)) as model:
        told = played_with("codex", found("codex") or "", model, tmp_path / "runs", level)

    assert (told.state.opened.isolation, len(told.state.submissions)) == (level, 2)
    assert (told.state.held_out() is not None, key_in(told)) == (True, [])
    assert (told.paths.root / "home" / ".codex" / "config.toml").is_file()


def stream_of(*documents: dict[str, Any]) -> bytes:
    """Return a stream of events."""
    return b"".join(f"event: {item['type']}\ndata: {json.dumps(item)}\n\n".encode() for item in documents)


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
FAILED = {
    "type": "response.failed",
    "response": {"status": "failed", "error": {"code": "server_error", "message": "No"}},
}
CUT = {"type": "error", "error": {"code": 502, "message": "Provider failed"}}
INSIDE = {"codex": stream_of(FAILED), "claude_code": stream_of(OVERLOADED), "opencode": stream_of(CUT)}
LONG = {
    "codex": "Your input exceeds the context window of this model.",
    "claude_code": "prompt is too long: 210000 tokens > 200000 maximum",
    "opencode": "This model's maximum context length is 8192 tokens.",
}


@pytest.mark.nightly
@pytest.mark.tools
@pytest.mark.parametrize(
    "agent",
    [
        pytest.param("codex", marks=needs("codex")),
        pytest.param("claude_code", marks=needs("claude")),
        pytest.param("opencode", marks=needs("opencode")),
    ],
)
@pytest.mark.parametrize("situation", ["inside", "no credit", "context"])
def test_a_model_server_that_fails(agent: str, situation: str, tmp_path: Path) -> None:
    """A real tool before a server that fails inside its stream, has no money or no room: paused, or said as such.

    Nothing is charged that wasn't used, and a limit of cost is not touched.
    """
    replies = {
        "inside": Reply(raw=INSIDE[agent]),
        "no credit": Reply("Insufficient credits", 402),
        "context": Reply(LONG[agent], 500),
    }
    program = {"claude_code": "claude"}.get(agent, agent)
    options = {"program": found(program) or "", "model_url": "", "model_key": VARIABLE, "max_turns": 2}
    with ScriptedModel() as model:
        model.replies = [replies[situation]] * 200
        options["model_url"] = model.url
        asked = config(tmp_path / "runs", budget=2, isolation="bubblewrap")
        who = AgentConfig(agent, "scripted", options, allowance=Allowance(cost=5000.0))
        with suppress(AgentError):
            played(replace(asked, agent=who, price=PRICE))
        (root,) = find_runs(tmp_path / "runs")
    paths = RunPaths(root)
    ends = [event.end for event in events(paths) if isinstance(event, AgentEnded)]
    usage = run_document(paths)["usage"]
    expected = {"inside": ["unavailable"], "no credit": ["limited"], "context": ["context_exceeded"] * 2}

    assert (ends, usage["cost"]) == (expected[situation], 0.0)
    if (agent, situation) != ("claude_code", "inside"):  # it asks again without a stream, and events are no JSON
        assert usage["assumed_cost"] == 0.0
