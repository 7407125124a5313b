"""An agent's transcript as a conversation: calls with their results, submissions, tokens, search, links, a live run."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from browsers import met
from diagnosed import known_run, recorded
from evopolicygym.core.agent import MODEL_LOG, AgentConfig
from evopolicygym.core.event import RunOpened
from evopolicygym.records.reader import RunRecord
from evopolicygym.viewer.documents.documents import Documents
from evopolicygym.viewer.documents.overview import RunDirectory, RunIndex
from evopolicygym.viewer.site.serving import ServedViewer
from places import SUPPORT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TOOL_RUNS = ("claude_code", "codex", "gemini", "kimi_code", "neutral", "opencode", "qwen")


def run_of_tool(below: Path, agent: str, transcript: bytes) -> tuple[RunDirectory, RunRecord]:
    """Write the run that is known by hand as one of an agent with a transcript."""
    opened, *others = known_run()
    assert isinstance(opened, RunOpened)
    record = recorded(below / "known", [replace(opened, agent=AgentConfig(agent, "scripted")), *others])
    record.paths.logs.mkdir()
    record.paths.transcript.write_bytes(transcript)
    (place,) = RunIndex([below]).directories().values()
    return place, record


def transcript_entries(place: RunDirectory, page: int = 0) -> list[dict[str, Any]]:
    document = Documents(RunIndex([place.root.parent])).document(f"run/{place.id}/transcript/{page}")
    entries: list[dict[str, Any]] = json.loads(document)["entries"]
    return entries


@pytest.mark.parametrize("agent", TOOL_RUNS)
def test_a_transcript_is_a_conversation(agent: str, tmp_path: Path) -> None:
    """Of every tool each call stands with its result, and each submission after the message that it came of."""
    place, _ = run_of_tool(tmp_path, agent, (SUPPORT / "transcripts" / f"{agent}.log").read_bytes())
    entries = transcript_entries(place)
    calls = [call for entry in entries for call in entry.get("calls", ())]
    after = {entry["submission"]: entries[at - 1] for at, entry in enumerate(entries) if entry["role"] == "submission"}
    offsets = [entry["at"] for entry in entries]

    assert len(calls) == 3
    assert all(call["text"] and call["result"] and not call["result"]["is_error"] for call in calls)
    assert sorted(after) == [0, 1]
    for number, entry in after.items():
        assert f"./judge submit {number}" in entry["calls"][-1]["text"]
        assert f"submission {number}: ok" in entry["calls"][-1]["result"]["text"]
    assert offsets == sorted(offsets)


def test_todays_words_tell_of_a_submission(tmp_path: Path) -> None:
    """What the judge's client prints for an accepted submission, and what its MCP server answers, mark it."""
    lines = [
        "submission 0 accepted, playing\u2026",
        json.dumps({"text": json.dumps({"submission": 1, "status": "ok"})}),
    ]
    place, _ = run_of_tool(tmp_path, "command", "\n".join([*lines, "submission 77 accepted, playing", ""]).encode())

    assert [entry["submission"] for entry in transcript_entries(place) if entry["role"] == "submission"] == [0, 1]


def test_messages_have_their_tokens_and_cost(tmp_path: Path) -> None:
    """A message with a time has the requests since the one before; one whose tool counts has the request as large."""
    said = [{"time": f"2026-01-01T00:00:{at:02}.000Z", "role": "assistant", "text": f"at {at}"} for at in (1, 5, 9)]
    place, record = run_of_tool(tmp_path / "harness", "neutral", "\n".join(map(json.dumps, said)).encode())
    write_requests(record, [(1, 100, 10, 0.5), (4, 200, 20, None), (5, 300, 30, 0.25)])
    by_time = [entry["usage"] for entry in transcript_entries(place)]
    usage = {"input_tokens": 150, "cache_read_input_tokens": 50}
    answer = {"type": "assistant", "message": {"id": "a", "content": [{"type": "text", "text": "x"}], "usage": usage}}
    place, record = run_of_tool(tmp_path / "tool", "claude_code", json.dumps(answer).encode())
    write_requests(record, [(1, 100, 10, 0.5), (2, 200, 20, 0.75)])

    assert by_time == [
        {"requests": 1, "input_tokens": 100, "output_tokens": 10, "cost_usd": 0.5, "cost_is_lower_bound": False},
        {"requests": 2, "input_tokens": 500, "output_tokens": 50, "cost_usd": 0.25, "cost_is_lower_bound": True},
        None,
    ]
    assert transcript_entries(place)[0]["usage"] == {
        "requests": 1,
        "input_tokens": 200,
        "output_tokens": 20,
        "cost_usd": 0.75,
        "cost_is_lower_bound": False,
    }


def write_requests(record: RunRecord, requests: list[tuple[int, int, int, float | None]]) -> None:
    """Write a model proxy's log: seconds, input and output tokens, cost."""
    lines = [
        {"time": f"2026-01-01T00:00:{at:02}.000Z", "input": read, "output": wrote, "cost": cost, "seconds": 0.0}
        for at, read, wrote, cost in requests
    ]
    (record.paths.logs / MODEL_LOG).write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_reader_that_is_fed_anything(tmp_path: Path) -> None:
    """Lines that a tool's reader doesn't know, plain text and half a line are shown as they are; nothing raises."""
    lines = [b"a warning", b'{"type": "assistant", "message": 7}', b"\xff\x1b[31m[1, 2]", b'{"type": "assis']
    place, _ = run_of_tool(tmp_path, "claude_code", b"\n".join(lines))
    texts = [entry["text"] for entry in transcript_entries(place)]

    assert texts[0] == "a warning"
    assert "\\xff[1, 2]" in texts[-1]
    assert '{"type": "assis' in texts[-1]
    assert len(texts) == 3


