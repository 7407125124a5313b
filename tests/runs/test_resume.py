"""Killed at any moment and resumed, a run ends with the same record as if nothing had happened."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dying import play_toy, spend
from evopolicygym.core.errors import RecordError
from evopolicygym.core.event import AgentStarted, EpisodePlayed, RunResumed, SubmissionPublished
from evopolicygym.core.rollout import ExecutorInfo
from evopolicygym.core.run import RunState, Stage, fold
from evopolicygym.judge.rollouts import finalize
from evopolicygym.records import journal, verify
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import find_runs, read_run
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.runs import run as runs
from evopolicygym.runs.run import resume
from fakes import open_run
from places import SUPPORT
from played_runs import PlayedRun
from players import EVOLVER_HALTS_AFTER, HALT
from sameness import positions, told
from suites import is_over, killed_at_the_end, wait_for
from whole_runs import BUDGET, events

EVOLVER = ("--agent", "players:make_evolver")
TOY_EVENTS = 23
"""Of the fake's run, after its opening."""
REAL_EVENTS = 32
"""As above, of a real one."""
NAMED = ("SubmissionCharged", "EpisodePlayed", "SubmissionPublished", "RunClosed", "CheckpointSelected")
"""Events of the fake's run after which it dies in the gate."""
REAL_NAMED = ("EpisodePlayed", "RunClosed")
"""As above, of a real one."""
Grown = Callable[[bytes], bool]
"""Whether a journal holds what is waited for."""
DELAYS = random.Random(7).sample(range(200, 16_000), 8)  # noqa: S311 - no secret
"""Sizes of the journal, in bytes, at which a run is killed from outside."""


def program(*arguments: object) -> list[str]:
    return [sys.executable, *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), *sys.path])}


def take_up(root: Path) -> RunState:
    return resume(root, 1, lambda _paths, _state: None, lambda _event, _state: None)


def assert_unharmed(root: Path, undisturbed: RunState) -> None:
    """Compare a run that was resumed with one that nothing happened to."""
    paths = RunPaths(root)

    assert told(undisturbed) == told(take_up(root))
    assert len(positions(paths)) == len(set(positions(paths)))
    assert [one for one in verify.findings(root) if not one.ok] == []
    assert list(paths.staging.iterdir()) == []


def moment_of(root: Path, name: str) -> int:
    """Return the place of the first event of a kind, counted from 0, which is the opening's."""
    return next(place for place, event in enumerate(events(RunPaths(root))) if type(event).__name__ == name)


# The fake's run: every moment


@pytest.fixture(scope="module")
def whole_toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the record of the fake's run, as it ends when nobody dies."""
    root = tmp_path_factory.mktemp("toy") / "run"
    play_toy(root, -1)
    return root


def test_the_toy_has_as_many_moments(whole_toy: Path) -> None:
    """Every event of the fake's run is a moment below."""
    assert len(events(RunPaths(whole_toy))) == TOY_EVENTS + 1
    assert read_run(whole_toy).state.stage is Stage.FINISHED


@pytest.mark.parametrize("name", NAMED)
def test_death_after_an_event(tmp_path: Path, whole_toy: Path, name: str) -> None:
    """Killed right after an event's line in the journal, a run ends the same, and repeats no finished episode."""
    assert_toy_survives(tmp_path / "run", whole_toy, moment_of(whole_toy, name))


@pytest.mark.nightly
@pytest.mark.parametrize("moment", range(1, TOY_EVENTS + 1))
def test_death_after_any_event(tmp_path: Path, whole_toy: Path, moment: int) -> None:
    """It is so after every line of the journal."""
    assert_toy_survives(tmp_path / "run", whole_toy, moment)


def assert_toy_survives(root: Path, whole_toy: Path, moment: int) -> None:
    """Have the fake's run die after its n-th event, and play it on to its end."""
    died = subprocess.run(program(SUPPORT / "dying.py", "--toy", root, moment), env=environment(), check=False)
    with open_run(root) as run:
        if run.session.state.stage is Stage.OPEN:
            spend(run.session, run.paths.system)
        finalize(run.rollouts)
        state, again = run.session.state, [job.position for _, job, _ in run.executor.played]

    assert died.returncode == -signal.SIGKILL
    assert told(read_run(whole_toy).state) == told(state)
    assert len(positions(run.paths)) == len(set(positions(run.paths)))
    assert len(again) == len(positions(run.paths)) - sum(
        isinstance(event, EpisodePlayed) for event in events(run.paths)[: moment + 1]
    )
    assert sorted(path.name for path in run.paths.feedback.iterdir()) == ["submit_000", "submit_001", "submit_002"]


