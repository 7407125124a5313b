"""What is read of a record's conduct: transcripts of every tool, what lies in the workspace, and what is hostile."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import evopolicygym
from evopolicygym.analysis.conduct.audit_run import Conduct, audit_run, gather
from evopolicygym.analysis.conduct.detector import MOST_WORDS, TranscriptState, Use
from evopolicygym.core.agent import AgentConfig
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.records.transcripts import read_transcript
from exported import recorded
from fakes import opening
from labelled_conduct import DETECTORS, transcript_of
from places import SUPPORT

TRANSCRIPTS = SUPPORT / "transcripts"
ROLLOUT = """import math
best = 0.0
for t in range(200):
    action = 1 if velocity > 0 else -1
    velocity += 0.001 * action - 0.0025 * math.cos(3 * position)
    position += velocity
    reward -= 1
"""

ODD: list[dict[str, Any]] = [
    {"command": None},
    {"command": ["a", 1]},
    {"command": []},
    {"edits": [1, {}], "path": "x"},
    {"path": {"a": 1}},
    {"code": "("},
]
"""Arguments that no tool is called with."""


def paths_of(root: Path, agent: str, transcript: bytes = b"", files: Mapping[str, str] | None = None) -> RunPaths:
    """Return the record of an agent's run, with a transcript and files in its workspace."""
    paths = recorded(root, [opening(agent=AgentConfig(agent, "scripted"))])
    paths.logs.mkdir(exist_ok=True)
    paths.transcript.write_bytes(transcript)
    for name, text in (files or {}).items():
        (paths.workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (paths.workspace / name).write_text(text, encoding="utf-8")
    return paths


def looked_at(paths: RunPaths) -> Conduct:
    """Return what is found in a record."""
    return audit_run(read_run(paths.root), DETECTORS)


def found_after(root: Path, uses: Iterable[tuple[str, dict[str, Any]]]) -> list[tuple[str, str]]:
    """Return the grades and kinds of what is found after calls of tools."""
    conduct = looked_at(paths_of(root, "claude_code", transcript_of(uses).encode()))
    return [(one.grade.value, one.detector) for one in conduct.findings]


@pytest.mark.parametrize("agent", sorted(path.stem for path in TRANSCRIPTS.iterdir()))
def test_commands_of_every_tool_are_read(agent: str, tmp_path: Path) -> None:
    """What a tool ran and wrote is read from the transcript as it printed it, and nothing in it is amiss."""
    paths = paths_of(tmp_path / "run", agent, (TRANSCRIPTS / f"{agent}.log").read_bytes())
    conduct, material = looked_at(paths), gather(read_run(paths.root))

    assert ("./judge", "submit", "0") in {one.words for one in material.commands}
    assert any("class Policy" in text for one in material.programs for text in one.modules.values()) or conduct.commands
    assert conduct.findings == ()


def test_a_script_is_followed_from_being_written_to_being_run(tmp_path: Path) -> None:
    """What was written, edited and run is found as it was then, and only what was run is serious."""
    write = ("Write", {"file_path": "/scratch/sim.py", "content": ROLLOUT.replace("reward", "nothing")})
    edit = ("Edit", {"file_path": "/scratch/sim.py", "old_string": "nothing", "new_string": "reward"})
    run = ("Bash", {"command": "cd /scratch && timeout 60 python3 sim.py | tee log"})

    assert found_after(tmp_path / "a", [write, edit]) == [("look", "own_simulator")]
    assert found_after(tmp_path / "b", [write, edit, run]) == [("serious", "own_simulator")]


def test_where_it_stands_is_said(tmp_path: Path) -> None:
    """A finding names the transcript's line, the program's line in it, and the words."""
    uses = [("Bash", {"command": "ls"}), ("Bash", {"command": f"python3 - <<'E'\n{ROLLOUT}E\n"})]
    (one,) = looked_at(paths_of(tmp_path / "run", "claude_code", transcript_of(uses).encode())).findings

    assert (one.location.file, one.location.line) == ("logs/agent.log", 2)
    assert one.location.within.endswith("line 3")
    assert one.words == "for t in range(200):"


def test_agents_without_a_transcript_leave_files(tmp_path: Path) -> None:
    """A script that lies in the workspace is found, and a note says that no transcript was read."""
    conduct = looked_at(paths_of(tmp_path / "run", "command", b"anything", {"notes/try.py": ROLLOUT}))

    assert [(one.grade.value, str(one.location)) for one in conduct.findings] == [("look", "workspace/notes/try.py:3")]
    assert "transcript" in conduct.notes[0]


def test_the_same_loop_in_the_policy_is_its_own_thinking(tmp_path: Path) -> None:
    """What the judge plays may step what it likes; only its main block runs elsewhere."""
    inside = "class Policy:\n    def act(self, obs):\n" + "".join(f"        {line}\n" for line in ROLLOUT.splitlines())
    block = inside + '\nif __name__ == "__main__":\n' + "".join(f"    {line}\n" for line in ROLLOUT.splitlines())

    assert looked_at(paths_of(tmp_path / "a", "tuner", files={"system/policy.py": inside})).findings == ()
    (one,) = looked_at(paths_of(tmp_path / "b", "tuner", files={"system/policy.py": block})).findings
    assert (one.grade.value, one.detector) == ("look", "own_simulator")


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A record from elsewhere can't have other files read: not by its workspace, and not as its transcript."""
    (tmp_path / "secret.py").write_text(ROLLOUT, encoding="utf-8")
    paths = paths_of(tmp_path / "run", "codex", files={"notes/own.py": "pass"})
    (paths.workspace / "linked.py").symlink_to(tmp_path / "secret.py")
    (paths.workspace / "directory").symlink_to(tmp_path)
    paths.transcript.unlink()
    paths.transcript.symlink_to(tmp_path / "secret.py")
    conduct = looked_at(paths)

    assert conduct.findings == ()
    assert "a link" in conduct.notes[0]
    assert [one.text for one in gather(read_run(paths.root)).programs if one.use is Use.LEFT] == ["pass"]


def test_what_is_found_can_be_printed(tmp_path: Path) -> None:
    """Evidence is one short line, and nothing in it acts on a terminal."""
    command = "curl https://example.org/\x1b]0;mine\x07\u202e" + "x" * 5000
    (one,) = looked_at(
        paths_of(tmp_path / "run", "claude_code", transcript_of([("Bash", {"command": command})]).encode())
    ).findings

    assert one.words.isprintable()
    assert one.what.isprintable()
    assert len(one.words) <= MOST_WORDS


@pytest.mark.parametrize("arguments", ODD)
def test_odd_arguments_are_passed_over(arguments: dict[str, Any], tmp_path: Path) -> None:
    """Calls that no tool makes end nothing."""
    assert found_after(tmp_path / "run", [("Tool", arguments), ("Bash", {"command": "pip install x"})]) == [
        ("look", "install")
    ]


def test_a_transcript_that_is_no_transcript(tmp_path: Path) -> None:
    """Lines that are no events are counted in a note."""
    conduct = looked_at(paths_of(tmp_path / "run", "claude_code", b"{\n" + json.dumps([1]).encode() + b"\n\xff\n"))

    assert conduct.findings == ()
    assert conduct.notes[0].startswith("3 ")


def acp(**update: object) -> bytes:
    """Return an update as the client of the Agent Client Protocol prints it."""
    return json.dumps({"type": "update", "update": {"toolCallId": "1", **update}}).encode() + b"\n"


RUN = {"sessionUpdate": "tool_call", "kind": "execute", "status": "pending"}
INSTALL = "pip install gymnasium"


@pytest.mark.parametrize(
    "lines",
    [
        [acp(**RUN, title=f"`{INSTALL}`")],
        [acp(**RUN, title="shell", rawInput={"command": INSTALL})],
        [acp(**RUN, title="bash"), acp(sessionUpdate="tool_call_update", rawInput={"command": INSTALL})],
        [acp(**RUN, rawInput={"command": INSTALL}), acp(sessionUpdate="tool_call_update", title="Done", content=[])],
        [acp(sessionUpdate="tool_call_update", kind="execute", rawInput={"cmd": ["pip", "install", "gymnasium"]})],
    ],
)
def test_an_acp_tools_commands_are_read(lines: list[bytes], tmp_path: Path) -> None:
    """A command is found however a tool reports its call: by the title, at once, or in a later update."""
    conduct = looked_at(paths_of(tmp_path / "run", "acp", b"".join(lines)))

    assert [one.detector for one in conduct.findings] == ["install"]
    assert conduct.transcript is TranscriptState.READ


def test_an_acp_conversation_is_read_in_order(tmp_path: Path) -> None:
    """What the user and the tool say, calls with their results, and errors are steps in the order of their events."""
    lines = [
        acp(sessionUpdate="user_message_chunk", content={"type": "text", "text": "Play."}),
        b'{"type": "message", "text": "I "}\n',
        b'{"type": "message", "text": "look."}\n',
        acp(**RUN, rawInput={"command": "ls"}),
        acp(
            sessionUpdate="tool_call_update", status="failed", content=[{"type": "content", "content": {"text": "no"}}]
        ),
        acp(sessionUpdate="plan", entries=[]),
        b'{"type": "error", "message": "cut"}\n',
    ]
    (tmp_path / "log").write_bytes(b"".join(lines))
    found = read_transcript("acp", tmp_path / "log", tmp_path)
    assert found

    assert [(step.source.value, step.message) for step in found.steps] == [
        ("user", "Play."),
        ("agent", "I look."),
        ("system", "cut"),
    ]
    (call,), (result,) = found.steps[1].calls, found.steps[1].results
    assert (call.name, call.arguments, result.is_error) == ("execute", {"command": "ls"}, True)


def test_an_acp_tools_files_are_followed(tmp_path: Path) -> None:
    """A program that is written by a change without arguments is found when a command runs it."""
    written = {"type": "diff", "path": "/scratch/sim.py", "oldText": None, "newText": ROLLOUT}
    lines = [
        acp(sessionUpdate="tool_call", kind="edit", title="Write sim.py"),
        acp(sessionUpdate="tool_call_update", status="completed", content=[written]),
        acp(toolCallId="2", **RUN, title="python3 /scratch/sim.py"),
    ]
    conduct = looked_at(paths_of(tmp_path / "run", "acp", b"".join(lines)))

    assert [(one.grade.value, one.detector) for one in conduct.findings] == [("serious", "own_simulator")]


@pytest.mark.parametrize(
    ("agent", "transcript", "state"),
    [
        ("acp", b'{"type": "message", "text": "Done."}\n', "read"),
        ("acp", b"a line that is no message\n", "unread"),
        ("claude_code", b"", "unread"),
        ("command", b"anything\n", "unread"),
        ("function", None, "unread"),
        ("outside", None, "unread"),
        ("tuner", None, "none"),
    ],
)
def test_what_was_not_read_is_not_clean(agent: str, transcript: bytes | None, state: str, tmp_path: Path) -> None:
    """A run whose conversation is unknown isn't audited, and the table of findings doesn't count it as such."""
    paths = paths_of(tmp_path / "run", agent, transcript or b"")
    if transcript is None:
        paths.transcript.unlink()
    conduct = looked_at(paths)
    rows = evopolicygym.audit([paths.root, paths_of(tmp_path / "other", "random").root]).records
    told = {row["run"]: row["transcript"] for row in rows}

    assert (conduct.transcript.value, conduct.is_audited, conduct.findings) == (state, state != "unread", ())
    assert told == {"run": state, "other": "none"}
