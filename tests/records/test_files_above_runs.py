"""Of the directories above a run only its experiment's is looked into, and a user's own secret comes first."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from evopolicygym.core.errors import UsageError
from evopolicygym.records import verify
from evopolicygym.records.experiment import (
    REVEALED_FILE,
    load_experiment,
    of_run,
    reveal,
    revealed_file,
    secret_files,
)
from evopolicygym.records.reader import EXPERIMENT_FILE, experiment_name, find_runs, read_run
from played_runs import PlayedRun
from whole_runs import state_kept_in

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def run(played_run: PlayedRun, tmp_path: Path) -> Iterator[PlayedRun]:
    """Yield a copy of a finished run of an experiment that was revealed, at the state of its user."""
    copy = played_run.copied(tmp_path)
    with state_kept_in(copy.state_home):
        reveal(copy.runs, "default")
        yield copy


def _opened(run: PlayedRun) -> str:
    return read_run(run.paths.root).state.opened.experiment


def _changed(file: Path) -> str:
    """Return the text of a revealed experiment with another secret."""
    return json.dumps({**json.loads(file.read_text(encoding="utf-8")), "secret": "0" * 64})


def test_the_own_secret_comes_first(run: PlayedRun) -> None:
    """A revealed.json with another secret does not replace the secret that this machine has."""
    file = run.runs / "default" / REVEALED_FILE
    file.write_text(_changed(file), encoding="utf-8")
    opened = read_run(run.paths.root).state.opened

    assert of_run(run.paths.root, opened).secret == load_experiment(opened.experiment).secret
    assert all(finding.ok for finding in verify.findings(run.paths.root) if finding.name == verify.COMMITMENT)


def test_what_was_revealed_is_read_elsewhere(run: PlayedRun, tmp_path: Path) -> None:
    """Without the secret, that of the experiment's own directory is read."""
    opened = read_run(run.paths.root).state.opened
    own = load_experiment(opened.experiment)
    with state_kept_in(tmp_path / "elsewhere"):
        assert of_run(run.paths.root, opened).secret == own.secret


@pytest.mark.parametrize("above", [0, 1, 3, 4])
def test_other_directories_are_not_looked_into(above: int, run: PlayedRun, tmp_path: Path) -> None:
    """Neither a revealed.json nor an experiment.json of another directory above the run is read."""
    root = run.paths.root.resolve()
    opened = read_run(root).state.opened
    for name in (REVEALED_FILE, EXPERIMENT_FILE):
        shutil.move(run.runs / "default" / name, root.parents[above] / name)

    assert experiment_name(root, opened.experiment) == ""
    assert revealed_file(root, opened.experiment) is None
    assert not {root.parents[above] / REVEALED_FILE, root.parents[above] / EXPERIMENT_FILE}.intersection(
        secret_files(root, opened.experiment)
    )
    with state_kept_in(tmp_path / "elsewhere"), pytest.raises(UsageError):
        of_run(root, opened)


@pytest.mark.parametrize("beside", ["missing", "another"])
def test_a_secret_without_its_experiment(beside: str, run: PlayedRun, tmp_path: Path) -> None:
    """A revealed.json counts only beside the experiment.json that names the same identity."""
    file = run.runs / "default" / EXPERIMENT_FILE
    file.unlink()
    if beside == "another":
        file.write_text('{"experiment": "another"}', encoding="utf-8")
    opened = read_run(run.paths.root).state.opened

    assert revealed_file(run.paths.root, opened.experiment) is None
    with state_kept_in(tmp_path / "elsewhere"), pytest.raises(UsageError):
        of_run(run.paths.root, opened)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
@pytest.mark.parametrize("name", [REVEALED_FILE, EXPERIMENT_FILE])
def test_files_of_another_user(name: str, run: PlayedRun, tmp_path: Path) -> None:
    """Both files have to belong to the owner of the run's directory, or to root."""
    opened = read_run(run.paths.root).state.opened
    with state_kept_in(tmp_path / "elsewhere"):
        os.chown(run.paths.root, 12345, 12345)
        assert of_run(run.paths.root, opened)
        os.chown(run.runs / "default" / name, 54321, 54321)
        with pytest.raises(UsageError):
            of_run(run.paths.root, opened)


def test_the_secret_files_are_those_that_are_read(run: PlayedRun) -> None:
    """What a cached check depends on are both files of the experiment's directory."""
    files = secret_files(run.paths.root, _opened(run))

    assert files[-2:] == tuple(run.runs.resolve() / "default" / name for name in (REVEALED_FILE, EXPERIMENT_FILE))


def test_shipped_results() -> None:
    """The results that ship lie as runs do, so that their experiments are named and revealed."""
    for name in ("baselines", "references", "second_split"):
        for root in find_runs(RESULTS / name):
            identity = read_run(root).state.opened.experiment
            assert experiment_name(root, identity) == name
            assert revealed_file(root, identity) == RESULTS / name / REVEALED_FILE
