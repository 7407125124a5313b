"""Several people share a directory of runs: a group reads, others play the public split, messages say what helps."""

import os
import shutil
import stat
from pathlib import Path

import pytest

import evopolicygym
from evopolicygym.core.directories import state_directory
from evopolicygym.core.errors import UsageError
from evopolicygym.records.group_access import GROUP, open_to_group
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.records.writer import RunWriter
from evopolicygym.runs.run import resume
from shell import Shell

QUICK = {"agent": "random", "budget": 2, "validation": 1, "held_out": 2, "workers": 1, "isolation": "none"}


def play(runs: Path, **options: object) -> RunPaths:
    """Play a quick run; return its paths."""
    run = evopolicygym.run("cartpole", runs=str(runs), **{**QUICK, **options})  # type: ignore[arg-type]
    return RunPaths(Path(run.path))


def mode(path: Path) -> int:
    """Return the mode of a file or a directory."""
    return stat.S_IMODE(path.lstat().st_mode)


def unfinished(paths: RunPaths) -> Path:
    """Cut a run's event log back to its first event, as after a kill; return the run directory."""
    first = paths.journal.read_bytes().splitlines(keepends=True)[0]
    paths.journal.write_bytes(first)
    paths.document.unlink()
    for left in (*paths.feedback.iterdir(), paths.evaluation, *paths.checkpoints.iterdir()):
        shutil.rmtree(left)
    return paths.root


def take_up(root: Path, *, trusted: bool) -> None:
    """Resume a run."""
    resume(root, 1, lambda _paths, _state: None, lambda _event, _state: None, trusted=trusted)


def test_a_group_reads_a_run(tmp_path: Path) -> None:
    """Whatever the umask, a readable run is open to its group but for what its agent could write; replay works."""
    before = os.umask(0o077)
    try:
        paths = play(tmp_path / "runs", readable=GROUP, isolation="auto")
    finally:
        os.umask(before)
    judges = [paths.root, paths.checkpoints, paths.evaluation, paths.logs, *paths.evaluation.rglob("*")]

    assert {mode(path) for path in judges if path.is_dir() and path != paths.checkpoints} == {0o750}
    assert {mode(path) for path in (paths.journal, paths.document, *paths.evaluation.rglob("*.json"))} == {0o640}
    assert all(mode(path) & 0o040 for path in paths.checkpoints.rglob("*"))
    assert mode(paths.workspace) == 0o700
    assert all(mode(path) & 0o050 == 0o050 for path in paths.root.parents[:3])
    assert mode(paths.root.parents[2] / "experiment.json") & 0o040
    assert read_run(paths.root).state.opened.readable == GROUP
    assert evopolicygym.verify(paths.root, replay=True).ok


def test_a_run_is_its_owners_by_default(tmp_path: Path) -> None:
    """Without the option nobody else enters a run directory, and the record doesn't mention it."""
    paths = play(tmp_path)
    assert mode(paths.root) == 0o700
    assert '"readable"' not in paths.document.read_text(encoding="utf-8")
    with pytest.raises(UsageError, match="readable"):
        play(tmp_path / "other", readable="all")
    assert not (tmp_path / "other").exists()


def test_a_run_that_is_open_is_closed_to_the_group(tmp_path: Path) -> None:
    """While a process has a readable run open, its owner alone enters it."""
    paths = play(tmp_path, readable=GROUP)
    with RunWriter(paths.root):
        assert mode(paths.root) == 0o700
    assert mode(paths.root) == 0o750


def test_what_an_agent_left_stays_closed(tmp_path: Path) -> None:
    """A home that an agent opened, with a set-user-ID program, is closed again; links stay as they are."""
    paths = RunPaths(tmp_path / "run")
    home, elsewhere = paths.root / "home", tmp_path / "elsewhere"
    for directory in (home, paths.logs, elsewhere):
        directory.mkdir(parents=True)
    (home / "program").touch()
    (home / "program").chmod(0o4755)
    home.chmod(0o777)
    (elsewhere / "file").touch(0o600)
    (paths.logs / "link").symlink_to(elsewhere)
    (paths.logs / "hard").hardlink_to(elsewhere / "file")
    open_to_group(paths)

    assert (mode(home), mode(paths.root), mode(paths.logs)) == (0o700, 0o750, 0o750)
    assert mode(elsewhere / "file") == 0o600


def test_the_public_split_in_anothers_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another user began the experiment, the public split is played, verified, and pooled with theirs."""
    first = play(tmp_path / "runs", split="public")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    second = play(tmp_path / "runs", split="public", seed=1)
    opened = [read_run(paths.root).state.opened for paths in (first, second)]

    assert opened[0].experiment == opened[1].experiment
    assert opened[0].commitment == opened[1].commitment
    assert evopolicygym.verify(second.root, replay=True).ok
    assert len(evopolicygym.leaderboard(tmp_path / "runs").groups) == 1


def test_a_private_split_in_anothers_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    """Where the secret is another user's, the message says what helps, and nothing is written."""
    play(tmp_path / "runs")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    before = sorted((tmp_path / "runs").rglob("*"))
    left = shell("run", "cartpole", "--runs", tmp_path / "runs")

    assert left.code != 0
    assert "--experiment NAME" in left.err
    assert "--runs DIR" in left.err
    assert "--split public" in left.err
    assert sorted((tmp_path / "runs").rglob("*")) == before
    play(tmp_path / "runs", experiment="mine")


def test_a_lost_state_directory(tmp_path: Path) -> None:
    """Without its secret a private run can't be resumed, and the message says what can still be done."""
    private, public = play(tmp_path / "runs"), play(tmp_path / "runs", split="public", experiment="open")
    shutil.rmtree(state_directory())
    assert evopolicygym.verify(private.root).ok
    for trusted in (False, True):
        with pytest.raises(UsageError, match=r"can't be resumed or replayed.*show, verify, leaderboard"):
            take_up(unfinished_copy(private, tmp_path / f"private-{trusted}"), trusted=trusted)
    root = unfinished_copy(public, tmp_path / "public")
    with pytest.raises(UsageError, match="--trust") as caught:
        take_up(root, trusted=False)
    assert "can't be resumed" not in str(caught.value)
    take_up(root, trusted=True)
    assert read_run(root).state.finished


def unfinished_copy(paths: RunPaths, place: Path) -> Path:
    """Return a copy of a run that is cut back to its beginning."""
    return unfinished(RunPaths(Path(shutil.copytree(paths.root, place))))
