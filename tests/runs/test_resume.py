"""Killed at any moment and resumed, a run ends with the same record as if nothing had happened."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import sleep

import pytest

from dying import play_toy, spend
from evopolicygym.core.errors import RecordError
from evopolicygym.core.event import AgentStarted, EpisodePlayed, RunResumed, SubmissionPublished
from evopolicygym.core.rollout import Grounds
from evopolicygym.core.run import RunState, Stage, fold
from evopolicygym.judge.finalize import finalize
from evopolicygym.records import journal
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.records.run_names import find_runs
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.runs import run as runs
from evopolicygym.runs import verify
from evopolicygym.runs.run import resume
from fakes import open_run
from places import SUPPORT
from sameness import positions, told
from whole_runs import BUDGET, config, events, played

EVOLVER = ("--agent", "players:make_evolver")
TOY_EVENTS = 23
"""Of the fake's run, after its opening."""
REAL_EVENTS = 32
"""As above, of a real one."""
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


# The fake's run: every moment


@pytest.fixture(scope="module")
def whole_toy(tmp_path_factory: pytest.TempPathFactory) -> RunState:
    """Return the fake's run, as it ends when nobody dies."""
    root = tmp_path_factory.mktemp("toy") / "run"
    play_toy(root, -1)
    return read_run(root).state


def test_the_toy_has_as_many_moments(whole_toy: RunState, tmp_path: Path) -> None:
    """Every event of the fake's run is a moment below."""
    play_toy(tmp_path / "run", -1)

    assert len(events(RunPaths(tmp_path / "run"))) == TOY_EVENTS + 1
    assert whole_toy.stage is Stage.FINISHED


@pytest.mark.parametrize("moment", range(1, TOY_EVENTS + 1))
def test_death_after_any_event(tmp_path: Path, whole_toy: RunState, moment: int) -> None:
    """Killed right after any line of the journal, a run ends the same, and no finished episode is played again."""
    root = tmp_path / "run"
    died = subprocess.run(program(SUPPORT / "dying.py", "--toy", root, moment), env=environment(), check=False)
    with open_run(root) as run:
        if run.session.state.stage is Stage.OPEN:
            spend(run.session, run.paths.system)
        finalize(run.rollouts)
        state, again = run.session.state, [job.position for _, job, _ in run.executor.played]

    assert died.returncode == -signal.SIGKILL
    assert told(whole_toy) == told(state)
    assert len(positions(run.paths)) == len(set(positions(run.paths)))
    assert len(again) == len(positions(run.paths)) - sum(
        isinstance(event, EpisodePlayed) for event in events(run.paths)[: moment + 1]
    )
    assert sorted(path.name for path in run.paths.feedback.iterdir()) == ["submit_000", "submit_001", "submit_002"]


# Real runs: a few moments, from inside and from outside


@pytest.fixture(scope="module")
def experiment_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the runs of one experiment lie, with its secret."""
    return tmp_path_factory.mktemp("experiment")


@pytest.fixture
def home(experiment_place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the secret of all runs below in one place; return where the runs lie."""
    monkeypatch.setenv("XDG_STATE_HOME", str(experiment_place / "state"))
    return experiment_place / "runs"


@pytest.fixture
def undisturbed(home: Path, experiment_place: Path) -> RunState:
    """Return a run that nothing happens to; it is played once."""
    kept = experiment_place / "undisturbed"
    if not kept.exists():
        kept.write_text(str(played(config(home)).paths.root), encoding="utf-8")
    return read_run(Path(kept.read_text(encoding="utf-8"))).state


@contextmanager
def one_more_run(home: Path) -> Iterator[list[Path]]:
    """Yield a list that holds, at the end, the directory of the run that was begun meanwhile."""
    before, found = set(find_runs(home)), list[Path]()
    yield found
    found.extend(set(find_runs(home)) - before)


@pytest.mark.parametrize(
    "moment",
    [
        1,
        4,
        20,
        *(
            pytest.param(moment, marks=pytest.mark.nightly)
            for moment in range(1, REAL_EVENTS)
            if moment not in (1, 4, 20)
        ),
    ],
)
def test_a_real_run_after_death(home: Path, undisturbed: RunState, moment: int) -> None:
    """A real run, killed with all its processes after its n-th event, ends the same."""
    with one_more_run(home) as found:
        died = subprocess.run(program(SUPPORT / "dying.py", home, moment), env=environment(), check=False)

    assert died.returncode == -signal.SIGKILL
    assert_unharmed(found[0], undisturbed)


