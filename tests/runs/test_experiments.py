"""Experiments: their secrets, the splits that runs of one share, and the revealing of them."""

import json
import os
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from evopolicygym.cli import main as cli
from evopolicygym.core.cases import PUBLIC_KEY, Split, SplitSource, derive
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.event import (
    RunStatus,
)
from evopolicygym.core.task import Limits
from evopolicygym.records import experiment, verify
from evopolicygym.records.paths import run_directory
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.runs.config import parse_split
from evopolicygym.runs.replay import ReplayOptions, replay
from evopolicygym.runs.run import play
from evopolicygym.specs import catalog
from fakes import TIME, opening
from whole_runs import (
    HELD_OUT,
    config,
    played,
)


def test_runs_are_listed_since_an_experiment_began(tmp_path: Path) -> None:
    """Of one that began here no run is older than its list; of one from elsewhere those before the first listed are."""
    begun = experiment.begin(tmp_path, "mine").identity
    opened = opening(experiment=begun, nonce="n")
    empty = experiment.ledger_of(begun)
    for each in (opened, replace(opened, run_id="later", time=TIME.replace("2026", "2027"))):
        experiment.list_run(each)
    elsewhere = replace(opened, experiment="elsewhere")
    experiment.list_run(elsewhere, gathered="hash")

    assert empty == experiment.Ledger("", (), {}, frozenset())
    assert experiment.ledger_of(begun) == experiment.Ledger("", ("run", "later"), {}, frozenset("n"))
    assert experiment.ledger_of("elsewhere") == experiment.Ledger(TIME, ("run",), {"run": "hash"}, frozenset("n"))
    assert experiment.ledger_of("nowhere") is None


def test_a_public_split_is_the_same_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two who play the public split on machines of their own play the same cases, and need no secret to check."""
    returns = []
    for laboratory in ("one", "two"):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / laboratory / "state"))
        told = played(config(tmp_path / laboratory / "runs", "players:make_idler", split=SplitSource.PUBLIC))
        returns.append((told.state.submissions[0].returns, told.state.held_out(), told.state.opened.commitment))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    found = {one.name: one for one in verify.findings(told.paths.root)}

    assert returns[0] == returns[1]
    assert found["commitment"].ok
    assert "not checked" not in found["commitment"].detail
    assert [one.same for one in replay(told.paths.root, ReplayOptions(1))] == [True] * HELD_OUT


def write_split(directory: Path, sizes: tuple[int, int, int] = (1024, 2, 3)) -> None:
    directory.mkdir(exist_ok=True)
    public = derive(PUBLIC_KEY, "cartpole")
    for name, split, size in zip(("train", "valid", "heldout"), Split, sizes, strict=True):
        cases = [{"seed": seed} for seed in public.seeds[split][:size]]
        (directory / f"{name}.json").write_text(json.dumps({"cases": cases}), encoding="utf-8")


def test_a_split_from_a_directory(tmp_path: Path, state_home: Path) -> None:
    """Cases of the paper's files are played, can be revealed with the secret, and can't be swapped under a run."""
    write_split(tmp_path / "cases")
    source, directory = parse_split(str(tmp_path / "cases"))
    changes = {"split": source, "split_directory": directory}
    told = played(config(tmp_path / "runs", "players:make_idler", **changes))
    experiment.reveal(tmp_path / "runs", "default")
    write_split(tmp_path / "cases", (1024, 2, 4))
    with pytest.raises(UsageError, match="experiment"):
        play(config(tmp_path / "runs", **changes), lambda _paths, _state: None, lambda _event, _state: None)
    state_home.rename(tmp_path / "elsewhere")
    found = {one.name: one for one in verify.findings(told.paths.root)}

    assert told.state.finished is not None
    assert RunStatus.SCORED is told.state.finished.status
    assert found["commitment"].ok
    assert "not checked" not in found["commitment"].detail


@pytest.mark.parametrize("sizes", [(1023, 2, 3), (1024, 1, 3), (1024, 2, 2)])
def test_a_directory_with_too_few_cases(tmp_path: Path, sizes: tuple[int, int, int]) -> None:
    """A directory that holds fewer cases than the run asks for is refused before anything begins."""
    write_split(tmp_path / "cases", sizes)
    source, directory = parse_split(str(tmp_path / "cases"))

    with pytest.raises(UsageError, match="|".join(map(str, sizes))):
        played(config(tmp_path / "runs", split=source, split_directory=directory))


def test_an_unknown_split() -> None:
    """A split that is neither a word nor a directory is answered with what would do."""
    with pytest.raises(UsageError, match=r"private.*public.*train\.json"):
        parse_split("nowhere")


def test_two_experiments_have_two_secrets(tmp_path: Path) -> None:
    """Runs of one experiment play the same cases, those of another play others."""
    first, again, other = (experiment.begin(tmp_path, name) for name in ("a", "a", "b"))

    assert first == again
    assert first.secret != other.secret
    assert first.cases("toy", SplitSource.PRIVATE) == again.cases("toy", SplitSource.PRIVATE)


def test_a_secret_is_for_its_owner_alone(tmp_path: Path, state_home: Path) -> None:
    """Whatever the umask, nobody else can read a secret's file, or list the directory that holds it."""
    before = os.umask(0)
    try:
        experiment.begin(tmp_path, "a")
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in state_home.rglob("*") if path.is_file()}
    directories = {stat.S_IMODE(path.parent.stat().st_mode) for path in state_home.rglob("*") if path.is_file()}

    assert (modes, directories) == ({0o600}, {0o700})


