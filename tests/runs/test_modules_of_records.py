"""Modules that a record names are not taken from the directory in which somebody happens to be."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dying import play_toy
from evopolicygym.cli import start
from evopolicygym.cli.verbs.play import mcp
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.event import RunOpened
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.packs import installer
from evopolicygym.records.journal import Journal
from evopolicygym.records.paths import RunPaths
from evopolicygym.runs import replay
from evopolicygym.runs import run as runs_module
from evopolicygym.runs.replay import ReplayOptions, open_replay
from evopolicygym.runs.run import resume
from evopolicygym.specs import catalog
from whole_runs import events


class ReachedError(Exception):
    """The executor would be opened now."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the record of a finished run."""
    root = tmp_path_factory.mktemp("toy") / "run"
    play_toy(root, -1)
    return root


@pytest.fixture
def root(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Yield a copy of it, in a machine on which no module of a task is installed, and where no executor is opened."""

    def reached(*_: object, **__: object) -> None:
        raise ReachedError

    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    monkeypatch.setattr(catalog, "PathFinder", SimpleNamespace(find_spec=lambda *_: None))
    monkeypatch.setattr(replay, "open_executor", reached)
    monkeypatch.setattr(runs_module, "open_executor", reached)
    return Path(shutil.copytree(whole, tmp_path / "run"))


def _record_of(root: Path, spec: EnvironmentSpec, *, finished: bool = True) -> None:
    """Write the record's event log anew, with another task and public cases."""
    paths = RunPaths(root)
    recorded = events(paths)
    paths.journal.unlink()
    with Journal(paths.journal) as journal:
        for event in recorded if finished else recorded[:1]:
            if isinstance(event, RunOpened):
                task = replace(event.task, environment=spec)
                event = replace(event, task=task, split=SplitSource.PUBLIC)  # noqa: PLW2901 - the same event
            journal.append(event, flush=False)


def _replays_from(root: Path, directory: Path, module: str, *, trusted: bool) -> bool:
    """Return whether a replay in a directory that holds a module would import it from there."""
    (directory / module).mkdir(parents=True)
    (directory / module / "__init__.py").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        options = ReplayOptions(workers=1, isolation="none", trusted=trusted)
        with pytest.raises(ReachedError), open_replay(root, options):
            pass
    return str(directory) in sys.path or str(directory) in os.environ["PYTHONPATH"]


def _own_spec(module: str) -> EnvironmentSpec:
    return replace(catalog.load("cartpole"), name="walk", id="Walk-v0", imports=(module,))


@pytest.mark.parametrize("trusted", [False, True])
def test_the_module_of_a_shipped_task(root: Path, tmp_path: Path, *, trusted: bool) -> None:
    """It is imported from where it is installed, or not at all."""
    _record_of(root, catalog.load("key_corridor"))

    assert not _replays_from(root, tmp_path / "here", "minigrid", trusted=trusted)


@pytest.mark.parametrize("module", ["minigrid", "ale_py"])
def test_a_shipped_module_of_an_own_task(module: str, root: Path, tmp_path: Path) -> None:
    """A task of one's own doesn't bring a module that a shipped task or pack names, either."""
    _record_of(root, _own_spec(module))

    assert not _replays_from(root, tmp_path / "here", module, trusted=True)


def test_the_module_of_an_own_task(root: Path, tmp_path: Path) -> None:
    """A trusted record's own module is found in the working directory."""
    _record_of(root, _own_spec("walk_module"))

    assert _replays_from(root, tmp_path / "here", "walk_module", trusted=True)


@pytest.mark.parametrize("below", [".", "workspace/system"])
def test_a_module_in_a_run(below: str, root: Path) -> None:
    """Within a run's directory, where an agent writes, nothing is imported even for a trusted record."""
    _record_of(root, _own_spec("walk_module"))

    assert not _replays_from(root, (root / below).resolve(), "walk_module", trusted=True)


@pytest.mark.parametrize("module", ["minigrid", "walk_module"])
def test_a_run_that_is_resumed(module: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same holds for resuming."""
    _record_of(root, _own_spec(module), finished=False)
    (tmp_path / "here" / module).mkdir(parents=True)
    (tmp_path / "here" / module / "__init__.py").write_text("")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(runs_module, "make", lambda _agent: object())
    monkeypatch.setattr(runs_module, "check_program", lambda *_, **__: "")
    with pytest.raises(ReachedError):
        resume(root, 1, lambda _paths, _state: None, lambda _event, _state: None, trusted=True)

    assert (str(tmp_path / "here") in sys.path) == (module == "walk_module")


@pytest.mark.parametrize(
    ("variable", "stays", "left"),
    [(":/x", False, "/x"), ("/x:", False, "/x"), ("/x::/y", False, "/x:/y"), (".", True, "."), (":.", True, ".")],
)
def test_an_empty_part_of_the_path(
    variable: str, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, stays: bool
) -> None:
    """``PYTHONPATH=$PYTHONPATH:DIR`` doesn't put the present directory on the path, and ``PYTHONPATH=.`` does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", variable)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    start.ignore_empty_parts()

    assert (str(tmp_path) in sys.path, os.environ["PYTHONPATH"]) == (stays, left)


def test_programs_that_are_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the server of a run nor an installer of packs looks into the present directory for its own modules."""
    lines: list[list[str]] = []

    def started(line: list[str], **_: object) -> None:
        lines.append(line)
        raise ReachedError

    monkeypatch.setattr(subprocess, "Popen", started)
    with pytest.raises(ReachedError):
        mcp._serve_task("cartpole", tmp_path / "workspace", tmp_path / "runs", ())
    monkeypatch.setattr(installer.shutil, "which", lambda _name: None)
    lines.append(installer._environment_command(tmp_path / "place", "python3.11"))
    lines += installer._install_commands(tmp_path, ["gymnasium"], ["gymnasium", "numpy"])

    assert [line[1] for line in lines] == ["-P", "-I", "-I"]
