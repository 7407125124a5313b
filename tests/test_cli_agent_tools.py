"""Each command-line tool, as it is installed, plays a whole run inside bubblewrap against a scripted model."""

import json
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.core.event import AgentEnded
from evopolicygym.records.run_document import run_document
from model_doors import REAL_KEY, VARIABLE
from scripted_conversation import converses
from scripted_model import CACHED, INPUT, OUTPUT, ScriptedModel
from tool_runs import DONE, ENOUGH, SCRIPT, found, key_in, needs, played_with
from whole_runs import Told, events

GENERATING = ("/responses", "/chat/completions", "/messages", ":generateContent", ":streamGenerateContent")


def run_by(agent: str, program: str, tmp_path: Path, url_ends: str = "") -> tuple[Told, dict[str, Any], int]:
    """Return a run that a tool has played, its document, and how many generations the model has served."""
    with ScriptedModel(converses(SCRIPT)) as model:
        told = played_with(agent, found(program) or "", model, tmp_path / "runs", url_ends)
    served = sum(asked.target.partition("?")[0].endswith(GENERATING) for asked in model.asked)
    return told, run_document(told.paths), served


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, REAL_KEY)


@pytest.mark.parametrize(
    ("agent", "program", "tells_usage"),
    [
        pytest.param("codex", "codex", True, marks=needs("codex")),
        pytest.param("claude_code", "claude", True, marks=needs("claude")),
        pytest.param("gemini", "gemini", True, marks=needs("gemini")),
        pytest.param("qwen", "qwen", True, marks=needs("qwen")),
        pytest.param("opencode", "opencode", True, marks=needs("opencode")),
    ],
)
def test_whole_run(agent: str, program: str, tmp_path: Path, *, tells_usage: bool) -> None:
    """It edits, submits, gives up, is asked to go on in its conversation, submits again; all is in the record."""
    told, document, served = run_by(agent, program, tmp_path)
    ends = [(event.end, event.message) for event in events(told.paths) if isinstance(event, AgentEnded)]
    usage, transcript = document["usage"], told.paths.transcript.read_text(encoding="utf-8")

    assert ends[0] == ("finished", ENOUGH), transcript[-2000:]
    assert len(ends) == 2
    assert [one.charged.env_instances for one in told.state.submissions] == [(0,), (1,)]
    assert (document["outcome"]["closed"], told.state.held_out() is not None) == ("budget_spent", True)
    assert DONE in transcript or "submission 1: ok" in transcript
    assert usage["requests"] - usage["generations"] + served >= usage["requests"] - usage["failed"]
    assert (usage["input"], usage["output"]) == (served * INPUT, served * OUTPUT)
    assert usage["cached_input"] == served * CACHED
    assert key_in(told) == []
    if tells_usage:
        assert document["tool_usage"]["input"] == usage["input"], json.dumps(document["tool_usage"])
        assert document["tool_usage"]["output"] == usage["output"]
