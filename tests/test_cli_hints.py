"""What the program proposes, and what it says of what is asked for: lines for a shell, caps, what is missing."""

import os
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from evopolicygym.environments import catalog
from evopolicygym.environments.versions import is_installed
from evopolicygym.runs import experiment
from shell import Shell

FEW = ("--agent", "random", "--budget", 2, "--validation", 1, "--held-out", 2)


def test_next_lines_paste_as_they_stand(shell: Shell, tmp_path: Path) -> None:
    """A proposed command names the run's directory in one word, whatever it is called, and holds nothing else."""
    left = shell("run", "cartpole", *FEW, "--runs", tmp_path / "my runs (2)")
    lines = [line.removeprefix("next    ") for line in left.out.splitlines() if line.startswith("next ")]
    words = [shlex.split(line) for line in lines]

    assert [one[1:-1] for one in words] == [["show"], ["verify", "--replay"]]
    assert all(Path(one[-1]).is_dir() for one in words)
    assert shell(*words[0][1:]).code == 0


def test_workers_are_capped(shell: Shell, tmp_path: Path) -> None:
    """More workers than there are cores or episodes are not started, and a note says so."""
    left = shell("run", "cartpole", *FEW, "--runs", tmp_path, "--workers", 500)
    most = min(len(os.sched_getaffinity(0)), 2)

    assert left.code == 0
    assert f"--workers 500 was asked for; there are {most}" in left.err
    assert f"so {most} are started" in left.err


def test_what_is_not_installed_is_marked(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """``environments`` and a suite's plan say which simulators are not here, and the list says what brings them."""
    spec = catalog.load("reacher")
    monkeypatch.setattr("evopolicygym.environments.versions._is_installed", lambda name: name != "mujoco")
    listed, planned = shell("environments"), shell("suite", "mujoco", "--dry-run")

    assert not is_installed(spec)
    assert is_installed(replace(spec, packages=()))
    marked = [line.split()[0] for line in listed.out.splitlines() if " * " in line]
    assert [name for name in marked if name != "*"] == [
        "ant", "half_cheetah", "pusher", "reacher", "fetch_pick_and_place", "fetch_push",
    ]  # fmt: skip
    assert "* not installed: pip install 'evopolicygym[core16]'" in listed.out
    assert planned.out.count("its simulator is not installed") == 4


@pytest.mark.parametrize("split", ["private", "public"])
def test_a_run_of_a_revealed_experiment_says_so(shell: Shell, tmp_path: Path, split: str) -> None:
    """Whoever plays on cases that were published is warned; a public split never was hidden."""
    experiment.begin(tmp_path, "default")
    experiment.reveal(tmp_path, "default")
    left = shell("run", "cartpole", *FEW, "--runs", tmp_path, "--split", split)

    assert left.code == 0
    assert ("were revealed" in left.err) == (split == "private")
