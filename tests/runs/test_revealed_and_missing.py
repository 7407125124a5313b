"""Runs that were begun after their cases were revealed, and runs that an experiment began and that are gone."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import evopolicygym
from evopolicygym.analysis.results import load_results
from evopolicygym.core.cases import SplitSource
from evopolicygym.records.experiment import REVEALED_FILE, ledger_of, reveal
from evopolicygym.records.paths import RunPaths
from whole_runs import config, played, state_kept_in


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a place with two runs of one experiment, the second begun after it was revealed and its file removed."""
    place = tmp_path_factory.mktemp("revealed")
    with state_kept_in(place / "state"):
        small = config(place / "runs", "random", budget=1, isolation="none")
        played(small)
        reveal(small.runs, small.experiment).unlink()
        played(small)
    return place


@pytest.fixture
def runs(original: Path, tmp_path: Path) -> Iterator[Path]:
    """Yield a copy of its runs, at the state of the user who played them."""
    copy = Path(shutil.copytree(original, tmp_path / "copy"))
    with state_kept_in(copy / "state"):
        yield copy / "runs"


def _marks(runs: Path) -> list[tuple[bool, bool]]:
    """Return of each run whether the record bears the mark: as read, and as its run.json spells it."""
    found = sorted(load_results([runs]).runs, key=lambda run: run.run_id)
    return [
        (run.revealed, json.loads(RunPaths(run.root).document.read_bytes()).get("revealed", False)) for run in found
    ]


def test_a_run_begun_after_its_cases_were_revealed_is_marked(runs: Path) -> None:
    """It is marked although the published file was moved away; the one before is not."""
    assert sorted(_marks(runs)) == [(False, False), (True, True)]
    assert not list(runs.rglob(REVEALED_FILE))


def test_it_is_not_pooled_with_the_others(runs: Path) -> None:
    """Both stand in tables of their own; where they are mixed, a note says so."""
    apart, mixed = evopolicygym.leaderboard(runs), evopolicygym.leaderboard(runs, allow_incomparable=True)

    assert sorted(group.title for group in apart.groups) == ["cases not revealed before", "cases revealed before"]
    assert [any("revealed" in note for note in board.notes) for board in mixed.groups] == [True]


def test_a_public_split_has_nothing_to_reveal(runs: Path) -> None:
    """Its cases are known to all anyway: no mark."""
    told = played(config(runs, "random", budget=1, isolation="none", split=SplitSource.PUBLIC))

    assert not told.state.opened.revealed


def test_runs_that_are_gone_are_counted(runs: Path) -> None:
    """Each run is listed before it is opened; a leaderboard says how many of an experiment's runs it lacks."""
    first, _ = sorted(load_results([runs]).runs, key=lambda run: run.run_id)
    ledger = ledger_of(first.experiment_id or "")
    whole = evopolicygym.leaderboard(runs, allow_incomparable=True)
    shutil.rmtree(first.root)
    less = evopolicygym.leaderboard(runs, allow_incomparable=True)

    assert ledger is not None
    assert (ledger.since, len(ledger.runs)) == ("", 2)
    assert [sum("are not among these" in note for note in board.notes) for board in whole.groups] == [0]
    assert [note for note in less.groups[0].notes if note.startswith("1 of 2 runs")]


def test_where_runs_are_not_listed_none_is_missing(runs: Path, tmp_path: Path) -> None:
    """On another machine nothing is known of runs that are gone."""
    with state_kept_in(tmp_path / "elsewhere"):
        board = evopolicygym.leaderboard(runs, allow_incomparable=True).groups[0]

    assert not [note for note in board.notes if "are not among these" in note]
