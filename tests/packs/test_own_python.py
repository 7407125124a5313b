"""An environment of a pack plays on the pack's own Python, and policies on ours."""

import sys
from pathlib import Path

import pytest

import evopolicygym
import own_pack
from evopolicygym.core.errors import EnvironmentFault, UsageError
from evopolicygym.packs.installer import remove
from evopolicygym.records.reader import read_run
from evopolicygym.runs.film import FilmOptions, films
from evopolicygym.runs.replay import ReplayOptions
from films import pictures

SMALL = {"budget": 2, "validation": 1, "held_out": 2}


@pytest.fixture
def pack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the pack of the tests."""
    own_pack.lay(monkeypatch)


@pytest.mark.usefixtures("pack")
def test_a_whole_run(tmp_path: Path) -> None:
    """A run of a task is played, scored and recorded with its derived text, and its simulator never comes to us.

    Its held-out cases play again bit for bit.
    """
    run = evopolicygym.run("Far-v0", "random", runs=tmp_path, **SMALL)
    spec = read_run(run.path).state.opened.task.environment

    assert (spec.pack, spec.name, spec.max_steps, spec.family) == ("faraway", "Far-v0", 20, "tests")
    assert spec.objective == "A walker stands on a line and is to go to its end."
    assert (spec.observation, spec.action) == (("the place", "a number"), ("stay where it is", "go on"))
    assert run.score is not None
    assert [finding for finding in evopolicygym.verify(run.path, replay=True).findings if not finding.ok] == []
    assert "far_away" not in sys.modules


@pytest.mark.usefixtures("pack")
def test_a_policy_sees_nothing_of_the_pack(tmp_path: Path) -> None:
    """A policy can't import the pack's simulator, nor find where it lies; numpy it has as always."""
    policy = tmp_path / "policy"
    policy.mkdir()
    (policy / "policy.py").write_text(
        "import importlib, os, numpy\n"
        "try:\n    importlib.import_module('far_away')\nexcept ImportError:\n    print('not found')\n"
        f"print(os.path.exists({str(tmp_path / 'data')!r}))\n"
        "class Policy:\n"
        "    def __init__(self, *_): pass\n"
        "    def reset(self, episode_index): pass\n"
        "    def act(self, obs): return 1\n"
    )
    run = evopolicygym.run("Far-v0", "policy", options={"project": str(policy)}, runs=tmp_path / "runs", **SMALL)
    said = [one.read_text() for one in run.path.rglob("stdout.txt")]

    assert said
    assert set(said) == {"not found\nFalse\n"}


@pytest.mark.nightly
@pytest.mark.usefixtures("pack")
def test_an_episode_is_filmed(tmp_path: Path) -> None:
    """A film is drawn on the pack's Python and encoded on ours, and shows what was recorded."""
    run = evopolicygym.run("Far-v0", "random", runs=tmp_path, **SMALL)
    (made,) = films(run.path, FilmOptions(), ReplayOptions(1), lambda *_: None)
    length, widths = made.film.shot.length, [int((one[16, :, 0] > 127).sum()) for one in pictures(made.path)]

    assert made.film.same is True
    assert (made.film.shot.frames, made.film.shot.width) == (length + 1, 64)
    assert (widths[0], widths[-1]) == (16, 64)


@pytest.mark.nightly
@pytest.mark.usefixtures("pack")
def test_what_fails_while_it_draws(tmp_path: Path) -> None:
    """A simulator that can't draw says so as one of ours would, and a pack that is gone says how to install it."""
    run = evopolicygym.run("Blind-v0", "random", runs=tmp_path, **SMALL)
    with pytest.raises(EnvironmentFault, match="Blind-v0"):
        list(films(run.path, FilmOptions(), ReplayOptions(1), lambda *_: None))
    remove(own_pack.NAME)
    with pytest.raises(UsageError, match="evopolicygym packs install faraway"):
        list(films(run.path, FilmOptions(), ReplayOptions(1), lambda *_: None))


def test_a_pack_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is begun, and what installs it is named."""
    own_pack.known(monkeypatch)
    with pytest.raises(UsageError, match="packs install faraway"):
        evopolicygym.run("Far-v0", "random", runs=tmp_path, **SMALL)

    assert list(tmp_path.glob("*/*")) == []


@pytest.mark.usefixtures("pack")
def test_a_pack_of_other_versions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What was installed under other pins than the pack names now is not played."""
    own_pack.known(monkeypatch, own_pack.FILE.replace("gymnasium==", "gymnasium==9."))
    with pytest.raises(UsageError, match="faraway"):
        evopolicygym.run("Far-v0", "random", runs=tmp_path, **SMALL)
