"""Usage outlives the death of the program that counts it: killed and resumed, a run has used what was served."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from enclosed import needs_bubblewrap
from evopolicygym.agents.kit.scripted_model.server import INPUT, OUTPUT, Reply, ScriptedModel
from evopolicygym.checks.inspection import descendants
from evopolicygym.core.agent import AgentEnd, Turn, used_of
from evopolicygym.core.event import AgentMetered
from evopolicygym.judge.session import JudgeSession
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.ledger import Ledger
from evopolicygym.model_proxy.upstream import ModelUpstream
from evopolicygym.model_proxy.usage import Usage
from evopolicygym.records import atomic, verify
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import find_runs, read_run
from evopolicygym.records.run_document import run_document
from evopolicygym.runs import turns
from evopolicygym.runs.turns import TurnMeter
from fakes import OpenRun, RunMaker
from libraries import LIBRARIES, needs_library
from lifeline import ended_with
from model_proxies import PRICE, REAL_KEY, VARIABLE, wait_for_requests
from neutral_models import calling
from players import GOOD
from scripted_tools import program
from shell import Shell
from whole_runs import events

BEFORE, TOLD = 7, 4
"""Requests before the kill, and how many of them are told their usage."""
LIMIT = 12 * (INPUT + OUTPUT)
SCRIPT = """
mark = home / "mark"
if not mark.exists():
    submit()
    for _ in range({before}):
        ask()
    mark.touch()
    {pause}
while True:
    ask()
    time.sleep(0.05)
"""
"""A tool that has no request under way when it is killed, and goes on without end when it is resumed."""
SHOWN = ("requests", "generations", "failed", "unknown", "input", "cached_input", "output", "assumed_tokens", "cost")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, REAL_KEY)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """Return a model server that doesn't tell the usage of some answers."""
    with ScriptedModel() as server:
        server.replies += [Reply(tell_usage=number < TOLD) for number in range(BEFORE)]
        yield server


def run_words(agent: str, url: str, runs: Path, *others: str) -> list[str]:
    """Return the command that plays a run by an agent that asks a scripted model."""
    return [
        *("run", "cartpole", "--agent", agent, "--model", "scripted", "--model-url", url, "--model-key", VARIABLE),
        *("--price", "input=1000,output=10000", "--validation", "1", "--held-out", "2", "--split", "public"),
        *("--workers", "1", "--isolation", "bubblewrap", "--runs", str(runs), "--json", *others),
    ]


def tool_words(model: ScriptedModel, directory: Path, pause: str) -> list[str]:
    """Return the command that plays a run by a scripted tool under a limit of tokens."""
    tool = program(directory, SCRIPT.format(before=BEFORE, pause=pause))
    limits = ("--option", f"program={tool}", "--max-tokens", str(LIMIT), "--budget", "3")
    return run_words("codex", model.url, directory / "runs", *limits)


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill the program, and wait until nothing that it started is there."""
    with ended_with(descendants(process.pid)):
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def started(words: list[str]) -> "subprocess.Popen[bytes]":
    """Start the program in a process group of its own."""
    command = [sys.executable, "-m", "evopolicygym", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)


def used(root: Path) -> dict[str, float]:
    """Return what a run's record says of its usage."""
    usage = run_document(RunPaths(root))["usage"]
    return {name: pytest.approx(usage[name]) if name == "cost" else usage[name] for name in SHOWN}


def ended_well(words: list[str]) -> None:
    """Run the program to its end."""
    process = started(words)
    printed, _ = process.communicate(timeout=300)

    assert process.returncode == 0, printed.decode()


@pytest.mark.nightly
@needs_bubblewrap
def test_killed_and_taken_up(model: ScriptedModel, tmp_path: Path) -> None:
    """After a kill, the record has the usage of every answer; taken up, the run ends as one that was never killed."""
    (tmp_path / "killed").mkdir()
    (tmp_path / "whole").mkdir()
    process = started(tool_words(model, tmp_path / "killed", "time.sleep(600)"))
    while not (marks := list((tmp_path / "killed").glob("runs/*/*/*/*/home/mark"))):
        assert process.poll() is None, process.communicate()[0].decode()
        Event().wait(0.05)
    root = marks[0].parent.parent
    kill(process)
    served = read_run(root)

    assert len(model.asked) == BEFORE
    assert [used(root)[name] for name in ("requests", "generations", "unknown", "input", "output")] == [
        *(BEFORE, BEFORE, BEFORE - TOLD),
        *(TOLD * INPUT, TOLD * OUTPUT),
    ]
    assert used(root)["assumed_tokens"] > 0
    assert served.state.used.tokens == TOLD * (INPUT + OUTPUT) + used(root)["assumed_tokens"]

    ended_well(["resume", str(root), "--workers", "1", "--json"])
    asked = len(model.asked)
    model.replies += [Reply(tell_usage=number < TOLD) for number in range(BEFORE)]
    ended_well(tool_words(model, tmp_path / "whole", "pass"))
    (whole,) = find_runs(tmp_path / "whole" / "runs")

    assert read_run(root).state.close_reason == read_run(whole).state.close_reason == "allowance_spent"
    assert used(root) == used(whole)
    assert [one for one in verify.findings(root) if not one.ok] == []
    assert used(root)["requests"] == asked == len(model.asked) - asked


