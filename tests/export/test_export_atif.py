"""What agents said and did, as ATIF: every tool's transcript becomes a trajectory that keeps the format's rules.

The transcripts of `tests/support/transcripts/` are what the tools printed, as they are, with a scripted model.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from atif_rules import TrajectoryRules
from evopolicygym.agents.base import AGENTS
from evopolicygym.core.agent import AgentConfig
from evopolicygym.export.exporters import ExportResult, export
from evopolicygym.records.transcripts import READERS, UNREADABLE
from exported import recorded
from fakes import opening, submitted
from made_up import opened
from places import ROOT, SUPPORT
from shell import Shell

pytestmark = pytest.mark.made_up

HARBOR = ROOT / ".harbor" / "bin" / "python"
TRANSCRIPTS = SUPPORT / "transcripts"
TOLD = sorted(path.stem for path in TRANSCRIPTS.iterdir())
FIRST, SECOND = "One submission may be enough.", "Nothing is left."


def run_of(place: Path, agent: str, transcript: bytes | None = None) -> Path:
    """Return a run by an agent, with a transcript in its record."""
    name = f"run-of-{agent}"
    opened = opening(run_id=name, agent=AgentConfig(agent, "scripted", label=f"my {agent}"))
    paths = recorded(place / "runs" / name, [opened, *submitted(0, [1.0, 3.0])])
    if transcript is not None:
        paths.logs.mkdir()
        paths.transcript.write_bytes(transcript)
    return paths.root


def exported(root: Path, place: Path) -> tuple[ExportResult, dict[str, Any]]:
    """Return what an export says, and the one trajectory that it has written, which keeps the rules."""
    result = export("atif", opened(root), place / "out")
    (one,) = result.written
    text = one.path.read_text(encoding="utf-8")
    TrajectoryRules.model_validate_json(text)
    trajectory: dict[str, Any] = json.loads(text)
    assert one.rows == len(trajectory["steps"])
    return result, trajectory


@pytest.mark.parametrize("agent", TOLD)
def test_a_tool_becomes_a_trajectory(agent: str, tmp_path: Path) -> None:
    """Each of its calls stands with what came of it, and each of its answers, in order."""
    _, found = exported(run_of(tmp_path, agent, (TRANSCRIPTS / f"{agent}.log").read_bytes()), tmp_path)
    acting = [one for one in found["steps"] if one["source"] == "agent"]
    calls = [call for one in acting for call in one.get("tool_calls", ())]
    results = [result for one in acting for result in one.get("observation", {"results": []})["results"]]
    commands = [call["arguments"]["command"] for call in calls]

    assert len(calls) == len(results) == 3
    assert [one["source_call_id"] for one in results] == [one["tool_call_id"] for one in calls]
    assert len({one["tool_call_id"] for one in calls}) == 3
    assert "cat > system/policy.py" in commands[0]
    assert ["./judge submit 0" in commands[1], "./judge submit 1" in commands[2]] == [True, True]
    assert ["submission 0: ok" in results[1]["content"], "submission 1: ok" in results[2]["content"]] == [True, True]
    said = [one["message"] for one in acting if one["message"]]
    assert said == ([FIRST] if agent == "neutral" else [FIRST, SECOND])  # whose run is over with the budget


@pytest.mark.parametrize(
    ("agent", "version", "tokens", "times"),
    [
        ("claude_code", "2.1.330", {"prompt_tokens": 1000, "cached_tokens": 400}, "there"),
        ("codex", "unknown", None, ""),
        ("gemini", "unknown", None, "there"),
        ("kimi_code", "2.1.0", None, ""),
        ("opencode", "unknown", {"prompt_tokens": 1000, "cached_tokens": 400, "completion_tokens": 50}, "there"),
        ("qwen", "0.24.4", {"prompt_tokens": 1000, "cached_tokens": 400, "completion_tokens": 50}, ""),
    ],
)
def test_what_a_tool_tells_besides(
    agent: str, version: str, tokens: dict[str, int] | None, times: str, tmp_path: Path
) -> None:
    """Its version, its tokens by step and its times are there where it tells them, and nowhere else."""
    _, found = exported(run_of(tmp_path, agent, (TRANSCRIPTS / f"{agent}.log").read_bytes()), tmp_path)
    acting = [one for one in found["steps"] if one["source"] == "agent"]

    assert found["agent"] == {
        "name": agent, "version": version, "model_name": "scripted", "extra": {"label": f"my {agent}"}
    }  # fmt: skip
    assert [one.get("metrics") for one in acting] == [tokens] * len(acting)
    assert ["timestamp" in one for one in acting] == [times == "there"] * len(acting)


def test_the_run_stands_beside_the_conversation(tmp_path: Path) -> None:
    """The trajectory is named by the run, and holds its task, budget and submissions."""
    result, found = exported(run_of(tmp_path, "codex", (TRANSCRIPTS / "codex.log").read_bytes()), tmp_path)
    run = found["extra"]["evopolicygym"]

    assert found["session_id"] == found["trajectory_id"] == run["run_id"] == "run-of-codex"
    assert [one.path.name for one in result.written] == ["run-of-codex.trajectory.json"]
    assert [(one["submission"], one["train_mean"]) for one in run["submissions"]] == [(0, 2.0)]
    assert found["final_metrics"]["total_steps"] == len(found["steps"])


@pytest.mark.nightly
@pytest.mark.skipif(
    not HARBOR.is_file(), reason="Harbor isn't installed; `make harbor` does so, with Python 3.12 or newer"
)
def test_harbor_itself_takes_them(tmp_path: Path) -> None:
    """Its own validator finds nothing amiss in the trajectory of any tool."""
    for agent in TOLD:
        root = run_of(tmp_path / agent, agent, (TRANSCRIPTS / f"{agent}.log").read_bytes())
        (one,) = export("atif", opened(root), tmp_path / "out" / agent).written
        line = [str(HARBOR), "-m", "harbor.utils.trajectory_validator", str(one.path)]
        done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)

        assert done.returncode == 0, done.stdout + done.stderr


def test_an_optimiser_becomes_a_trajectory(tmp_path: Path) -> None:
    """What the judge played for it stands as a call with its returns, and what its library said as the system's."""
    lines = [
        {"role": "user", "text": "Improve it."},
        {"role": "assistant", "text": "class Policy: ..."},
        {"role": "judge", "cases": [0, 1], "returns": [1.0, 2.0], "status": "ok", "remaining": 6},
        {"role": "library", "text": "Iteration 1"},
    ]
    text = "".join(json.dumps({"time": "2026-11-23T12:00:00.000Z", **line}) + "\n" for line in lines)
    _, found = exported(run_of(tmp_path, "gepa", text.encode()), tmp_path)
    said, answered, library = found["steps"]

    assert [one["source"] for one in found["steps"]] == ["user", "agent", "system"]
    assert (said["message"], answered["message"], library["message"]) == (
        "Improve it.", "class Policy: ...", "Iteration 1"
    )  # fmt: skip
    assert [one["function_name"] for one in answered["tool_calls"]] == ["evaluate"]
    assert json.loads(answered["observation"]["results"][0]["content"])["returns"] == [1.0, 2.0]


