"""Environments that others wrote are played from a TOML of a few lines: a simulator of one's own, and real packages."""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from enclosed import needs_bubblewrap
from evopolicygym.checks.environment import check
from evopolicygym.core.agent import AgentConfig
from evopolicygym.environments.versions import simulators_of
from evopolicygym.specs import catalog
from places import SUPPORT
from shell import Shell
from whole_runs import config, played

OWN = SUPPORT / "own_environments"
MOST_LINES = 15
PACKAGES = {"flappy_bird": "flappy_bird_gymnasium", "push_t": "gym_pusht", "pong": "ale_py", "own_walk": "own_walk"}
"""The modules that bring the environments; own_walk.py lies beside its TOML."""
LOOKS = """
import importlib.util, json, sys
print(json.dumps([name for name in sys.argv[1:] if "/" not in name and importlib.util.find_spec(name)]))
"""
"""Prints which modules can be imported; what is no name of one is a directory that the command names."""


@pytest.fixture(params=PACKAGES)
def file(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return an environment's TOML, whose directory is on Python's path."""
    name: str = request.param
    monkeypatch.syspath_prepend(str(OWN))
    monkeypatch.setenv("PYTHONPATH", str(OWN), prepend=os.pathsep)
    if find_spec(PACKAGES[name]) is None:
        pytest.skip(f"{PACKAGES[name]} is not installed; make test-all installs it")
    yield OWN / f"{name}.toml"
    for module in ("own_walk", "own_rewards"):
        sys.modules.pop(module, None)


def test_the_check_passes(file: Path) -> None:
    """A TOML of at most fifteen lines passes all that the check looks at."""
    found = list(check(str(file)))

    assert len(file.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
    assert [(one.name, one.detail) for one in found if not one.ok] == []
    assert len(found) > 10


def test_a_run_is_played(file: Path, shell: Shell, tmp_path: Path) -> None:
    """A whole run is played from it, and its record names the module with a hash of its files."""
    few = ("--validation", 2, "--held-out", 2, "--workers", 2, "--runs", tmp_path)
    outcome = shell.json("run", file, "--agent", "random", "--budget", 8, *few)
    document = json.loads((Path(outcome["run"]) / "run.json").read_text(encoding="utf-8"))

    assert document["outcome"]["status"] == "scored"
    assert " sha256 " in f" {document['fingerprint']['simulator_code'][PACKAGES[file.stem]]}"


@needs_bubblewrap
def test_the_agent_can_not_play_it_uncounted(file: Path, tmp_path: Path) -> None:
    """An agent whose Python has the package installed, and whose directory holds the simulator, can import neither."""
    spec = catalog.load(file)
    looks = (sys.executable, "-c", f"import sys; sys.path.append({str(OWN)!r})\n{LOOKS}")
    asked = config(tmp_path / "runs", budget=1, isolation="bubblewrap")
    words = (*looks, *simulators_of(spec), "own_rewards", "numpy", str(OWN))
    told = played(
        replace(asked, task=replace(asked.task, environment=spec), agent=AgentConfig("command", command=words))
    )
    imported = {name for line in told.paths.transcript.read_text("utf-8").splitlines() for name in json.loads(line)}

    assert imported == ({"numpy"} if file.stem == "own_walk" else {"numpy", "own_rewards"})
