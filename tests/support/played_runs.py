"""A whole run of each sandbox backend, played once a session for all tests that only read one.

The fixtures ``run_at``, ``played_run``, ``at_home`` and ``run_copy`` in ``conftest.py`` hand them out.
"""

import shutil
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import pytest

from evopolicygym.core.errors import SandboxError
from evopolicygym.core.event import Event
from evopolicygym.core.run import RunState
from evopolicygym.records.paths import RunPaths
from evopolicygym.sandbox.levels import choose
from whole_runs import config, played, state_kept_in


@dataclass(frozen=True, slots=True)
class PlayedRun:
    """A finished run on cartpole of five submissions: bad, good, good again, its equal, broken."""

    runs: Path
    """The directory of runs below which it lies, alone."""
    paths: RunPaths
    state: RunState
    seen: tuple[tuple[Event, bool], ...]
    """Each event, with whether anything of the hidden episodes lay on disk by then."""
    state_home: Path
    """``XDG_STATE_HOME`` of the user who played it."""

    def copied(self, below: Path) -> "PlayedRun":
        """Copy the run and its user's state below a new directory, to be changed by a test."""
        runs = Path(shutil.copytree(self.runs, below / "runs", symlinks=True))
        state_home = Path(shutil.copytree(self.state_home, below / "state", symlinks=True))
        paths = RunPaths(runs / self.paths.root.relative_to(self.runs))
        return replace(self, runs=runs, paths=paths, state_home=state_home)

    def digest(self) -> str:
        """Return a hash of the names and contents of all files of the run."""
        files = sorted(path for path in self.runs.rglob("*") if path.is_file() and path != self.paths.lock)
        return sha256(repr([(str(path), path.read_bytes()) for path in files]).encode()).hexdigest()


def play_at(level: str, place: Path) -> PlayedRun:
    """Play the run in a sandbox backend; skip the test where that can't work here."""
    try:
        choose(level)
    except SandboxError as error:
        pytest.skip(str(error))
    with state_kept_in(place / "state"):
        told = played(config(place / "runs", isolation=level))
    return PlayedRun(place / "runs", told.paths, told.state, tuple(told.seen), place / "state")
