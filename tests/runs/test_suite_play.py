"""A suite that is played: its runs touch each other in nothing, and whatever ends it, it is gone on with."""

import os
import signal
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.core.event import EpisodePlayed, RunStopped, StopReason
from evopolicygym.records import verify
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import find_runs
from evopolicygym.runs.suites.document import suite_lock
from evopolicygym.runs.suites.play import ProcessStarted, Suite, Update
from evopolicygym.runs.suites.records import PlannedRunVerdict, find_results
from evopolicygym.runs.suites.suite import PlannedRun, plan
from players import EVOLVER_HALTS_AFTER, HALT
from suites import Program, children, ended, scores, suite, wait_for
from whole_runs import BUDGET, events, state_kept_in

Undisturbed = Callable[[tuple[str, ...]], list[dict[str, Any]]]

NUMBERS = ("--validation", "1", "--held-out", "2", "--split", "public", "--jobs", "2")
SMALL = (
    "--environment",
    "cartpole",
    "--budget",
    str(BUDGET),
    *NUMBERS,
    "--agent",
    "players:make_evolver",
    "--agent",
    "random",
)
WHOLE = ("--split", "public", "--agent", "tuner", "--agent", "random", "--repeats", "2", "--jobs", "2")
CROSSED = ("--environment", "cartpole", *NUMBERS, "--agent", "random", "--cross", "budget=4,6")
TINY = (
    *("--environment", "cartpole", "--budget", "2", "--validation", "1", "--held-out", "1"),
    *("--split", "public"),
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """Return what suites tell of their runs when nothing happens to them."""

    @cache
    def play(arguments: tuple[str, ...]) -> list[dict[str, Any]]:
        place = tmp_path_factory.mktemp("undisturbed")
        with state_kept_in(place / "state"):
            code, runs, complaints = Program(place / "runs", arguments).played()
        assert code == 0, complaints
        return runs

    return play


def assert_unharmed(program: Program, expected: list[dict[str, Any]]) -> None:
    """Compare a suite that was disturbed, and is now played to its end, with one that nothing happened to."""
    code, got, complaints = program.played()
    runs = list(find_runs(program.directory))

    assert code == 0, complaints
    assert scores(got) == scores(expected)
    assert all(score is not None for score, _ in scores(got).values())
    assert len(runs) == len(expected)
    assert [one for run in runs for one in verify.findings(run) if not one.ok] == []


def test_killed_and_interrupted(tmp_path: Path, undisturbed: Undisturbed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed, and stopped by Ctrl-C when it goes on, a suite ends with the same scores; no run is played twice."""
    program = Program(tmp_path / "disturbed", SMALL)
    with monkeypatch.context() as halting:
        halting.setenv(HALT, "1")
        codes = [
            program.interrupted(partial(_holds, program, b"submission_published", EVOLVER_HALTS_AFTER), signal.SIGKILL),
            program.interrupted(partial(_holds, program, b"agent_started", 2), signal.SIGINT),
        ]
    stops = [event for run in find_runs(program.directory) for event in events(RunPaths(run))[-1:]]

    assert codes == [-signal.SIGKILL, 130]
    assert {event.reason for event in stops if isinstance(event, RunStopped)} == {StopReason.INTERRUPTED}
    assert_unharmed(program, undisturbed(SMALL))


@pytest.mark.nightly
@pytest.mark.parametrize(("arguments", "moments"), [(CROSSED, (3_000, 9_000)), (WHOLE, (20_000, 90_000))])
def test_killed_twice_at_any_moments(
    tmp_path: Path, undisturbed: Undisturbed, arguments: tuple[str, ...], moments: tuple[int, ...]
) -> None:
    """Killed at any moments, a suite that is asked for again ends with the same scores, and no run is played twice."""
    program = Program(tmp_path / "disturbed", arguments)
    codes = [program.interrupted(partial(_are_of, program, size), signal.SIGKILL) for size in moments]

    assert codes == [-signal.SIGKILL] * len(moments)
    assert_unharmed(program, undisturbed(arguments))


@pytest.mark.nightly
def test_killed_before_the_last_document(tmp_path: Path) -> None:
    """A run that was killed between its last event and its ``run.json`` gets that, and is not played again."""
    program = Program(tmp_path, (*TINY, "--agent", "random"))
    program.played()
    (run,) = map(RunPaths, find_runs(program.directory))
    journal, document = run.journal.read_bytes(), run.document.read_bytes()
    run.document.write_bytes(document.replace(b'"stage": "finished"', b'"stage": "held_out"'))
    code, runs, complaints = program.played()

    assert (code, [one["verdict"] for one in runs]) == (0, ["finished"]), complaints
    assert (run.journal.read_bytes(), run.document.read_bytes()) == (journal, document)


def test_a_second_interruption_kills(tmp_path: Path) -> None:
    """Who presses Ctrl-C again doesn't wait for an agent that won't leave."""
    program = Program(tmp_path, (*TINY, "--agent", "players:make_stayer"))
    with program.start() as process:
        wait_for(lambda: b"submission_published" in _journals(program), "the agent's submission")
        (child,) = children(process.pid)
        process.send_signal(signal.SIGINT)
        wait_for(lambda: _ignores_interrupts(child), "the putting down of the run")
        process.send_signal(signal.SIGINT)
        code, runs, complaints = ended(process)

    assert code == 130
    assert [one["verdict"] for one in runs] == ["failed"]
    assert "signal 9" in runs[0]["message"]
    assert complaints
    assert program.free()


@pytest.mark.nightly
def test_nothing_outlives_a_killed_suite(tmp_path: Path) -> None:
    """Runs whose suite was killed put themselves down in good order, and nobody else can have the suite before."""
    program = Program(tmp_path, (*TINY, "--agent", "players:make_sleeper"))
    with program.start() as process:
        wait_for(lambda: b"submission_charged" in _journals(program), "a charge")
        (child,) = children(process.pid)
        second = program.played()
        process.kill()
        process.communicate()
    wait_for(lambda: not Path(f"/proc/{child}").exists() and program.free(), "the end of the run")
    (run,) = find_runs(program.directory)
    last = events(RunPaths(run))[-1]

    assert (second[0], "is being played by another process" in second[2]) == (3, True)
    assert isinstance(last, RunStopped)
    assert last.reason is StopReason.INTERRUPTED
    assert not any(isinstance(event, EpisodePlayed) for event in events(RunPaths(run)))


def test_runs_that_fail(tmp_path: Path) -> None:
    """An agent that can't be made, or kills its process, touches no other run; only it is tried again."""
    agents = ("players:make_exploder", "players:make_killer", "players:make_raiser")
    program = Program(tmp_path, (*TINY, *(word for one in agents for word in ("--agent", one))))
    code, runs, _ = program.played()
    again, kept, _ = program.played()

    assert (code, again) == (1, 1)
    assert [one["verdict"] for one in runs] == ["failed", "failed", "finished"]
    assert [one["reason"] for one in runs] == ["AgentError", "process ended", "crashed"]
    assert kept == runs
    assert len(list(find_runs(program.directory))) == 1


def test_an_agent_that_gives_up_has_a_result(tmp_path: Path) -> None:
    """A run that its agent ended badly is finished, and told with how; lines that the agent prints are not read."""
    program = Program(tmp_path, (*TINY, "--agent", "players:make_forger"))
    code, runs, _ = program.played()

    assert code == 0
    assert [(one["verdict"], one["score"], one["reason"]) for one in runs] == [("finished", None, "crashed")]
    assert "the model is gone" in runs[0]["message"]
    assert b"forged" in (program.directory / "suite.log").read_bytes()


def test_runs_share_no_core(tmp_path: Path) -> None:
    """Two runs that play at once are each kept on cores of their own."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("this machine has one core")
    begun: list[ProcessStarted] = []

    def observe(_run: PlannedRun, update: Update) -> None:
        if isinstance(update, ProcessStarted):
            begun.append(update)

    asked = suite(tmp_path, "players:make_breaker", repeats=2, budget=2)
    with suite_lock(asked) as lock:
        playing = Suite(find_results(plan(asked), tmp_path), [(cores[0],), (cores[1],)], lock)
        undisturbed = playing.play(tmp_path / "log", observe)

    assert undisturbed
    assert sorted(one.cores for one in begun) == [(cores[0],), (cores[1],)]
    assert len({one.process for one in begun}) == 2
    assert {one.verdict for one in playing.results.values()} == {PlannedRunVerdict.FINISHED}


def _holds(program: Program, word: bytes, count: int) -> bool:
    """Return whether the evolver's journal holds a word so often."""
    return any(file.read_bytes().count(word) >= count for file in program.directory.glob("*evolver*/*/*/journal.jsonl"))


def _are_of(program: Program, size: int) -> bool:
    return program.journaled() >= size


def _journals(program: Program) -> bytes:
    return b"".join(file.read_bytes() for file in program.directory.glob("*/*/*/journal.jsonl"))


def _ignores_interrupts(process: int) -> bool:
    status = Path(f"/proc/{process}/status").read_text()
    ignored = next(line for line in status.splitlines() if line.startswith("SigIgn"))
    return bool(int(ignored.split()[1], 16) & 1 << (signal.SIGINT - 1))