@pytest.mark.parametrize(
    ("agent", "reply"),
    [
        pytest.param("neutral", calling(ApiFormat.CHAT, "./judge submit 0"), marks=needs_bubblewrap),
        *(
            pytest.param(name, Reply(f"```python\n{GOOD}```\n"), marks=(needs_library(name), pytest.mark.nightly))
            for name in LIBRARIES
        ),
    ],
)
def test_killed_while_a_request_is_under_way(agent: str, reply: Reply, tmp_path: Path, shell: Shell) -> None:
    """Agents that are asked for from our own process forget that one request, and nothing of them is left."""
    with ScriptedModel() as model:
        model.replies += [reply, Reply(hang="before")]
        process = started(
            run_words(agent, f"{model.url}/v1", tmp_path / "runs", "--budget", "3" if agent == "neutral" else "16")
        )
        wait_for_requests(model, 2)
        (root,) = find_runs(tmp_path / "runs")
        kill(process)
        first = used(root)
        model.replies += [reply] * 20
        shell.printed("resume", root, "--workers", "1")

    assert [first[name] for name in ("generations", "input", "output")] == [1, INPUT, OUTPUT]
    assert used(root)["generations"] == len(model.asked) - 1
    assert used(root)["output"] == (len(model.asked) - 1) * OUTPUT


def metered(session: JudgeSession) -> list[AgentMetered]:
    """Return the notes of a run that is open, as they are on disk."""
    return [event for event in events(session.writer.paths) if isinstance(event, AgentMetered)]


@pytest.fixture
def meter(new_run: RunMaker) -> TurnMeter:
    """Return the meter of a turn that has begun."""
    run: OpenRun = new_run()
    run.session.turn_started(0)
    return TurnMeter(run.session, 0)


def test_a_request_is_noted_as_it_ends(meter: TurnMeter, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is reported is in the journal when the reporter goes on, and costs no flush; after many, it waits."""
    monkeypatch.setattr(turns, "MAX_NOTES", 3)
    flushes: list[int] = []
    monkeypatch.setattr(atomic.disk, "flush", flushes.append)
    for count in range(1, 6):
        meter.report({"requests": count})

        assert len(metered(meter.session)) == min(count, 3)
    assert flushes == []
    meter.flush()

    assert (metered(meter.session)[-1].usage, len(flushes)) == ({"requests": 5}, 1)


def test_late_reports(meter: TurnMeter) -> None:
    """An agent that doesn't leave and still reports changes nothing any more."""
    meter.report({"requests": 1})
    meter.end()
    meter.session.turn_ended(0, Turn(AgentEnd.STOPPED))
    meter.report({"requests": 2})

    assert [note.usage for note in metered(meter.session)] == [{"requests": 1}]
    assert meter.usage == {"requests": 1}


def test_reports_from_several_threads(meter: TurnMeter) -> None:
    """Notes of several threads never go back."""
    ledger = Ledger(ModelUpstream("http://127.0.0.1:9", price=PRICE), meter.report)

    def asking() -> None:
        for _ in range(50):
            ledger.begin(generates=True)
            ledger.end(Usage(input=1, output=1), 0, 0.0, failed=False)
            meter.flush()

    threads = [Thread(target=asking) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    inputs = [note.usage["input"] for note in metered(meter.session)]

    assert inputs == sorted(inputs)
    assert inputs[-1] == 200


def test_a_full_disk_is_told_by_the_run(meter: TurnMeter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A note that can't be written doesn't fail the request; the run's own thread meets the fault and is put down."""

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(atomic.disk, "write", full)
        meter.report({"requests": 1})
        with pytest.raises(OSError, match="No space"):
            meter.flush()
    meter.flush()

    assert [note.usage for note in metered(meter.session)] == [{"requests": 1}]


def test_what_limits_assume_is_carried_on() -> None:
    """Tokens of an answer that told none are assumed for limits, priced, and kept apart from the sums."""
    ledger = Ledger(ModelUpstream("http://127.0.0.1:9", price=PRICE))
    ledger.end(Usage(input=10, output=2), 10_000, 0.0, failed=False)
    ledger.end(Usage(), 400, 0.0, failed=False)
    ledger.end(Usage(input=30), 400, 0.0, failed=False)
    usage = ledger.usage()

    assert (usage.tokens, usage.unknown, usage.assumed_tokens) == (42, 2, 170)
    assert usage.assumed_cost == pytest.approx(0.17)
    assert used_of(usage.figures()).tokens == 212
    assert used_of(usage.figures()).cost == pytest.approx((40 * 1000 + 2 * 10_000) / 1e6 + 0.17)


def test_usage_of_an_agent_that_did_not_leave(meter: TurnMeter) -> None:
    """A turn that tells no usage, as its agent had to be left behind, is recorded with what was seen of it."""
    meter.report({"requests": 3, "input": 5, "output": 1})
    outcome = turns._apply_limits(Turn(AgentEnd.STOPPED), meter)

    assert outcome.usage == {"requests": 3, "input": 5, "output": 1}
