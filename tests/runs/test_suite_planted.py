"""A suite takes no record for its own that it did not play, or that does not verify."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import find_runs
from evopolicygym.runs.suites.records import PlannedRunVerdict, find_results
from evopolicygym.runs.suites.suite import PlannedRun, plan
from suites import suite
from whole_runs import played, state_kept_in


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a place with a finished run that a suite plans, and its user's state."""
    place = tmp_path_factory.mktemp("suite")
    with state_kept_in(place / "state"):
        played(_planned(place).config)
    return place


@pytest.fixture
def place(original: Path, tmp_path: Path) -> Iterator[Path]:
    """Yield a copy of it, with the state of the user who played it."""
    copy = Path(shutil.copytree(original, tmp_path / "suite"))
    with state_kept_in(copy / "state"):
        yield copy


def _planned(place: Path) -> PlannedRun:
    return plan(suite(place / "runs", "random", isolation="none"))[0]


def _verdict(place: Path) -> PlannedRunVerdict:
    planned = _planned(place)
    return find_results([planned], place / "runs" / planned.config.experiment)[planned.number].verdict


def _paths(place: Path) -> RunPaths:
    (root,) = find_runs(place / "runs")
    return RunPaths(root)


def test_its_own_finished_run_is_not_played_again(place: Path) -> None:
    """What this user played here, and verifies, is finished."""
    assert _verdict(place) is PlannedRunVerdict.FINISHED


def test_a_planted_record_is_played(place: Path) -> None:
    """A finished record that was not played here, such as one that was copied in, doesn't count."""
    shutil.rmtree(place / "state" / "evopolicygym" / "experiments" / "marks")

    assert _verdict(place) is PlannedRunVerdict.WAITING


def test_a_record_that_does_not_verify_is_played(place: Path) -> None:
    """A finished record whose files were changed doesn't count."""
    shutil.rmtree(_paths(place).published_feedback(0))

    assert _verdict(place) is PlannedRunVerdict.WAITING


def test_a_summary_that_was_changed_is_written_anew(place: Path) -> None:
    """A run.json that the journal doesn't make is not believed: the run is resumed, which writes it."""
    paths = _paths(place)
    document = json.loads(paths.document.read_bytes())
    document["outcome"]["score"] += 1
    paths.document.write_text(json.dumps(document))

    assert _verdict(place) is PlannedRunVerdict.INTERRUPTED
