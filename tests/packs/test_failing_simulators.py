"""What a pack's simulator does to a run when it fails: an error that names it, nothing lost, nothing left."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import evopolicygym
import unruly_pack
from evopolicygym.checks import inspection
from evopolicygym.core.causes import RULES, Cause, Outcome, Rule
from evopolicygym.core.errors import EnvironmentFault
from evopolicygym.environments import description
from evopolicygym.records.reader import find_runs, read_run
from evopolicygym.rollout import messages, worker_process
from evopolicygym.rollout.executors import local
from playground import local_executor, policy

pytestmark = pytest.mark.nightly

CASES = 2, 3
SMALL = {"budget": 2, "validation": 1, "held_out": 1, "workers": 1}


@pytest.fixture(autouse=True)
def _pack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the pack whose simulators misbehave."""
    unruly_pack.lay(monkeypatch)


def test_a_pack_that_fails_as_it_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No run is begun, and the error names the task, the pack and what its module raised."""
    unruly_pack.lay(monkeypatch, "unruly_import")
    with pytest.raises(EnvironmentFault, match=r"Quiet-v0.*ZeroDivisionError.*'unruly'"):
        evopolicygym.run("Quiet-v0", "random", runs=tmp_path / "runs", **SMALL)

    assert list(tmp_path.glob("runs/*/*")) == []


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Raising", "KeyError: 1"),
        ("Exiting", "exit code 3"),
        ("Segfaulting", "exit code (-11|139)"),
        ("Leaking", "Memory"),
    ],
)
def test_a_simulator_that_fails_as_it_is_made(name: str, why: str, tmp_path: Path) -> None:
    """No run is begun, and the error names the task, the pack and what happened."""
    with pytest.raises(EnvironmentFault, match=rf"(?s){name}Early-v0.*{why}.*'unruly'"):
        evopolicygym.run(f"{name}Early-v0", "random", runs=tmp_path / "runs", **SMALL)

    assert list(tmp_path.glob("runs/*/*")) == []


@pytest.mark.parametrize("level", ["bubblewrap", pytest.param("process", marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Raising", "KeyError: 1"),
        ("Segfaulting", "exit code -11"),
        ("Leaking", "MemoryError"),
        ("Closing", "process ended"),
    ],
)
def test_a_simulator_that_fails_while_it_plays(name: str, why: str, level: str, tmp_path: Path) -> None:
    """Its case is played three times; then the error names the case, the task, the pack and what happened."""
    spec = unruly_pack.spec(f"{name}-v0")
    with (
        local_executor(level, spec, tmp_path) as ground,
        pytest.raises(EnvironmentFault, match=rf"Case 0 .*{name}-v0.*'unruly'.*\b3\b.*{why}"),
    ):
        ground.play(policy(), *CASES)

    assert len(ground.repeated) == local.ATTEMPTS - 1


def test_a_simulator_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that never ends being made is given up, and so is one that never ends being reset; both are named."""
    monkeypatch.setattr(description, "PATIENCE_S", 2.0)
    with pytest.raises(EnvironmentFault, match=r"HangingEarly-v0.*\b2 s.*'unruly'"):
        unruly_pack.spec("HangingEarly-v0")
    monkeypatch.setattr(description, "PATIENCE_S", 120.0)
    monkeypatch.setattr(local, "HANG_S", 15.0)
    monkeypatch.setattr(messages, "RULES", {**RULES, Cause.ENVIRONMENT: Rule(Outcome.RUN_STOPS)})
    spec = unruly_pack.spec("Hanging-v0")
    with (
        local_executor("bubblewrap", spec, tmp_path) as ground,
        pytest.raises(EnvironmentFault, match=r"Hanging-v0.*'unruly'.*exit code -14"),
    ):
        ground.play(policy(), *CASES)


def test_a_run_goes_on_once_its_simulator_is_mended(tmp_path: Path) -> None:
    """A run that its simulator stops is charged once, and ends as any other when it is resumed."""
    runs = tmp_path / "runs"
    with pytest.raises(EnvironmentFault, match=r"'unruly'.*\b3\b"):
        evopolicygym.run("Segfaulting-v0", "random", runs=runs, **SMALL)
    (root,) = find_runs(runs)
    (tmp_path / "data" / "mended").touch()
    run = evopolicygym.resume(root)

    assert run.score == 3.0
    assert read_run(root).state.spent == 2
    assert [one.ok for one in evopolicygym.verify(root).findings if not one.ok] == []


@pytest.fixture
def adopted() -> Iterator[None]:
    """Have orphans come to this process, where they are seen."""
    with inspection.orphans_adopted():
        yield


@pytest.mark.usefixtures("adopted")
@pytest.mark.parametrize("level", ["bubblewrap", "process"])
def test_processes_that_a_simulator_leaves(level: str, tmp_path: Path) -> None:
    """They end with the worker, also those in a session of their own."""
    before = inspection.descendants(os.getpid())
    with local_executor(level, unruly_pack.spec("Parenting-v0"), tmp_path) as ground:
        ground.play(policy(), *CASES)
        during = inspection.descendants(os.getpid()) - before
    left = inspection.left_beyond(len(before))
    inspection.end_adopted(before)

    assert len(during) >= 2 * len(CASES)
    assert left == 0


def test_what_a_simulator_prints_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Megabytes on both outputs neither reach the worker's answers nor fill the disk; the log says that it was cut."""
    monkeypatch.setattr(worker_process, "MAX_LOG_BYTES", 1 << 20)
    monkeypatch.setattr(worker_process, "KEPT_LOG_BYTES", 1 << 16)
    begun = time.monotonic()
    with local_executor("process", unruly_pack.spec("Flooding-v0"), tmp_path) as ground:
        played = ground.play(policy(), *CASES)
    log = (tmp_path / "log").read_bytes()

    assert [one.episode.episode_return for one in played] == [3.0, 3.0]
    assert len(log) < 1 << 20
    assert worker_process.CUT_MARK in log
    assert time.monotonic() - begun < 60
