"""A board's nonce: cases follow from it and from a secret that the experiment's published identity binds."""

import hashlib
import hmac
import json
from dataclasses import replace
from pathlib import Path

import pytest

import evopolicygym
from evopolicygym.core.cases import PUBLIC_KEY, SplitSource, derive
from evopolicygym.core.directories import state_directory
from evopolicygym.core.errors import UsageError
from evopolicygym.records import experiment
from evopolicygym.records.experiment import Experiment, of_run
from evopolicygym.records.nonce import nonce_finding
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from shell import Shell

QUICK = {"agent": "random", "budget": 2, "validation": 1, "held_out": 2, "workers": 1, "isolation": "none"}


def play(runs: Path, name: str = "board", **options: object) -> Path:
    """Play a quick run; return its directory."""
    run = evopolicygym.run("cartpole", runs=str(runs), experiment=name, **{**QUICK, **options})  # type: ignore[arg-type]
    return Path(run.path)


def findings(root: Path, nonce: str = "") -> dict[str, bool]:
    """Return what ``verify`` finds, by name."""
    return {finding.name: finding.ok for finding in evopolicygym.verify(root, nonce=nonce)}


def test_the_identity_follows_from_the_secret(tmp_path: Path, shell: Shell) -> None:
    """The printed identity is the hash of the secret, and printing it again changes nothing."""
    identity = shell.printed("suites", "identity", "board", "--runs", tmp_path).strip()
    owner = experiment.load_experiment(identity)

    assert identity == hashlib.sha256(b"evopolicygym experiment 1|" + owner.secret).hexdigest()[:32]
    assert owner.is_bound
    assert shell.printed("suites", "identity", "board", "--runs", tmp_path).strip() == identity


def test_cases_and_draws_follow_from_the_nonce() -> None:
    """With a nonce cases and keys are those of the HMAC; the public split has none of it."""
    owner = Experiment("x", bytes(32), 128)
    drawn = replace(owner, nonce="n1")
    key = hmac.digest(bytes(32), b"evopolicygym nonce 1|n1", "sha256")

    assert drawn.key(SplitSource.PRIVATE) == key
    assert drawn.cases("cartpole", SplitSource.PRIVATE) == derive(key, "cartpole", 128)
    assert drawn.cases("cartpole", SplitSource.PRIVATE) != owner.cases("cartpole", SplitSource.PRIVATE)
    assert drawn.key(SplitSource.PUBLIC) == PUBLIC_KEY


def test_a_board(tmp_path: Path, shell: Shell) -> None:
    """A run with a nonce is recorded, replayed, verified and ranked; without it, or with another, it is a problem."""
    with_nonce, without = play(tmp_path, nonce="n1"), play(tmp_path, "other")
    opened = read_run(with_nonce).state.opened
    document = json.loads(RunPaths(with_nonce).document.read_bytes())

    assert opened.nonce == document["nonce"] == "n1"
    assert "nonce" not in json.loads(RunPaths(without).document.read_bytes())
    assert evopolicygym.load_runs(with_nonce).runs[0].nonce == "n1"
    assert ", nonce n1" in shell.printed("show", with_nonce).replace("\n", " ")
    assert evopolicygym.verify(with_nonce, nonce="n1", replay=True).ok
    assert findings(with_nonce)["nonce"]
    assert "nonce" not in findings(without)
    assert not findings(without, "n1")["nonce"]
    assert shell("verify", with_nonce, "--nonce", "n2").code == 1

    board = evopolicygym.leaderboard(tmp_path, nonce="n1", allow_incomparable=True)
    assert [problem.root for problem in board.problems] == [without.resolve()]
    assert "no nonce" in board.problems[0].reason
    assert len(evopolicygym.leaderboard(tmp_path, allow_incomparable=True).problems) == 0
    left = shell("leaderboard", tmp_path, "--nonce", "n2")
    assert left.code != 0
    assert "expected nonce n2, the run has nonce n1" in left.err


def test_another_nonce_in_the_record(tmp_path: Path) -> None:
    """A record whose nonce was changed does not have the cases that it committed to."""
    root = play(tmp_path, nonce="n1")
    opened = replace(read_run(root).state.opened, nonce="n2")

    with pytest.raises(evopolicygym.errors.RecordError, match="not those that the run committed to"):
        experiment.committed_cases(opened, of_run(root, opened))
    public = replace(opened, split=SplitSource.PUBLIC)
    with pytest.raises(evopolicygym.errors.RecordError, match="invalid nonce"):
        of_run(root, public)


def test_one_nonce_an_experiment(tmp_path: Path) -> None:
    """A second nonce, or none, is refused before anything is written; the same one goes on."""
    play(tmp_path, nonce="n1")
    before = sorted(tmp_path.rglob("*"))
    for nonce in ("n2", ""):
        with pytest.raises(UsageError, match="Invalid nonce: expected nonce n1"):
            play(tmp_path, nonce=nonce)
    assert sorted(tmp_path.rglob("*")) == before
    play(tmp_path, nonce="n1", seed=1)
    play(tmp_path, "other")
    with pytest.raises(UsageError, match="expected no nonce"):
        play(tmp_path, "other", nonce="n1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nonce": "a b"}, "Invalid nonce: expected 1 to 100"),
        ({"nonce": "a" * 101}, "Invalid nonce: expected 1 to 100"),
        ({"nonce": "a", "split": "public"}, "whose cases are fixed"),
    ],
)
def test_a_nonce_that_fits_nothing(tmp_path: Path, options: dict[str, str], message: str) -> None:
    """An invalid nonce, and one for the public split, is refused, and nothing is written."""
    with pytest.raises(UsageError, match=message):
        play(tmp_path / "runs", **options)
    assert not (tmp_path / "runs").exists()


def test_an_identity_that_is_not_the_secrets(tmp_path: Path, shell: Shell) -> None:
    """An experiment whose secret was chosen after its identity takes no nonce, and a run of it doesn't verify."""
    root = play(tmp_path, nonce="n1")
    opened = read_run(root).state.opened
    kept = state_directory() / opened.experiment
    kept.rename(kept.with_name("0" * 32))
    (tmp_path / "board" / "experiment.json").write_text(json.dumps({"experiment": "0" * 32}), encoding="utf-8")

    with pytest.raises(UsageError, match="expected an identity that follows from its secret"):
        play(tmp_path, nonce="n1")
    assert "expected an identity" in shell("suites", "identity", "board", "--runs", tmp_path).err
    forged = nonce_finding(root, replace(opened, experiment="0" * 32))
    assert forged is not None
    assert not forged.ok
    assert "not that of the experiment's secret" in forged.detail


def test_an_unknown_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere a nonce can't be checked before the secret is revealed; who demands it is told so."""
    root = play(tmp_path / "runs", nonce="n1")
    home = tmp_path / "elsewhere"
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("XDG_STATE_HOME", str(home))
        assert findings(root)["nonce"]
        assert not findings(root, "n1")["nonce"]
    experiment.reveal(tmp_path / "runs", "board")
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    assert findings(root, "n1")["nonce"]
    assert findings(root, "n1")["commitment"]