def started(home: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Start a run by the command line, in a session of its own."""
    command = program("-m", "evopolicygym", "run", "cartpole", "--runs", home)
    numbers = ("--budget", BUDGET, "--validation", 2, "--held-out", 3, "--workers", 1)
    return subprocess.Popen(
        [*command, *map(str, numbers), *arguments],
        env=environment(),
        start_new_session=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def wait_for_journal(
    home: Path, before: set[Path], process: "subprocess.Popen[str]", size: int = 0, word: bytes = b""
) -> None:
    """Wait until the run's journal has grown so far and holds a word, or the run has ended."""
    while process.poll() is None:
        fresh = [(run / "journal.jsonl").read_bytes() for run in find_runs(home) if run not in before]
        if fresh and len(fresh[0]) >= size and word in fresh[0]:
            return
        sleep(0.001)


@pytest.mark.parametrize(
    "size", [DELAYS[0], DELAYS[1], *(pytest.param(size, marks=pytest.mark.nightly) for size in DELAYS[2:])]
)
def test_a_real_run_killed_from_outside(home: Path, undisturbed: RunState, size: int) -> None:
    """The whole process group is killed in the middle of whatever it does; taken up, the run ends the same."""
    before = set(find_runs(home))
    with one_more_run(home) as found, started(home, *EVOLVER) as process:
        wait_for_journal(home, before, process, size)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    assert_unharmed(found[0], undisturbed)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_orderly_stop(home: Path, undisturbed: RunState, number: signal.Signals) -> None:
    """Interrupted by a signal the program exits with 130, names the run, and it can be resumed."""
    before = set(find_runs(home))
    with one_more_run(home) as found, started(home, *EVOLVER) as process:
        wait_for_journal(home, before, process, 7_000)
        process.send_signal(number)
        _, complaint = process.communicate()

    assert process.returncode == 130
    assert f"evopolicygym resume {found[0]}" in " ".join(complaint.split())
    assert_unharmed(found[0], undisturbed)


@pytest.mark.nightly
def test_a_stop_in_the_middle_of_a_long_episode(tmp_path: Path) -> None:
    """Who interrupts a run need not wait for the episode in play to end; that one will be played again."""
    process = started(tmp_path, "--agent", "players:make_sleeper")
    with process:
        wait_for_journal(tmp_path, set(), process, word=b"submission_charged")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    state = read_run(next(iter(find_runs(tmp_path)))).state

    assert process.returncode == 130
    assert (state.spent, state.submissions[0].missing) == (2, (0, 1))


def test_feedback_that_was_not_in_place(stopped: Path, undisturbed: RunState) -> None:
    """A crash between the record and the rename leaves feedback in staging; it is put in place."""
    paths = RunPaths(stopped)
    last = [event for event in events(paths) if isinstance(event, SubmissionPublished)][-1].submit_index
    paths.published(last).chmod(0o755)
    paths.published(last).rename(paths.staged(last))

    assert_unharmed(stopped, undisturbed)


def test_a_torn_last_line(stopped: Path, undisturbed: RunState) -> None:
    """A line that was being written when the machine went down is cut off, and the run goes on."""
    path = RunPaths(stopped).journal
    path.write_bytes(path.read_bytes() + path.read_bytes()[:200] + bytes(3000))

    assert_unharmed(stopped, undisturbed)


@pytest.fixture
def stopped(home: Path, experiment_place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of a run that was killed; it died once, and is copied with the state of its user."""
    kept, state = experiment_place / "stopped", experiment_place / "state when stopped"
    if not kept.exists():
        with one_more_run(home) as found:
            subprocess.run(program(SUPPORT / "dying.py", home, 12), env=environment(), check=False)
        shutil.copytree(experiment_place / "state", state)
        kept.symlink_to(found[0])
    monkeypatch.setenv("XDG_STATE_HOME", str(shutil.copytree(state, tmp_path / "state when stopped")))
    return Path(shutil.copytree(kept, tmp_path / "run"))


@pytest.mark.parametrize("named", ["numpy", "python", "gymnasium"])
def test_other_versions_are_refused(stopped: Path, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    """Under other versions than it was begun with a run does not go on, and the difference is named."""
    really = LocalExecutor.grounds.fget
    assert really is not None

    def elsewhere(executor: LocalExecutor) -> Grounds:
        grounds: Grounds = really(executor)
        return replace(grounds, versions={**grounds.versions, named: "0.1"})

    monkeypatch.setattr(LocalExecutor, "grounds", property(elsewhere))
    before = RunPaths(stopped).journal.read_bytes()

    with pytest.raises(RecordError, match=f"begun with: {named} .* then, 0.1 here"):
        take_up(stopped)
    assert before == RunPaths(stopped).journal.read_bytes()


def test_another_protocol_is_refused(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run goes on under the protocol that it was begun with, and no other."""
    monkeypatch.setattr(runs, "PROTOCOL_VERSION", "2.0")

    with pytest.raises(RecordError, match=r"protocol_version 1\.0, here is 2\.0"):
        take_up(stopped)


def test_a_second_player_is_refused(stopped: Path) -> None:
    """While one process plays a run, no other can take it up."""
    from evopolicygym.records.writer import RunWriter

    with RunWriter(stopped), pytest.raises(RecordError, match="played by another process"):
        take_up(stopped)


def test_a_resumption_is_recorded(stopped: Path) -> None:
    """run.json and the journal say when a run was resumed."""
    take_up(stopped)
    document = json.loads(RunPaths(stopped).document.read_text(encoding="utf-8"))
    times = [event.time for event in events(RunPaths(stopped)) if isinstance(event, RunResumed)]

    assert times == document["timing"]["resumed_at"]
    assert len(times) == 1


def test_the_agent_plays_its_turn_again(stopped: Path) -> None:
    """A turn that was cut off is played again, and counts once."""
    state = take_up(stopped)
    begun = [event.turn for event in events(RunPaths(stopped)) if isinstance(event, AgentStarted)]

    assert (begun, state.turns) == ([0, 0], 1)


def test_a_run_that_died_can_be_verified(stopped: Path) -> None:
    """A record that is not finished holds no fault for that."""
    assert [one for one in verify.findings(stopped) if not one.ok] == []
    assert fold(journal.read(RunPaths(stopped).journal).events).stage is Stage.OPEN


def test_the_undisturbed_run_has_as_many_moments(undisturbed: RunState, home: Path) -> None:
    """Every event of a real run is a moment above."""
    lengths = {len(events(RunPaths(root))) for root in find_runs(home) if read_run(root).state == undisturbed}

    assert {REAL_EVENTS + 1} == lengths
