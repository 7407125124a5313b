"""Films of a run: made of its record, held against its journal, and no part of its evidence."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from evopolicygym.cli.main import app, main
from evopolicygym.core.cases import Split
from evopolicygym.core.errors import EnvironmentFault, UsageError
from evopolicygym.core.event import RunOpened
from evopolicygym.records import verify
from evopolicygym.records.films import read_film
from evopolicygym.records.paths import RunPaths
from evopolicygym.runs.film import FilmOptions, MadeFilm, films
from evopolicygym.runs.replay import ReplayOptions
from exported import recorded, small_run
from films import pictures
from places import SUPPORT
from played_runs import PlayedRun
from simulators import spec
from whole_runs import Told, config, events, played, state_kept_in


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Told, Path]]:
    """Yield a run of one submission of two episodes, which is selected, and where it lies with its user's state."""
    place = tmp_path_factory.mktemp("finished")
    with state_kept_in(place / "state"):
        yield played(config(place / "runs", "players:make_idler", budget=2)), place


@pytest.fixture
def run(finished: tuple[Told, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    """Return a copy of that run, where its user's state is."""
    told, place = finished
    shutil.copytree(place, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return replace(told, paths=RunPaths(tmp_path / told.paths.root.relative_to(place)))


def made(root: Path, **wish: Any) -> list[MadeFilm]:
    return list(
        films(root, FilmOptions(**{"steps_per_frame": 50, **wish}), ReplayOptions(1), lambda _name, _done, _of: None)
    )


def invoke(arguments: Sequence[str]) -> Result:
    return CliRunner().invoke(app, ["film", *arguments])


def fails(paths: RunPaths) -> list[str]:
    return [one.name for one in verify.findings(paths.root) if not one.ok]


def files(paths: RunPaths) -> dict[Path, bytes]:
    """Return all that a run holds but its films."""
    below = [path for path in paths.root.rglob("*") if path.is_file() and paths.films not in path.parents]
    return {path: path.read_bytes() for path in below}


def test_films_of_a_run(run: Told) -> None:
    """What was selected is filmed on its first held-out case, once, as it was recorded; the record is left as it is."""
    paths, before = run.paths, files(run.paths)
    assert run.state.selected is not None
    told = invoke([str(paths.root), "--every", "4", "--json"])
    (one,) = json.loads(told.stdout)["films"]
    place = paths.films / "held_out" / run.state.selected.checkpoint[:16] / "case_000.mp4"
    known = run.state.rollout(Split.HELD_OUT, run.state.selected.checkpoint).episodes[0]
    film = read_film(place)
    written = place.stat().st_mtime_ns
    (again,) = made(paths.root)

    assert told.exit_code == 0, told.output
    assert known is not None
    assert film is not None
    assert film.recorded is not None
    assert (one["path"], one["same"], one["was_there"]) == (str(place), True, False)
    assert film.shot.trajectory_sha256 == film.recorded.trajectory_sha256 == known.trajectory_sha256
    assert len(pictures(place)) == film.shot.frames == -(-known.length // 4) + 1
    assert (again.film, again.was_there, place.stat().st_mtime_ns) == (film, True, written)
    assert not made(paths.root, force=True)[0].was_there
    assert sorted(path.name for path in place.parent.iterdir()) == ["case_000.json", "case_000.mp4"]
    assert files(paths) == before
    assert fails(paths) == []


def test_films_of_train_episodes(run: Told, tmp_path: Path) -> None:
    """Train episodes are filmed by submission and place, wherever asked for; others than asked for are not."""
    told = made(run.paths.root, split=Split.TRAIN, submission=0, cases="0,1", directory=tmp_path / "films")

    assert [one.path.relative_to(tmp_path).as_posix() for one in told] == [
        "films/train/submit_000/case_000.mp4",
        "films/train/submit_000/case_001.mp4",
    ]
    assert [one.film.same for one in told] == [True, True]
    assert not run.paths.films.exists()


def test_what_was_not_recorded_is_played_again(run_copy: PlayedRun) -> None:
    """A held-out case that only the selected checkpoint has played is played anew, filmed, and not called the same."""
    run = run_copy
    (other,) = made(run.paths.root, submission=0)
    staged = run.paths.train_episode(1, run.state.submissions[1].first_global_episode)
    staged.parent.chmod(0o755)
    staged.chmod(0o755)
    (staged / "trajectory.jsonl").unlink()
    (train,) = made(run.paths.root, split=Split.TRAIN, submission=1)

    assert (other.film.same, other.film.recorded, other.film.played_again) == (None, None, True)
    assert (train.film.same, train.film.played_again) == (True, True)
    with pytest.raises(UsageError, match="import_error"):
        made(run.paths.root, submission=4)


def test_a_forged_record_is_marked(run: Told, tmp_path: Path) -> None:
    """Where recorded actions are not those played, or versions others, the film says so, with exit code 1.

    Without actions no film is made under other versions; the error says what can be filmed.
    """
    copy = RunPaths(tmp_path / "runs" / "copy")
    shutil.copytree(run.paths.root, copy.root)
    copy.journal.unlink()
    opened, *others = events(run.paths)
    assert isinstance(opened, RunOpened)
    recorded(copy.root, [replace(opened, versions={**opened.versions, "numpy": "1.0"}), *others])
    (steps, *_) = sorted(copy.evaluation.glob("held_out/*/ep_000/steps.npz"))
    arrays = dict(np.load(steps))
    np.savez(steps, actions=1 - arrays["actions"], rewards=arrays["rewards"])
    told = invoke([str(copy.root), "--every", "50", "--json"])
    (one,) = json.loads(told.stdout)["films"]

    assert told.exit_code == 1
    assert (json.loads(told.stdout)["ok"], one["same"]) == (False, False)
    assert one["shot"]["trajectory_sha256"] != one["recorded"]["trajectory_sha256"]
    assert one["doubt"].startswith("numpy 1.0 then, ")
    assert "DIFFERS" in invoke([str(copy.root)]).output
    steps.unlink()
    assert "--split train --submission" in str(invoke([str(copy.root), "--force"]).exception)


def test_a_renderer_that_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    """Its death is told with exit code 4; no film, not half of one, and the record as it was."""
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT), prepend=os.pathsep)
    paths = small_run(tmp_path / "runs", spec("Drawn", fault="aborts"), "players:make_pusher")
    before = files(paths)
    monkeypatch.setattr("sys.argv", ["evopolicygym", "film", str(paths.root)])
    with pytest.raises(SystemExit) as left:
        main()

    assert left.value.code == EnvironmentFault.exit_code
    assert "SIGABRT" in capsys.readouterr().err
    assert [path for path in paths.films.rglob("*") if path.is_file()] == []
    assert files(paths) == before
    assert fails(paths) == []


def test_hidden_cases_of_a_run_that_goes_on(run: Told) -> None:
    """Before a run is finished nobody sees a hidden case; what the agent has seen can be filmed."""
    lines = run.paths.journal.read_bytes().splitlines(keepends=True)
    run.paths.journal.write_bytes(b"".join(lines[:-1]))

    for split in (Split.HELD_OUT, Split.VALIDATION):
        with pytest.raises(UsageError, match="finished"):
            made(run.paths.root, split=split, submission=0)
    assert made(run.paths.root, split=Split.TRAIN, submission=0)[0].film.same


def test_what_can_not_be_filmed(run: Told) -> None:
    """What was asked for and what would work is told, and nothing is made."""
    for arguments, told in (
        (["--submission", "9"], "0 to 0"),
        (["--case", "0-7"], "0 to 2"),
        (["--size", "3x3"], "WIDTHxHEIGHT"),
        (["--selected", "--submission", "1"], "--submission"),
    ):
        result = invoke([str(run.paths.root), *arguments])

        assert isinstance(result.exception, UsageError)
        assert told in str(result.exception)
    assert not run.paths.films.exists()