# Real runs: a few moments, from inside and from outside


@pytest.fixture(scope="module")
def experiment(played_run: PlayedRun, tmp_path_factory: pytest.TempPathFactory) -> PlayedRun:
    """Return a run that nothing happened to, below a directory in which runs of its experiment are played."""
    return played_run.copied(tmp_path_factory.mktemp("experiment"))


@pytest.fixture
def home(experiment: PlayedRun, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the secret of all runs below in one place; return where the runs lie."""
    monkeypatch.setenv("XDG_STATE_HOME", str(experiment.state_home))
    return experiment.runs


@pytest.fixture
def undisturbed(experiment: PlayedRun) -> RunState:
    """Return the run that nothing happened to."""
    return experiment.state


@contextmanager
def one_more_run(home: Path) -> Iterator[list[Path]]:
    """Yield a list that holds, at the end, the directory of the run that was begun meanwhile."""
    before, found = set(find_runs(home)), list[Path]()
    yield found
    found.extend(set(find_runs(home)) - before)


@pytest.mark.parametrize("name", REAL_NAMED)
def test_a_real_run_after_death(home: Path, experiment: PlayedRun, name: str) -> None:
    """A real run, killed with all its processes after an event, ends the same."""
    assert_real_run_survives(home, experiment, moment_of(experiment.paths.root, name))


@pytest.mark.nightly
@pytest.mark.parametrize("moment", range(1, REAL_EVENTS))
def test_a_real_run_after_death_at_any_event(home: Path, experiment: PlayedRun, moment: int) -> None:
    """It is so after each of its events."""
    assert_real_run_survives(home, experiment, moment)


def assert_real_run_survives(home: Path, experiment: PlayedRun, moment: int) -> None:
    """Have a real run die after its n-th event, and resume it."""
    with one_more_run(home) as found:
        died = subprocess.run(program(SUPPORT / "dying.py", home, moment), env=environment(), check=False)

    assert died.returncode == -signal.SIGKILL
    assert_unharmed(found[0], experiment.state)


@contextmanager
def started(home: Path, *arguments: str, halts: bool = False) -> Iterator["subprocess.Popen[str]"]:
    """Start a run by the command line, in a session of its own; its agent waits in the middle where that is asked."""
    command = program("-m", "evopolicygym", "run", "cartpole", "--runs", home)
    numbers = ("--budget", BUDGET, "--validation", 2, "--held-out", 3, "--workers", 1)
    process = subprocess.Popen(
        [*command, *map(str, numbers), *arguments],
        env=environment() | ({HALT: "1"} if halts else {}),
        start_new_session=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with killed_at_the_end(process):
        yield process


def wait_for_journal(home: Path, before: set[Path], process: "subprocess.Popen[str]", grown: Grown) -> None:
    """Wait until the new run's journal holds what is asked, or the run has ended; its process is left to be reaped."""

    def came() -> bool:
        return any(grown((run / "journal.jsonl").read_bytes()) for run in find_runs(home) if run not in before)

    wait_for(lambda: came() or is_over(process.pid), "what the journal is to hold")


@pytest.mark.nightly
@pytest.mark.parametrize("size", DELAYS)
def test_a_real_run_killed_from_outside(home: Path, undisturbed: RunState, size: int) -> None:
    """The whole process group is killed in the middle of whatever it does; taken up, the run ends the same."""
    before = set(find_runs(home))
    with one_more_run(home) as found, started(home, *EVOLVER) as process:
        wait_for_journal(home, before, process, lambda journal: len(journal) >= size)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    assert_unharmed(found[0], undisturbed)


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGINT, marks=pytest.mark.nightly),
        pytest.param(signal.SIGHUP, marks=pytest.mark.nightly),
    ],
)
def test_an_orderly_stop(home: Path, undisturbed: RunState, number: signal.Signals) -> None:
    """Interrupted by a signal the program exits with 130, names the run, and it can be resumed."""
    before = set(find_runs(home))
    with one_more_run(home) as found, started(home, *EVOLVER, halts=True) as process:
        wait_for_journal(
            home, before, process, lambda journal: journal.count(b"submission_published") == EVOLVER_HALTS_AFTER
        )
        process.send_signal(number)
        _, complaint = process.communicate()

    assert process.returncode == 130
    assert f"evopolicygym resume {found[0]}" in " ".join(complaint.split())
    assert_unharmed(found[0], undisturbed)