def test_a_tool_of_the_protocol_is_told_whole(tmp_path: Path) -> None:
    """Its client tells the prompt, the thoughts and the times, which the conversation has then."""
    update = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "ls", "kind": "execute", "status": "completed"}
    lines = [
        {"type": "session", "id": "s", "loads": True},
        {"type": "prompt", "text": "Improve it."},
        {"type": "thought", "text": "It leans."},
        {"type": "message", "text": "I look."},
        {"type": "update", "update": update},
    ]
    text = "".join(json.dumps({"time": "2026-11-23T12:00:00.000+00:00", **line}) + "\n" for line in lines)
    _, found = exported(run_of(tmp_path, "acp", text.encode()), tmp_path)
    asked, answered = found["steps"]

    assert (asked["source"], asked["message"]) == ("user", "Improve it.")
    assert (answered["reasoning_content"], answered["message"]) == ("It leans.", "I look.")
    assert [call["arguments"] for call in answered["tool_calls"]] == [{"command": "ls"}]
    assert {step["timestamp"] for step in found["steps"]} == {"2026-11-23T12:00:00+00:00"}


def test_submissions_have_their_steps(tmp_path: Path) -> None:
    """A trajectory says which steps led to each submission."""
    root = run_of(tmp_path, "codex", (TRANSCRIPTS / "codex.log").read_bytes())
    _, found = exported(root, tmp_path)
    (submission,) = found["extra"]["evopolicygym"]["submissions"]
    last = found["steps"][submission["last_step"] - 1]

    assert submission["first_step"] == 1
    assert "submission 0: ok" in last["observation"]["results"][-1]["content"]


