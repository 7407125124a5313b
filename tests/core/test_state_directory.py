"""A home or a state directory that can't be written: what is said, as the program itself says it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from played_runs import PlayedRun
from shell import Shell

pytestmark = pytest.mark.needs_root

RUN = ("run", "cartpole", "--agent", "random", "--budget", "1", "--validation", "1", "--held-out", "1")
SUITE = ("suite", "smoke")


def ended(place: Path, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run the program with these variables in place of HOME and XDG_STATE_HOME."""
    kept = {name: value for name, value in os.environ.items() if name not in {"HOME", "XDG_STATE_HOME"}}
    return subprocess.run(
        [sys.executable, "-m", "evopolicygym", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**kept, **variables},
        cwd=place,
    )


def refused(done: "subprocess.CompletedProcess[str]", place: Path) -> str:
    """Return what was said where a run was refused before anything was made of it."""
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert not (place / "runs").exists()
    assert done.stderr.startswith("Error: ")
    assert "XDG_STATE_HOME" in done.stderr
    return done.stderr


@pytest.mark.parametrize("command", [RUN, SUITE], ids=["run", "suite"])
def test_a_home_that_can_t_be_written(tmp_path: Path, command: tuple[str, ...]) -> None:
    """A run and a suite name the directory that they need and the variable to set, and leave with 2 before a record."""
    (tmp_path / "home").write_text("a file, which nobody can make a directory in")
    said = refused(ended(tmp_path, *command, HOME=str(tmp_path / "home")), tmp_path)

    assert f"{tmp_path}/home/.local/state/evopolicygym/experiments" in said


def test_a_state_directory_that_can_only_be_read(tmp_path: Path) -> None:
    """A state directory of mode 0500 is refused in the same way."""
    if os.geteuid() == 0:
        pytest.skip("root writes wherever it likes")
    state = tmp_path / "state" / "evopolicygym" / "experiments"
    state.mkdir(parents=True)
    state.chmod(0o500)
    said = refused(ended(tmp_path, *RUN, HOME=str(tmp_path), XDG_STATE_HOME=str(tmp_path / "state")), tmp_path)

    assert str(state) in said


def test_a_user_without_a_home(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where neither HOME nor the list of users names a home, the variable to set is named."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(os, "getuid", lambda: 54321)  # whom the list doesn't have
    left = shell(*RUN)

    assert (left.code, left.out, (tmp_path / "runs").exists()) == (2, "", False)
    assert "HOME" in left.err
    assert "XDG_STATE_HOME" in left.err


def test_a_run_is_not_taken_up(run_copy: PlayedRun, tmp_path: Path) -> None:
    """resume refuses in the same way, and leaves the record as it is; verify says what it could not check."""
    state, root = run_copy.state_home, str(run_copy.paths.root)
    before = run_copy.paths.journal.read_bytes()
    state.rename(tmp_path / "aside")
    state.write_text("no directory")
    resumed = ended(tmp_path, "resume", root, "--trust", HOME=str(tmp_path), XDG_STATE_HOME=str(state))
    verified = ended(tmp_path, "verify", root, HOME=str(tmp_path), XDG_STATE_HOME=str(state))

    assert resumed.returncode == 2, resumed.stderr
    assert f"{state}/evopolicygym/experiments" in resumed.stderr
    assert "Traceback" not in resumed.stderr + verified.stderr
    assert run_copy.paths.journal.read_bytes() == before
    assert "not checked" in verified.stdout