def test_two_runs_that_begin_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two first runs of one experiment, the second takes the first one's secret."""
    first = experiment.begin(tmp_path, "a")
    exists, answers = Path.exists, [False]
    monkeypatch.setattr(Path, "exists", lambda path: answers.pop() if answers else exists(path))

    assert first == experiment.begin(tmp_path, "a")


@pytest.mark.parametrize("name", ["default", "core16", "a.b_c-1", "_x", "7", "X" * 100])
def test_what_an_experiment_may_be_named(tmp_path: Path, name: str) -> None:
    """Letters, digits, dots, dashes and underscores name an experiment."""
    experiment.begin(tmp_path, name)

    assert (tmp_path / name / "experiment.json").is_file()


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "/proc/nowhere", "a/b c", "a b", ".hidden", "-x", "é", "a\n", "a\0", "X" * 101]
)
def test_what_an_experiment_can_t_be_named(tmp_path: Path, state_home: Path, name: str) -> None:
    """What isn't a plain name is refused wherever an experiment is named, and nothing is written."""
    ways = (
        lambda: experiment.begin(tmp_path / "runs", name),
        lambda: experiment.reveal(tmp_path / "runs", name),
        lambda: run_directory(tmp_path / "runs", name, "agent", "task", "id"),
        lambda: played(config(tmp_path / "runs", "players:make_idler", experiment=name)),
    )
    for way in ways:
        with pytest.raises(UsageError):
            way()

    assert not (tmp_path / "runs").exists()
    assert not state_home.exists()


def test_a_reveal_looks_before_it_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody is asked whether to publish the secret of an experiment that doesn't exist."""
    monkeypatch.setattr("typer.confirm", lambda _question, **_: sys.exit(7))
    monkeypatch.setattr(sys, "argv", ["evopolicygym", "reveal", "typo", "--runs", str(tmp_path)])
    with pytest.raises(SystemExit) as left:
        cli.main()

    assert left.value.code == 2
    assert "typo" in capsys.readouterr().err


def test_a_level_that_there_is_not_is_told_in_a_sentence(tmp_path: Path) -> None:
    """A worker that is asked for an isolation level that there isn't answers with that, and no traceback."""
    log = tmp_path / "log"
    config = ExecutorConfig(catalog.load("cartpole"), Limits(), "chroot", tmp_path / "workers", log, 1)
    with (
        LocalExecutor(config) as executor,
        pytest.raises(UsageError) as refused,
    ):
        executor.info  # noqa: B018 - reading it is the trial

    assert all(name in str(refused.value) for name in ("chroot", "auto", "bubblewrap", "none", "process"))


@pytest.mark.parametrize("changes", [{"isolation": "chroot"}, {"executor": "locl"}])
def test_a_run_that_names_what_there_is_not_leaves_nothing(
    tmp_path: Path, state_home: Path, changes: dict[str, str]
) -> None:
    """A mistyped isolation level or executor is told before anything is written."""
    with pytest.raises(UsageError, match="|".join(changes.values())):
        played(config(tmp_path / "runs", "players:make_idler", **changes))

    assert not (tmp_path / "runs").exists()
    assert not state_home.exists()


def test_revealing_what_is_not_there(tmp_path: Path) -> None:
    """An experiment that doesn't exist is answered with those that do."""
    experiment.begin(tmp_path, "known")
    with pytest.raises(UsageError, match="known"):
        experiment.reveal(tmp_path, "unknown")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"secret": "zz"}'])
def test_a_damaged_secret_is_told(tmp_path: Path, state_home: Path, text: str) -> None:
    """A secret's file that can't be read is named."""
    owner = experiment.begin(tmp_path, "a")
    (state_home / "evopolicygym" / "experiments" / owner.identity / "secret.json").write_text(text, encoding="utf-8")
    with pytest.raises(RecordError, match=r"secret\.json"):
        experiment.load_experiment(owner.identity)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"experiment": 3'])
def test_a_damaged_experiment_is_told(tmp_path: Path, text: str) -> None:
    """An experiment's file that can't be read is named."""
    experiment.begin(tmp_path, "a")
    (tmp_path / "a" / "experiment.json").write_text(text, encoding="utf-8")
    with pytest.raises(RecordError, match=r"experiment\.json"):
        experiment.begin(tmp_path, "a")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"experiment": "x", "secret": "zz", "cases": {}}'])
def test_a_damaged_reveal_is_told(tmp_path: Path, text: str) -> None:
    """A revealed secret that can't be read is named."""
    run = tmp_path / "a" / "agent" / "task" / "run"
    run.mkdir(parents=True)
    (tmp_path / "a" / "experiment.json").write_text('{"experiment": "x"}', encoding="utf-8")
    (tmp_path / "a" / "revealed.json").write_text(text, encoding="utf-8")
    with pytest.raises(RecordError, match=r"revealed\.json"):
        experiment.revealed(run, "x")
