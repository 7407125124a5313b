"""What breaks the contract of an environment is found by the verb, also late in an episode."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from broken_contracts import INFOS
from places import SUPPORT
from shell import Shell

MAX_STEPS = 400
FILE = f"""
id = "Broken-v0"
family = "mine"
kind = "tuning"
imports = ["broken_contracts"]
max_steps = {MAX_STEPS}
objective = "Walk."
reward = "1"
termination = "Never."
observation = ["place"]
action = ["left", "stay", "right"]
idle_action = 1
"""


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT), prepend=os.pathsep)


def broken(directory: Path, fault: str) -> Path:
    """Write the spec of an environment with a fault."""
    file = directory / "broken.toml"
    file.write_text(f'{FILE}arguments = {{ fault = "{fault}" }}\n', encoding="utf-8")
    return file


def findings(shell: Shell, file: Path) -> dict[str, dict[str, Any]]:
    """Return the findings of the verb by name."""
    left = shell("check", "environment", file, "--json")
    document = json.loads(left.out)

    assert (left.code, document["ok"]) == ((0, True) if all(one["ok"] for one in document["findings"]) else (1, False))
    return {finding["name"]: finding for finding in document["findings"]}


def failed(shell: Shell, file: Path) -> set[str]:
    """Return the names of the findings that fail."""
    return {name for name, finding in findings(shell, file).items() if not finding["ok"]}


REPEATS = {"repeats", "repeats after another episode", "repeats in other processes"}


@pytest.mark.parametrize(
    ("fault", "names"),
    [
        ("", set()),
        ("late dtype", {"observations"}),
        ("late NaN reward", {"plays"}),
        ("late in few", {"plays"}),
        ("late error", {"plays"}),
        ("late draw", REPEATS),
        ("outside", {"observations", "gymnasium"}),
        ("NaN", {"observations", "gymnasium", "cases differ"}),
        ("one case", {"cases differ"}),
    ],
)
def test_a_broken_contract_is_found(fault: str, names: set[str], shell: Shell, tmp_path: Path) -> None:
    """Whatever is broken, and however late in an episode, fails by its name; nothing else does."""
    assert names == failed(shell, broken(tmp_path, fault))


@pytest.mark.parametrize("info", INFOS)
def test_what_a_run_can_not_record_is_found(info: str, shell: Shell, tmp_path: Path) -> None:
    """Recording fails for those values of info on which a run stops, and only for those."""
    file = broken(tmp_path, info)
    few = ("--budget", 1, "--validation", 1, "--held-out", 1, "--isolation", "none", "--runs", tmp_path / "runs")
    run = shell("run", file, "--agent", "random", *few)

    assert run.code in {0, 4}
    assert (run.code == 4) == ("recording" in failed(shell, file))


@pytest.mark.parametrize(("fault", "steps", "episodes"), [("", MAX_STEPS, 3), ("one step", 1, 20)])
def test_the_last_line_says_how_much_was_played(
    fault: str, steps: int, episodes: int, shell: Shell, tmp_path: Path
) -> None:
    """It has the steps of the longest episode; where episodes end at once, more of them are played."""
    *_, last = findings(shell, broken(tmp_path, fault)).values()

    assert (last["name"], last["ok"], last["max_steps"]) == ("coverage", True, MAX_STEPS)
    assert (last["steps"], last["episodes"]) == (steps, episodes)


@pytest.mark.parametrize(("fault", "distinct"), [("", 4), ("one case", 1)])
def test_held_out_episodes_that_are_one_are_named(fault: str, distinct: int, shell: Shell, tmp_path: Path) -> None:
    """A run shows how many of its held-out trajectories differ, and says where a spread of 0 is of one episode."""
    few = ("--budget", 1, "--validation", 1, "--held-out", 4, "--isolation", "none", "--runs", tmp_path / "runs")
    played = shell.json("run", broken(tmp_path, fault), "--agent", "tuner", *few)
    shown = shell("show", played["run"]).out

    assert shell.json("show", played["run"])["distinct_held_out_trajectories"] == distinct
    assert ("\ncases " in shown) == (distinct == 1)


def test_a_fault_of_the_simulator_leads_to_a_new_run(shell: Shell, tmp_path: Path) -> None:
    """A run that a simulator's own fault stopped names resume, and a new run for a simulator that is changed."""
    few = ("--budget", 1, "--validation", 1, "--held-out", 1, "--isolation", "none", "--runs", tmp_path / "runs")
    run = shell("run", broken(tmp_path, "late error"), "--agent", "random", *few)

    assert run.code == 4
    assert "evopolicygym resume" in run.err
    assert "new run" in run.err
