"""Two judges on one run, signals at any moment, clocks that jump, and agents' programs that misbehave as processes."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dying import play_whole_toy
from evopolicygym.agents.kit import program
from evopolicygym.core import text
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.errors import RecordError
from evopolicygym.core.event import AgentEnded, RunFinished, RunOpened, RunStatus, RunStopped, StopReason
from evopolicygym.core.run import Stage
from evopolicygym.records import journal
from evopolicygym.records.experiment import Experiment
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import find_runs, read_run
from evopolicygym.records.writer import RunWriter
from evopolicygym.runs import turns
from evopolicygym.runs.run import job_builder
from fakes import SECRET, guard_beside, opening
from moments import WatchedDisk, lived, played_on
from places import ROOT, SUPPORT
from playground import one_worker, policy
from sameness import assert_the_same
from simulators import STEPS, spec
from whole_runs import config, events, played

SOURCE = ROOT / "src" / "evopolicygym"
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
CALLS = {"write": 26, "flush": 125, "rename": 23, "commit": 12}
"""The writes of the fake's run with an agent behind the door."""
OPEN_BY = 7
"""Calls after which a run is opened; who is interrupted before leaves nothing to take up."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the record of the fake's run, with an agent, as it ends when nobody interrupts."""
    root = tmp_path_factory.mktemp("toy") / "run"
    play_whole_toy(root)
    return root


# Two judges, stale locks, other cases