def test_a_call_without_its_result_has_none(tmp_path: Path) -> None:
    """A command that still runs is shown; its arguments are read as text, each below its name where it has lines."""
    write = {"type": "tool_use", "id": "t", "name": "Write", "input": {"path": "a.py", "content": "x\ny", "n": 1}}
    line = json.dumps({"type": "assistant", "message": {"id": "m", "content": [write]}})
    place, _ = run_of_tool(tmp_path, "claude_code", line.encode())
    ((call,),) = (entry["calls"] for entry in transcript_entries(place))

    assert call == {"name": "Write", "text": "path: a.py\ncontent:\nx\ny\nn: 1", "cut": 0, "result": None}


def test_a_conversation_is_searched_and_linked(chromium: "Browser", tmp_path: Path) -> None:
    """Calls are folded; a search leads to the message that has the words, whose address leads there by itself."""
    place, record = run_of_tool(tmp_path, "neutral", b"".join(neutral_lines(400)))
    with ServedViewer([tmp_path]) as viewer, met(chromium, viewer.entrance) as found:
        page = found.page
        found.open(f"#/run/{place.id}/1/transcript", ".submitted.here")
        shown = page.locator(".said details").evaluate_all("(all) => all.filter((own) => own.open).length")
        page.keyboard.press("/")
        page.keyboard.type("call 389 of")
        page.wait_for_selector(".hits li")
        hits = page.locator(".hits li").count()
        page.click(".hits button")
        page.wait_for_selector(".said[aria-current] details[open] mark")
        address, text = page.url, page.inner_text(".said[aria-current]")
        found.open(f"#/run/{place.id}/0/change", ".code")
        page.goto(address)
        page.wait_for_selector(".said[aria-current]")

        assert (shown, hits) == (0, 1)
        assert "call 389 of" in text
        assert "call 389 of" in page.inner_text(".said[aria-current] .call summary")
        page.click("a.anchor >> nth=0")
        assert page.url.endswith(f"/transcript/{page.get_attribute('.said >> nth=0', 'data-at')}")
        page.click("button:text-is('Earlier')")
        found.until("document.querySelectorAll('.submitted').length === 1")
        page.click(".submitted a")
        page.wait_for_selector(".code")
        assert "/1/change" in page.url
        assert int(address.rpartition("/")[2]) < record.paths.transcript.stat().st_size


def neutral_lines(calls: int) -> list[bytes]:
    """Return the lines of a harness that calls its tool so often; the tenth call from the end submits."""
    lines = []
    for number in range(calls):
        time = f"2026-01-01T{number // 60:02}:{number % 60:02}:00.000Z"
        text = "submission 1 accepted, playing" if number == calls - 10 else "x" * 300
        command = f"echo call {number} of {calls}"
        lines.append({"time": time, "role": "assistant", "text": f"Step {number}.", "commands": [command]})
        lines.append({"time": time, "role": "tool", "text": text})
    return [json.dumps(line).encode() + b"\n" for line in lines]


@pytest.mark.nightly
@pytest.mark.parametrize("width", [1280, 390])
def test_a_transcript_grows_in_peace(chromium: "Browser", tmp_path: Path, width: int) -> None:
    """What is added moves nothing that is read and folds nothing that is open; at its end the page follows it."""
    lines = neutral_lines(200)
    place, record = run_of_tool(tmp_path / "runs", "neutral", b"".join(lines[:61]))
    record.paths.journal.write_bytes(b"".join(record.paths.journal.read_bytes().splitlines(keepends=True)[:7]))
    record.paths.document.unlink()
    top = "document.querySelectorAll('.said')[20].getBoundingClientRect().top"
    with ServedViewer([tmp_path / "runs"]) as viewer, met(chromium, viewer.entrance, width=width) as found:
        page = found.page
        found.open(f"#/run/{place.id}/0/transcript", ".said >> nth=30")
        page.click(".said >> nth=20 >> summary")
        page.click(".said >> nth=30 >> summary")
        page.locator(".said >> nth=20").scroll_into_view_if_needed()
        before = page.evaluate(top)
        page.wait_for_timeout(2500)
        add_lines(record, lines[61:100])
        page.wait_for_selector(".said >> nth=45", state="attached")
        after = page.evaluate(top)
        opened = page.locator(".said details[open]").count()
        result = page.inner_text(".said >> nth=30 >> .result")
        page.evaluate(
            "for (const own of [document.querySelector('.tabbody'), document.scrollingElement]) own.scrollTop = 1e9"
        )
        add_lines(record, lines[100:])
        found.until("document.querySelectorAll('.said').length === 200")
        last = page.evaluate("[...document.querySelectorAll('.said')].at(-1).getBoundingClientRect().top")

        assert abs(after - before) < 1
        assert (opened, result) == (2, "x" * 300)
        assert 0 < last < 900


def add_lines(record: RunRecord, lines: list[bytes]) -> None:
    with record.paths.transcript.open("ab") as file:
        file.write(b"".join(lines))
