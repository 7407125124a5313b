"""What policies may import: always, and where a run names more; the agent can try it, and simulators stay hidden."""

import json
import re
import subprocess
import sys
from ast import literal_eval
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from distributions import install_distribution
from evopolicygym.analysis.results import load_results
from evopolicygym.core.task import Task
from evopolicygym.records.paths import RunPaths
from evopolicygym.runs import preflight
from evopolicygym.sandbox import packages
from evopolicygym.sandbox.packages import policy_library, with_requirements
from evopolicygym.specs import catalog
from places import ROOT
from playground import one_worker
from shell import Shell

SMALL = ("--budget", 1, "--validation", 1, "--held-out", 1, "--workers", 1)
DOCS = (ROOT / "docs" / "use" / "agents.md").read_text(encoding="utf-8")
NOT_ASKED = {"antigravity", "this", "idlelib", "tkinter", "turtle", "turtledemo"}
"""Modules that open or print something as they are imported, or need libraries that lie elsewhere on some machines."""
POLICY = """
from importlib import import_module

found = {}
for name in NAMES:
    try:
        import_module(name)
    except BaseException as error:
        found[name] = f"{type(error).__name__}: {error}"
print(sorted(found))

class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass
    def reset(self, episode_index):
        pass
    def act(self, obs):
        return 0
"""
USES_IT = """
import cmaes, pandas

class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass
    def reset(self, episode_index):
        pass
    def act(self, obs):
        return int(pandas.Series(list(obs)).sum() > 0)
"""


def of_docs(heading: str) -> set[str]:
    """Return the names that a line of the docs lists."""
    (line,) = re.findall(rf"^- \*\*{heading}\*\*:(.*)$", DOCS, re.MULTILINE)
    return set(re.findall(r"`([\w-]+)`", line))


@pytest.mark.parametrize("level", ["bubblewrap", pytest.param("process", marks=pytest.mark.nightly)])
def test_the_docs_list_what_a_policy_can_import(level: str, tmp_path: Path) -> None:
    """A real policy can import the standard library and the packages that the docs list, less what they leave out."""
    known = {name for name in sys.stdlib_module_names if not name.startswith("_")} - NOT_ASKED
    program = POLICY.replace("NAMES", repr(known))
    outside = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True)
    asked = sorted((known - set(literal_eval(outside.stdout))) | of_docs("Always") | of_docs("Never"))
    with one_worker(level, catalog.load("cartpole"), tmp_path) as ground:
        played = ground.play_one(POLICY.replace("NAMES", repr(asked)))
    refused = set(literal_eval((played.directory / "stdout.txt").read_text()))

    assert of_docs("Always") == set(packages.ALWAYS)
    assert refused == (of_docs("Never") | of_docs("Left out of the standard library")) - NOT_ASKED


def needs(*names: str) -> None:
    for name in names:
        if packages.installed_version(name) is None:
            pytest.skip(f"{name} is not installed here")


def played(shell: Shell, place: Path, *words: object) -> dict[str, Any]:
    found: dict[str, Any] = shell.json("run", "cartpole", *SMALL, "--runs", place / "runs", *words)
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("level", ["bubblewrap", "process"])
def test_a_run_names_packages(shell: Shell, tmp_path: Path, level: str) -> None:
    """Agent and policies import what a run names, and in a namespace can't write to it; the record keeps the names."""
    needs("pandas", "cmaes")
    (tmp_path / "mine.py").write_text(USES_IT)
    (tmp_path / "agent.sh").write_text(
        f"cp {tmp_path}/mine.py system/policy.py; "
        f"PYTHONPATH=packages:system python3.{sys.version_info.minor} -c 'import policy; print(\"TRIED\")'; "
        "touch packages/pandas/mark && rm packages/pandas/mark && echo WRITTEN; ./judge info; ./judge submit 0\n"
    )
    script = ("--", "sh", str(tmp_path / "agent.sh"), str(tmp_path / "mine.py"))
    asked = ("--policy-packages", "pandas,CMAES", "--isolation", level)
    told = shell("run", "cartpole", *SMALL, "--runs", tmp_path / "runs", "--json", *asked, *script)
    assert told.code == 0, told.err
    found = json.loads(told.out)
    paths = RunPaths(Path(found["run"]))
    said = paths.transcript.read_text()

    assert found["task"]["policy_packages"] == ["cmaes", "pandas"]
    assert found["fingerprint"]["versions"]["pandas"] == version("pandas")
    assert "python-dateutil" in found["fingerprint"]["versions"]
    assert (found["submissions"][0]["status"], found["submissions"][0]["failed_episodes"]) == ("ok", 0)
    assert "TRIED" in said
    assert f"pandas=={version('pandas')}" in said
    assert ("WRITTEN" in said) is False or level == "process"
    assert "cmaes, pandas" in (paths.workspace / "AGENTS.md").read_text()
    assert shell("verify", found["run"], "--replay").code == 0