@pytest.mark.parametrize("agent", sorted(set(TOLD) - {"acp"}))  # whose transcript is of an older client
def test_the_page_says_what_is_left_out(agent: str, tmp_path: Path) -> None:
    """docs/use/data.md names what a tool's trajectory lacks, and nothing that it has."""
    _, found = exported(run_of(tmp_path, agent, (TRANSCRIPTS / f"{agent}.log").read_bytes()), tmp_path)
    page = (ROOT / "docs" / "use" / "data.md").read_text(encoding="utf-8")
    (left_out,) = (line.split("|")[3] for line in page.splitlines() if line.startswith("| ") and f"`{agent}`" in line)
    acting = [step for step in found["steps"] if step["source"] == "agent"]
    lacks = {
        "times": not all("timestamp" in step for step in acting),
        "tokens of a step": not all("completion_tokens" in step.get("metrics", {}) for step in acting),
        "its own prompts": not any(step["source"] == "user" for step in found["steps"]),
    }

    assert {what for what, is_lacking in lacks.items() if is_lacking} == {what for what in lacks if what in left_out}


def test_every_agent_has_a_reader_or_a_reason() -> None:
    """Of each agent that ships it is said how its transcript is read, or why it isn't."""
    assert READERS.keys() | UNREADABLE.keys() >= set(AGENTS.names())
    assert READERS.keys() & UNREADABLE.keys() == set()
    assert set(TOLD) < READERS.keys()


@pytest.mark.parametrize("agent", sorted(UNREADABLE))
def test_agents_without_a_reader_are_left_out(agent: str, tmp_path: Path) -> None:
    """A note says why, and nothing is written."""
    result = export("atif", opened(run_of(tmp_path, agent, b"some words\n")), tmp_path / "out")

    assert result.written == []
    assert [("run-of-" + agent in note, UNREADABLE[agent] in note) for note in result.notes] == [(True, True)]


def test_a_run_without_a_transcript_is_left_out(tmp_path: Path) -> None:
    """As where somebody sent the record without its logs."""
    result = export("atif", opened(run_of(tmp_path, "codex")), tmp_path / "out")

    assert result.written == []
    assert ["run-of-codex" in note for note in result.notes] == [True]


@pytest.mark.parametrize("agent", TOLD)
def test_what_is_no_event_is_left_out(agent: str, tmp_path: Path) -> None:
    """Lines that an agent's program printed besides, whatever they hold, cost no step and are counted."""
    whole = (TRANSCRIPTS / f"{agent}.log").read_bytes()
    _, before = exported(run_of(tmp_path / "before", agent, whole), tmp_path / "before")
    odd = [
        b'{"type": "assistant"}', b"[" * 100_000, b'{"type": NaN}', b"\xff\xfe", b"null", b"[1, 2]", b'"text"', b"7",
        b'{"type": ["item.completed"], "role": {"tool": 1}}', b'{"role": "tool", "tool_call_id": [], "content": {}}',
    ]  # fmt: skip
    result, after = exported(run_of(tmp_path / "after", agent, whole + b"\n".join(odd)), tmp_path / "after")

    assert after["steps"][: len(before["steps"])][:-1] == before["steps"][:-1]
    assert "transcript" in result.notes[0]


def test_a_transcript_that_is_a_link_is_refused(tmp_path: Path, shell: Shell) -> None:
    """A record from elsewhere can't have another file read."""
    root = run_of(tmp_path, "codex")
    (root / "logs").mkdir()
    (root / "logs" / "agent.log").symlink_to(TRANSCRIPTS / "codex.log")
    left = shell("export", "atif", root, "-o", tmp_path / "out")

    assert left.code == 3
    assert "agent.log" in left.err


def test_the_command_writes_it(tmp_path: Path, shell: Shell) -> None:
    """`export atif` says what it has written and what it has left out."""
    first = run_of(tmp_path, "claude_code", (TRANSCRIPTS / "claude_code.log").read_bytes())
    shutil.copytree(run_of(tmp_path / "other", "tuner"), tmp_path / "runs" / "tuner")
    left = shell("export", "atif", first.parent, "-o", tmp_path / "out")

    assert left.code == 0, left.err
    assert "run-of-claude_code.trajectory.json" in left.out
    assert ["run-of-tuner" in line for line in left.err.splitlines() if UNREADABLE["tuner"] in line] == [True]
