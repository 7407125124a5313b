"""MCP tools have the host's rights, and an agent writes the workspace: no tool follows what the agent put there."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from libraries import needs_library
from players import GOOD
from served import BEGIN, served

pytestmark = needs_library("mcp")

Call = tuple[str, dict[str, Any]] | Callable[[], object]
"""A tool's name with its arguments, or what the agent does between two calls."""
KEPT = "what the host keeps"


def asked(workspace: Path, runs: Path, *calls: Call) -> tuple[list[Any], list[int]]:
    """Return what the tools answer to a client that starts the server, and its open descriptors after each call."""
    from mcp import Client, StdioServerParameters

    async def ask() -> tuple[list[Any], list[int]]:
        words = ["-m", "evopolicygym", "mcp", str(workspace), "--runs", str(runs)]
        answers, descriptors = [], []
        async with Client(StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))) as client:
            for call in calls:
                if callable(call):
                    call()
                    continue
                answers.append(await client.call_tool(*call))
                descriptors.append(_open_descriptors(_child(str(workspace))))
        return answers, descriptors

    return asyncio.run(ask())


def _open_descriptors(process: int) -> int:
    return len([*Path(f"/proc/{process}/fd").iterdir()])


def _child(word: str) -> int:
    """Return the process that this one started with a word on its command line."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            status, words = (entry / "status").read_text(), (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"PPid:\t{os.getpid()}\n" in status and word.encode() in words:
            return int(entry.name)
    raise AssertionError(word)


def text(answer: Any) -> str:
    """Return the text of a tool's answer."""
    return str(answer.content[0].text)


def replace_by(place: Path, target: Path) -> None:
    """Put a link in place of a file or directory of the workspace."""
    shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
    place.symlink_to(target)


def test_no_link_leads_out_of_the_workspace(tmp_path: Path) -> None:
    """Nothing of the host is read or written by restore, diff, feedback, trace or export; pipes make none wait."""
    work, host = tmp_path / "work", tmp_path / "host"
    (host / "episodes" / "ep_000").mkdir(parents=True)
    for name in ("secret", "keys.py", "summary.json", "errors.txt", "episodes/ep_000/trajectory.jsonl"):
        (host / name).write_text(json.dumps({"submit_index": 0, "returns": [0.0], "x": KEPT}), encoding="utf-8")
    before = {path: path.read_bytes() for path in host.rglob("*") if path.is_file()}
    with served(tmp_path, *BEGIN, "--workspace", str(work)) as run:
        system = run.workspace / "system"
        (system / "policy.py").write_text(GOOD, encoding="utf-8")
        (system / "lib").mkdir()
        (system / "lib" / "keys.py").write_text("mine = 1\n", encoding="utf-8")

        def link_directories() -> None:
            replace_by(system / "lib", host)
            replace_by(system / "shown.txt", host / "secret")
            replace_by(work / "notes" / "out", host)
            os.mkfifo(system / "pipe")

        def link_feedback() -> None:
            feedback = work / "feedback" / "submit_000"
            feedback.chmod(0o755)
            feedback.rename(work / "notes" / "moved")
            feedback.symlink_to(host)

        (submitted, *answers), _ = asked(
            work,
            tmp_path / "runs",
            ("submit", {"cases": "0-1"}),
            link_directories,
            ("restore", {"submission": 0, "path": "lib/keys.py"}),
            ("diff", {"first": 0}),
            *(("export", {"episodes": [0], "to": to}) for to in (str(host), "../host", "notes/out")),
            link_feedback,
            ("feedback", {"submission": 0, "file": "errors.txt"}),
            ("trace", {"episode": 0}),
            ("show", {"submission": 0}),
            ("feedback", {"submission": 0, "file": "../../../host/secret"}),
            partial(replace_by, system, host),
            ("restore", {"submission": 0}),
            ("diff", {"first": 0}),
        )

    assert {path: path.read_bytes() for path in host.rglob("*") if path.is_file()} == before
    assert not submitted.is_error
    assert [answer.is_error for answer in answers] == [True, False, *[True] * 5, False, *[True] * 3]
    assert KEPT not in "".join(map(text, answers))


def test_an_address_in_the_workspace_is_not_asked(tmp_path: Path) -> None:
    """Tools ask the judge of the run whatever the workspace's address file says; none of them leaves a descriptor."""
    with served(tmp_path, *BEGIN, "--socket", str(tmp_path / "judge.sock")) as run:
        work = run.workspace
        (work / "judge.env").write_text("export EVOPOLICYGYM_INFO_URL=http://127.0.0.1:1/x/info\n", encoding="utf-8")
        calls: list[Call] = [("info", {}), ("task", {}), ("submissions", {})]
        (*answers, gone), descriptors = asked(
            work, tmp_path / "runs", *calls, *calls, run.kill_judge, ("submissions", {})
        )

    assert [answer.is_error for answer in answers] == [False] * 6
    assert json.loads(text(answers[0]))["state"]["remaining_budget"] == 6
    assert len(set(descriptors[1:])) == 1
    assert gone.is_error


STRICT: Mapping[str, dict[str, Any]] = {
    "unknown argument": {"cases": "0", "wait": False},
    "another name": {"env_instances": "0"},
    "number for text": {"cases": 0},
    "text for a number": {"cases": "0", "films": ["0"]},
    "unknown parent": {"cases": "0", "parent": "0"},
    "name that sets another": {"cases": "0", "set": {"speed=1": 2}},
    "option as cases": {"cases": "--films=0"},
}


def test_arguments_are_strict(tmp_path: Path) -> None:
    """What a tool doesn't know is refused, uncharged; whole numbers stay whole; errors name the argument."""
    with served(tmp_path, *BEGIN) as run:
        (run.workspace / "system" / "parameters.json").write_text('{"depth": 1, "name": "a"}', encoding="utf-8")
        good = "0-1"
        answers, _ = asked(
            run.workspace,
            tmp_path / "runs",
            *(("submit", arguments) for arguments in STRICT.values()),
            ("submit", {"cases": "0-999"}),
            ("info", {}),
            ("submit", {"cases": good, "set": {"depth": 4, "name": "5"}, "parent": "starter"}),
        )
        journal = next(tmp_path.glob("runs/*/*/*/*/journal.jsonl")).read_text(encoding="utf-8")
    *refused, outside, info, played = answers

    assert [answer.is_error for answer in refused] == [True] * len(STRICT)
    assert (outside.is_error, "env_instances" in text(outside)) == (True, False)
    assert json.loads(text(info))["state"]["remaining_budget"] == 6
    assert not played.is_error
    assert '"settings":{"depth":4,"name":"5"}' in journal.replace(": ", ":").replace(", ", ",")