def test_other_versions_are_refused(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay needs the same versions, and says which are missing here."""
    needs("cmaes")
    found = played(shell, tmp_path, "--agent", "random", "--policy-packages", "cmaes")
    real = packages.installed_version
    told = {}
    for here in (None, "0.0.1"):
        monkeypatch.setattr(preflight, "installed_version", lambda name, here=here: here if name else real(name))
        told[here] = shell("verify", found["run"], "--replay")

    assert {left.code for left in told.values()} == {3}
    assert f"cmaes {version('cmaes')}" in " ".join(told[None].err.split())
    assert "0.0.1" in told["0.0.1"].err


def test_runs_that_name_others_are_not_pooled(shell: Shell, tmp_path: Path) -> None:
    """Runs whose policies may import other packages stand in tables of their own."""
    needs("cmaes")
    for words in ((), ("--policy-packages", "cmaes")):
        played(shell, tmp_path, "--agent", "random", *words)
    told = shell.printed("leaderboard", tmp_path / "runs")

    assert {run.policy_packages for run in load_results([tmp_path / "runs"]).runs} == {None, "cmaes"}
    assert "policy packages cmaes" in told


@pytest.mark.parametrize(
    "named",
    [
        *("gymnasium", "minigrid", "Box2D", "highway_env", "mujoco", "minari", "evopolicygym", "no-such-package"),
        "a b",
    ],
)
def test_what_can_t_be_named(shell: Shell, tmp_path: Path, named: str) -> None:
    """Simulators, what requires or holds one, and what is not installed are refused by name before a record."""
    if named not in {"no-such-package", "a b"}:
        needs(named)
    words = ("--agent", "random", *SMALL, "--runs", tmp_path / "runs", "--policy-packages", named)
    left = shell("run", "cartpole", *words)

    assert (left.code, left.out) == (2, "")
    assert named.lower().replace("_", "-") in left.err.lower()
    assert not list(tmp_path.rglob("journal.jsonl"))


def test_a_library_that_needs_more(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that asks more of the system than policies may is refused with what it said, before a record."""
    install_distribution(tmp_path / "site", "needy", needy="import socket\nsocket.socket()\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    words = ("--agent", "random", *SMALL, "--runs", tmp_path / "runs", "--policy-packages", "needy")
    left = shell("run", "cartpole", *words)

    assert (left.code, left.out) == (2, "")
    assert "needy" in left.err
    assert "PermissionError" in left.err
    assert not list(tmp_path.rglob("journal.jsonl"))


def test_a_simulator_in_a_package_of_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution that holds a module of a simulator's name is refused, whatever it is called."""
    install_distribution(tmp_path / "site", "innocent", innocent="", gymnax="")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))

    with pytest.raises(packages.UsageError, match=r"innocent.*gymnax\.py"):
        preflight.refuse_packages(Task(catalog.load("cartpole"), policy_packages=("innocent",)))


def test_what_is_required_comes_along() -> None:
    """What a named package requires is shown too, what its extras would bring is not."""
    needs("pandas")

    assert {"pandas", "numpy", "python-dateutil"} <= set(with_requirements(["pandas"]))
    assert "matplotlib" not in with_requirements(["pandas"])
    assert {"pandas", "dateutil"} <= policy_library(["pandas"]).paths.keys()
    assert {"pandas", "dateutil"}.isdisjoint(policy_library().paths)