@pytest.mark.nightly
def test_a_stop_in_the_middle_of_a_long_episode(tmp_path: Path) -> None:
    """Who interrupts a run need not wait for the episode in play to end; that one will be played again."""
    with started(tmp_path, "--agent", "players:make_sleeper") as process:
        wait_for_journal(tmp_path, set(), process, lambda journal: b"submission_charged" in journal)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    state = read_run(next(iter(find_runs(tmp_path)))).state

    assert process.returncode == 130
    assert (state.spent, state.submissions[0].missing) == (2, (0, 1))


def test_feedback_that_was_not_in_place(stopped: Path, undisturbed: RunState) -> None:
    """A crash between the record and the rename leaves feedback in staging; it is put in place."""
    paths = RunPaths(stopped)
    last = [event for event in events(paths) if isinstance(event, SubmissionPublished)][-1].submit_index
    paths.published_feedback(last).chmod(0o755)
    paths.published_feedback(last).rename(paths.staged_feedback(last))

    assert_unharmed(stopped, undisturbed)


def test_a_torn_last_line(stopped: Path, undisturbed: RunState) -> None:
    """A line that was being written when the machine went down is cut off, and the run goes on."""
    path = RunPaths(stopped).journal
    path.write_bytes(path.read_bytes() + path.read_bytes()[:200] + bytes(3000))

    assert_unharmed(stopped, undisturbed)


@pytest.fixture(scope="module")
def killed(played_run: PlayedRun, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the directory of a run that was killed, and the state of its user."""
    place = played_run.copied(tmp_path_factory.mktemp("killed"))
    words = {"XDG_STATE_HOME": str(place.state_home)}
    with one_more_run(place.runs) as found:
        subprocess.run(program(SUPPORT / "dying.py", place.runs, 12), env=environment() | words, check=False)
    return found[0], place.state_home


@pytest.fixture
def stopped(killed: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of a copy of that run, with a copy of its user's state."""
    root, state = killed
    monkeypatch.setenv("XDG_STATE_HOME", str(shutil.copytree(state, tmp_path / "state when stopped")))
    sparse = shutil.ignore_patterns("workers")  # what workers left is large to copy, and removed by whoever resumes
    return Path(shutil.copytree(root, tmp_path / "run", ignore=sparse))


@pytest.mark.parametrize(
    "named", ["numpy", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("python", "gymnasium"))]
)
def test_other_versions_are_refused(stopped: Path, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    """Under other versions than it was begun with a run does not go on, and the difference is named."""
    really = LocalExecutor.info.fget
    assert really is not None

    def elsewhere(executor: LocalExecutor) -> ExecutorInfo:
        info: ExecutorInfo = really(executor)
        return replace(info, versions={**info.versions, named: "0.1"})

    monkeypatch.setattr(LocalExecutor, "info", property(elsewhere))
    before = RunPaths(stopped).journal.read_bytes()

    with pytest.raises(RecordError, match=f"{named} .*0\\.1"):
        take_up(stopped)
    assert before == RunPaths(stopped).journal.read_bytes()


def test_another_protocol_is_refused(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run goes on under the protocol that it was begun with, and no other."""
    monkeypatch.setattr(runs, "PROTOCOL_VERSION", "2.0")

    with pytest.raises(RecordError, match=r"expected 2\.0, got 1\.0"):
        take_up(stopped)


def test_a_second_player_is_refused(stopped: Path) -> None:
    """While one process plays a run, no other can take it up."""
    from evopolicygym.records.writer import RunWriter

    with RunWriter(stopped), pytest.raises(RecordError):
        take_up(stopped)


def test_a_resumption_is_recorded(stopped: Path) -> None:
    """run.json and the journal say when a run was resumed; the turn that was cut off is played again, counted once."""
    state = take_up(stopped)
    document = json.loads(RunPaths(stopped).document.read_text(encoding="utf-8"))
    times = [event.time for event in events(RunPaths(stopped)) if isinstance(event, RunResumed)]
    begun = [event.turn for event in events(RunPaths(stopped)) if isinstance(event, AgentStarted)]

    assert times == document["timing"]["resumed_at"]
    assert len(times) == 1
    assert (begun, state.turns) == ([0, 0], 1)


def test_a_run_that_died_can_be_verified(stopped: Path) -> None:
    """A record that is not finished holds no fault for that."""
    assert [one for one in verify.findings(stopped) if not one.ok] == []
    assert fold(journal.read(RunPaths(stopped).journal).events).stage is Stage.OPEN


def test_the_undisturbed_run_has_as_many_moments(played_run: PlayedRun) -> None:
    """Every event of a real run is a moment above."""
    assert len(events(played_run.paths)) == REAL_EVENTS + 1
