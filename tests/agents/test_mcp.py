"""The judge as an MCP server, over stdio, as the protocol's own client library meets it."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from libraries import needs_library
from players import GOOD
from served import BEGIN, served
from shell import Shell

pytestmark = needs_library("mcp")


def asked(workspace: Path, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """Return what the tools answer, one after another, to a client that starts the server for them."""
    from mcp import Client, StdioServerParameters

    async def ask() -> list[Any]:
        words = ["-m", "evopolicygym", "mcp", str(workspace), "--runs", str(workspace.parent / "runs")]
        server = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
        async with Client(server) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(ask())


def text(answer: Any) -> str:
    """Return the text of a tool's answer."""
    return str(answer.content[0].text)


@pytest.mark.nightly
def test_a_client_plays_a_whole_run_and_outlives_a_crash(tmp_path: Path) -> None:
    """Both the judge and the server are killed once; the resumed run goes on with the exact budget."""
    work = tmp_path / "work"
    with served(tmp_path, *BEGIN, "--workspace", str(work)) as first:
        assert first.workspace == work
        task, info = asked(work, ("task", {}), ("info", {}))
        (work / "system" / "policy.py").write_text(GOOD, encoding="utf-8")
        check, submitted = asked(work, ("check", {}), ("submit", {"cases": "0-1", "key": "mine"}))
        first.kill()
    (gone,) = asked(work, ("submit", {"cases": "0-1"}))
    with served(tmp_path, "--resume", "latest") as second:
        assert second.workspace == work
        (work / "system" / "policy.py").write_text("raise ValueError\n", encoding="utf-8")
        again, wrong, restored, feedback, last = asked(
            work,
            ("submit", {"cases": "0-1", "key": "mine"}),
            ("check", {}),
            ("restore", {"submission": 0}),
            ("feedback", {"submission": 0}),
            ("submit", {"cases": "2-5"}),
        )
        document = second.ended()

    assert text(task).startswith("# ")
    assert json.loads(text(info))["workspace"] == str(work)
    assert json.loads(text(check))["status"] == "ok"
    assert json.loads(text(submitted))["returns"] == [500.0, 500.0]
    assert gone.is_error
    assert json.loads(text(again))["submission"] == 0
    assert json.loads(text(wrong))["status"] == "import_error"
    assert json.loads(text(restored)) == {"restored": 0, "files": ["policy.py"]}
    assert json.loads(text(feedback))["mean_return"] == 500.0
    assert json.loads(text(last))["remaining_budget"] == 0
    assert document["budget"] == {"episodes": 6, "spent": 6, "submissions": 2}


def test_a_client_plays_a_run(tmp_path: Path) -> None:
    """Each tool answers, through a socket too; what the judge refuses is a tool's error, and charges nothing."""
    with served(tmp_path, *BEGIN, "--socket", str(tmp_path / "judge.sock")) as run:
        work = run.workspace
        (work / "system" / "policy.py").write_text(GOOD, encoding="utf-8")
        many, none, info, task, check, submitted, feedback, exported, file, restored, closed = asked(
            work,
            ("submit", {"cases": "0-9"}),
            ("feedback", {"submission": 7}),
            ("info", {}),
            ("task", {}),
            ("check", {}),
            ("submit", {"cases": "0-1", "key": "mine"}),
            ("feedback", {"submission": 0}),
            ("export", {"episodes": [1]}),
            ("restore", {"submission": 0, "path": "policy.py"}),
            ("restore", {"submission": 0}),
            ("finish", {}),
        )
        document = run.ended()
        later = asked(work, ("info", {}), ("submissions", {}))

    assert many.is_error
    assert "6" in text(many)
    assert "submission 7" in text(none)
    assert json.loads(text(info))["state"]["remaining_budget"] == 6
    assert text(task).startswith("# ")
    assert json.loads(text(check))["status"] == "ok"
    assert json.loads(text(submitted))["returns"] == [500.0, 500.0]
    assert json.loads(text(feedback))["mean_return"] == 500.0
    assert json.loads(text(restored)) == {"restored": 0, "files": ["policy.py"]}
    assert "closed" in text(closed)
    assert json.loads(text(exported)) == {"files": ["notes/ep_001.npz"]}
    assert (work / "notes" / "ep_001.npz").is_file()
    assert json.loads(text(file)) == {"restored": 0, "files": ["policy.py"]}
    assert json.loads((work / "closed.json").read_text()) == {"reason": "finish_asked", "over": True}
    assert [(answer.is_error, "closed: the agent finished" in text(answer)) for answer in later] == [
        (True, True),
        (False, False),
    ]
    assert document["outcome"]["closed"] == "finish_asked"  # type: ignore[index]


def test_what_is_no_workspace_is_refused(tmp_path: Path, shell: Shell) -> None:
    """Before anything is served."""
    left = shell("mcp", tmp_path)

    assert left.code == 2
    assert str(tmp_path) in left.err
