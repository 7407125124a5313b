"""What the program proposes, and what it says of what is asked for: lines for a shell, caps, what is missing."""

import os
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from evopolicygym.environments.versions import is_installed
from evopolicygym.records import experiment
from evopolicygym.specs import catalog
from played_runs import PlayedRun
from shell import Shell

FEW = ("--agent", "random", "--budget", 2, "--validation", 1, "--held-out", 2)


def test_next_lines_paste_as_they_stand(shell: Shell, tmp_path: Path) -> None:
    """A proposed command names the run's directory in one word, whatever it is called, and holds nothing else.

    More workers than there are cores or episodes are not started, and a note says so. Nothing is said of the public
    split of an experiment that was revealed: it never was hidden.
    """
    runs = tmp_path / "my runs (2)"
    experiment.begin(runs, "default")
    experiment.reveal(runs, "default")
    left = shell("run", "cartpole", *FEW, "--runs", runs, "--workers", 500, "--split", "public")
    lines = [line.removeprefix("next    ") for line in left.out.splitlines() if line.startswith("next ")]
    words = [shlex.split(line) for line in lines]
    most = min(len(os.sched_getaffinity(0)), 2)

    assert [one[1:-1] for one in words] == [["show"], ["verify", "--replay"]]
    assert all(Path(one[-1]).is_dir() for one in words)
    assert re.search(rf"--workers 500.*\b{most}\b", left.err)
    assert "reveal" not in left.err
    assert shell(*words[0][1:]).code == 0


def test_workers_of_a_replay_are_capped(shell: Shell, run_copy: PlayedRun) -> None:
    """`verify --replay` starts no more workers than there are cores, and a note says so."""
    left = shell("verify", run_copy.paths.root, "--replay", "--workers", 500)

    assert left.code == 0
    assert re.search(rf"--workers 500.*\b{len(os.sched_getaffinity(0))}\b", left.err)


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
    assert "pip install 'evopolicygym[core16]'" in listed.out
    assert planned.out.count("not installed") == 4


def test_a_run_on_published_cases_says_so(shell: Shell, tmp_path: Path) -> None:
    """Whoever plays on cases that were published is warned."""
    experiment.begin(tmp_path, "default")
    experiment.reveal(tmp_path, "default")
    left = shell("run", "cartpole", *FEW, "--runs", tmp_path, "--workers", 1)

    assert left.code == 0
    assert "reveal" in left.err


BROKEN = """
import gymnasium
import numpy as np
from gymnasium import spaces


class Broken(gymnasium.Env):
    observation_space = action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        print("x" * 3000)
        raise ZeroDivisionError("no fuel")


gymnasium.register("Broken-v0", Broken)
"""


def test_an_environment_that_fails_is_named(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of a simulator says which it is, and where the whole of what it printed is kept; no run is left."""
    good = Path(catalog.__file__).with_name("pendulum.toml")
    text = good.read_text().replace("Pendulum-v1", "Broken-v0")
    (tmp_path / "mine.toml").write_text(f'imports = ["broken_simulator"]\n{text}')
    (tmp_path / "broken_simulator.py").write_text(BROKEN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    left = shell("run", tmp_path / "mine.toml", *FEW, "--runs", tmp_path / "runs", "--workers", 1)
    (kept,) = (tmp_path / "runs").rglob("*.log")

    assert left.code == 4
    assert "'mine'" in left.err
    assert "ZeroDivisionError: no fuel" in left.err
    assert str(kept) in left.err
    assert "Traceback (most recent call last)" in kept.read_text()
    assert not list((tmp_path / "runs").rglob("journal.jsonl"))


def test_suites_take_what_runs_take(shell: Shell) -> None:
    """A suite's agents can be given a model's server, as the errors of an agent that has none say."""
    words = ("suite", "smoke", "--agent", "neutral", "--model", "m", "--model-url", "http://127.0.0.1:1", "--dry-run")
    told = shell(*words, "--model-wire", "chat", "--max-turns", 2, "--effort", "low")

    assert told.code == 0, told.err
    assert "neutral:m@low" in told.out