def evopolicygym(*arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run the program, with the tests' agents at hand."""
    return subprocess.run(
        [sys.executable, "-m", "evopolicygym", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_second_judge_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    """While one process plays a run, another leaves with exit code 3; the journal stays as it was."""
    with RunWriter(tmp_path, replace(opening(), split="public")) as writer:  # type: ignore[arg-type] # as on disk
        before = writer.paths.journal.read_bytes()
        done = evopolicygym("resume", tmp_path, "--trust")

        assert (done.returncode, before) == (3, writer.paths.journal.read_bytes())
    assert str(tmp_path) in "".join(done.stderr.split())


@pytest.mark.parametrize("content", ["ours", "1", "99999999", ""])
def test_a_stale_lock_holds_nobody_up(tmp_path: Path, content: str) -> None:
    """A lock is held by a living descriptor: a file that names a process, living or dead, is none."""
    RunWriter(tmp_path, opening()).close()
    RunPaths(tmp_path).lock.write_text(content.replace("ours", str(os.getpid())), encoding="utf-8")
    with RunWriter(tmp_path) as writer:
        assert writer.state.stage is Stage.OPEN


def test_children_don_t_hold_the_lock(tmp_path: Path) -> None:
    """What a judge has started keeps nobody off its run once the judge is gone."""
    with RunWriter(tmp_path, opening()):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        RunWriter(tmp_path).close()
    finally:
        child.kill()
        child.wait()


def test_other_cases_are_refused(tmp_path: Path) -> None:
    """A run goes on with the cases that it committed to, and no others."""
    with RunWriter(tmp_path, opening()) as writer:
        job_builder(writer.state, Experiment("experiment", SECRET))
        with pytest.raises(RecordError):
            job_builder(writer.state, Experiment("experiment", bytes(32)))


# Signals


def assert_interrupted(root: Path, undisturbed: Path) -> None:
    """See that a run says that it was interrupted, and ended as if it had not been."""
    seen = events(RunPaths(root))
    stops = [(place, one) for place, one in enumerate(seen) if isinstance(one, RunStopped)]

    assert [one.reason for _, one in stops] == [StopReason.INTERRUPTED] or isinstance(seen[-1], RunFinished)
    assert len(stops) <= 1
    assert_the_same(root, undisturbed)


def test_no_call_slips_past(tmp_path: Path) -> None:
    """As many calls as are counted here are moments below."""
    disk = WatchedDisk()
    played_on(disk, play_whole_toy, tmp_path / "run")

    assert Counter(disk.calls) == CALLS


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_at_a_sample_of_moments(tmp_path: Path, undisturbed: Path, number: signal.Signals) -> None:
    """Whatever it is doing, a signal ends a run in good order, journaled, and it is resumed to the same record."""
    calls = [str(OPEN_BY + 11 * SIGNALS.index(number) + step) for step in (0, 75)]
    lived(tmp_path / "lives", *calls, by=number)

    for call in calls:
        stops = [one for one in events(RunPaths(tmp_path / "lives" / call)) if isinstance(one, RunStopped)]
        assert [one.reason for one in stops] == [StopReason.INTERRUPTED]
        assert_interrupted(tmp_path / "lives" / call, undisturbed)


@pytest.mark.nightly
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_at_every_moment(tmp_path: Path, undisturbed: Path, number: signal.Signals) -> None:
    """So it is at every write of a run, the last ones included."""
    calls = [str(call) for call in range(OPEN_BY + SIGNALS.index(number), sum(CALLS.values()), len(SIGNALS))]
    lived(tmp_path / "lives", *calls, by=number)

    for call in calls:
        assert_interrupted(tmp_path / "lives" / call, undisturbed)


# Clocks


class Jumping(datetime):
    """A clock that is set an hour forth or back at every look."""

    looks = count()

    @classmethod
    def now(cls, tz: Any = None) -> "Jumping":
        return cls.fromtimestamp(1_800_000_000 + (-1) ** next(cls.looks) * 3600, tz)


def test_a_wall_clock_that_jumps(tmp_path: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose wall clock jumps by an hour at every look ends with the same record, times aside."""
    monkeypatch.setattr(text, "datetime", Jumping)
    play_whole_toy(tmp_path / "run")
    opened = events(RunPaths(tmp_path / "run"))[1]

    assert abs(datetime.fromisoformat(opened.time) - datetime.now(UTC)) > timedelta(hours=1)  # type: ignore[union-attr]
    assert_the_same(tmp_path / "run", undisturbed)


def test_limits_know_no_wall_clock(tmp_path: Path) -> None:
    """A policy's time is measured by a clock that only goes forth: an hour more or less makes no difference to it."""
    with one_worker("process", spec("Plain"), tmp_path, change="jumping_clock") as ground:
        slow = ground.play_one(policy("time.sleep(0.05); return self.still"))

    assert (slow.episode.length, slow.episode.failure) == (STEPS, None)


def test_nobody_measures_by_the_wall_clock() -> None:
    """The wall clock is read where a time is written down, a run is named, or times of files are judged."""
    reads = re.compile(r"\btime\.time\(|\bfrom time import [^\n]*\btime\b|datetime\.now\(|CLOCK_REALTIME|utcnow")
    ours = [path for path in SOURCE.rglob("*.py") if path.parent.name != "attacks"]
    found = {str(path.relative_to(SOURCE)) for path in ours if reads.search(path.read_text())}

    assert found == {"agents/kit/acp_client.py", "core/text.py", "runs/run.py", "records/file_stamps.py"}


# An agent's program


def command_run(runs: Path, *program: str, budget: int = 2, isolation: str = "process") -> Any:
    """Return what asks for a small run of a program."""
    asked = config(runs, budget=budget, isolation=isolation)
    return replace(asked, agent=AgentConfig("command", command=program))


def ended(paths: RunPaths) -> list[str]:
    return [one.end for one in events(paths) if isinstance(one, AgentEnded)]


def test_a_program_that_is_nowhere(tmp_path: Path) -> None:
    """A program that isn't there is named, with exit code 2, before there is a record."""
    done = evopolicygym("run", "cartpole", "--runs", tmp_path / "runs", "--", "no-such-program")

    assert done.returncode == 2, done.stderr
    assert "no-such-program" in done.stderr
    assert list(find_runs(tmp_path / "runs")) == []


@pytest.mark.parametrize("isolation", ["process", "bubblewrap"])
def test_a_program_that_is_missing(tmp_path: Path, isolation: str) -> None:
    """A program that isn't in the workspace is named, with exit code 5; the run waits to be resumed."""
    numbers = ("--budget", 2, "--validation", 1, "--held-out", 1, "--workers", 1, "--isolation", isolation)
    done = evopolicygym("run", "cartpole", "--runs", tmp_path / "runs", *numbers, "--", "system/no-such-program")
    if done.returncode == 4:
        pytest.skip(done.stderr)
    (root,) = find_runs(tmp_path / "runs")
    seen = events(RunPaths(root))

    assert done.returncode == 5, done.stderr
    assert "no-such-program" in done.stderr
    assert (read_run(root).state.stage, ended(RunPaths(root))) == (Stage.OPEN, [])
    assert isinstance(seen[-1], RunStopped)
    assert seen[-1].reason is StopReason.AGENT


@pytest.mark.parametrize("script", ["exit 3", "kill -SEGV $$"])
def test_a_program_that_crashes(tmp_path: Path, script: str) -> None:
    """A program that dies has had its turn: the run closes on what there is, here nothing, and says so."""
    told = played(command_run(tmp_path / "runs", "sh", "-c", f"echo last words; {script}"))

    assert ended(told.paths) == ["crashed"]
    assert told.state.finished is not None
    assert told.state.finished.status is RunStatus.NO_OK_SUBMIT


def test_a_program_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that stays when the budget is spent, and won't be told to leave, is killed; the run is scored."""
    monkeypatch.setattr(program, "GRACE_S", 0.3)
    monkeypatch.setattr(turns, "AGENT_LAST_WORDS_S", 0.3)
    script = "./judge submit 0-1; trap '' TERM; while :; do sleep 0.1; done"
    told = played(command_run(tmp_path / "runs", "sh", "-c", script))

    assert ended(told.paths) == ["stopped"]
    assert told.state.finished is not None
    assert told.state.finished.status is RunStatus.SCORED


def test_a_program_that_floods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 8 MB that a program prints, as much is kept as is allowed; it is read to its end, and the run is scored."""
    monkeypatch.setattr(program, "OUTPUT_BYTES", 1 << 20)
    script = "head -c 8388608 /dev/zero | tr '\\0' x; ./judge submit 0-1"
    told = played(command_run(tmp_path / "runs", "sh", "-c", script))

    assert told.paths.transcript.stat().st_size == (1 << 20) + len(program.CUT)
    assert told.state.finished is not None
    assert (ended(told.paths), told.state.finished.status) == (["finished"], RunStatus.SCORED)


def test_a_torn_or_zeroed_end_is_cut_and_told(tmp_path: Path, undisturbed: Path) -> None:
    """A run whose last lines are torn or zeros goes on from the line before, and who opens it can say what was cut."""
    lines = RunPaths(undisturbed).journal.read_bytes().splitlines(keepends=True)
    for name, end in {"torn": lines[-1][:50], "zeros": bytes(4096), "both": lines[-1][:50] + bytes(100)}.items():
        root = tmp_path / name
        play_whole_toy(root)
        kept = RunPaths(root).journal.read_bytes().splitlines(keepends=True)
        RunPaths(root).journal.write_bytes(b"".join(kept[:-1]) + end)
        guard_beside(root).path.unlink()  # which never knew of a line that was not on disk

        assert read_run(root).torn == len(end)
        play_whole_toy(root)
        assert isinstance(journal.read(RunPaths(root).journal).events[0], RunOpened)
        assert_the_same(root, undisturbed)
