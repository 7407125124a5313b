"""The code of a simulator of one's own is part of a run's fingerprint."""

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from evopolicygym.analysis.ranking.comparability import comparability_notes, comparable
from evopolicygym.analysis.results import load_results
from evopolicygym.core.check_result import ReplayVerdict
from evopolicygym.core.errors import EnvironmentFault, RecordError, UsageError
from evopolicygym.core.event import Event, RunOpened, SubmissionPublished
from evopolicygym.core.rollout import other_code
from evopolicygym.core.run import RunState, Stage
from evopolicygym.core.task import EnvironmentSpec, Limits
from evopolicygym.environments.environment import Environment
from evopolicygym.environments.versions import code_of, simulator_code
from evopolicygym.records.reader import find_runs
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.runs.replay import ReplayOptions, compare_replay, replay
from evopolicygym.runs.run import play, resume
from evopolicygym.specs import catalog
from fakes import whole_run
from places import SUPPORT
from records_of_runs import changed, real_document, write
from whole_runs import config, played

pytestmark = pytest.mark.made_up

OWN = SUPPORT / "own_environments"
CHANGED = "ARRIVES, PAYS = 1.0, -2.0\n"


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the directory of a simulator and of what it imports from beside it, on the path of all processes."""
    place = Path(shutil.copytree(OWN, tmp_path / "mine"))
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.setenv("PYTHONPATH", str(place), prepend=os.pathsep)
    yield place
    for name in ("own_walk", "own_rewards"):
        sys.modules.pop(name, None)
    gymnasium.registry.pop("OwnWalk-v0", None)


def made(place: Path) -> EnvironmentSpec:
    """Return the spec of the simulator, which was made in this process."""
    spec = catalog.load(place / "own_walk.toml")
    Environment(spec).close()
    return spec


def test_code_is_what_makes_an_environment(beside: Path) -> None:
    """The module that a spec names and what it imports from beside are hashed; what else lies there is not."""
    (beside / "agent.py").write_text("print()\n", encoding="utf-8")
    spec = made(beside)
    before = simulator_code(spec)
    (beside / "agent.py").write_text("print(1)\n", encoding="utf-8")
    (beside / "own_rewards.py").write_text(CHANGED, encoding="utf-8")
    after = simulator_code(spec)

    assert before.keys() == after.keys() == {"own_walk", "own_rewards"}
    assert [one.module for one in other_code(before, after)] == ["own_rewards"]


def test_a_package_is_all_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data count as code does; what Python compiled, hidden files and records of runs in the package don't."""
    package = tmp_path / "own_package"
    (package / "maps").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "maps" / "one.toml").write_text("walls = 1", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = code_of(["own_package"])
    for place in ("__pycache__/a.pyc", ".git/HEAD", "runs/one/journal.jsonl", "runs/one/run.json"):
        (package / place).parent.mkdir(parents=True, exist_ok=True)
        (package / place).write_text("anything", encoding="utf-8")
    unchanged = code_of(["own_package"])
    (package / "maps" / "one.toml").write_text("walls = 2", encoding="utf-8")

    assert before == unchanged
    assert before != code_of(["own_package"])
    assert "own_package" not in sys.modules


def test_an_installed_module_names_its_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a distribution installed is named with its version, and hashed as it lies there."""
    packages = tmp_path / "site-packages"
    for place, text in {
        "own_game/__init__.py": "REWARD = 1",
        "own_game-1.2.dist-info/METADATA": "Metadata-Version: 2.1\nName: own-game\nVersion: 1.2\n",
        "own_game-1.2.dist-info/RECORD": "own_game/__init__.py,,\n",
    }.items():
        (packages / place).parent.mkdir(parents=True, exist_ok=True)
        (packages / place).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(packages))
    before = code_of(["own_game"])
    (packages / "own_game/__init__.py").write_text("REWARD = 2", encoding="utf-8")

    assert before["own_game"].startswith("own-game 1.2, sha256 ")
    assert before != code_of(["own_game"])


def test_what_gymnasium_makes_alone_has_no_other_code() -> None:
    """Of gymnasium's own environments the versions say all."""
    spec = catalog.load("cartpole")
    Environment(spec).close()

    assert simulator_code(spec) == {}


def test_a_run_goes_on_under_its_own_code_alone(beside: Path, tmp_path: Path) -> None:
    """Where the simulator was changed a run is not resumed, which names the module; where it was put back, it is."""
    asked = config(tmp_path / "runs", "random", budget=4)
    asked = replace(asked, task=replace(asked.task, environment=catalog.load(beside / "own_walk.toml")))
    with pytest.raises(KeyboardInterrupt):
        play(asked, lambda *_: None, interrupts)
    (root,) = find_runs(tmp_path / "runs")
    (beside / "own_rewards.py").write_text(CHANGED, encoding="utf-8")
    with pytest.raises(RecordError, match=r"own_rewards: sha256 \w{12} .*sha256 \w{12} "):
        resume(root, 1, lambda *_: None, lambda *_: None)
    shutil.copyfile(OWN / "own_rewards.py", beside / "own_rewards.py")

    assert resume(root, 1, lambda *_: None, lambda *_: None).stage is Stage.FINISHED


def interrupts(event: Event, _state: RunState) -> None:
    """Stop a run once it has published feedback."""
    if isinstance(event, SubmissionPublished):
        raise KeyboardInterrupt


def test_a_replay_says_that_the_code_is_another(beside: Path, tmp_path: Path) -> None:
    """Where a score plays otherwise by other code, that is said, and not that nothing explains it."""
    asked = config(tmp_path / "runs", "random", budget=2)
    asked = replace(asked, task=replace(asked.task, environment=catalog.load(beside / "own_walk.toml")))
    root = played(asked).paths.root
    same = list(replay(root, ReplayOptions(1)))
    (beside / "own_rewards.py").write_text(CHANGED, encoding="utf-8")
    other = list(replay(root, ReplayOptions(1)))

    assert (compare_replay(same)[0], same[0].other_versions) == (ReplayVerdict.SAME, ())
    assert compare_replay(other)[0] is ReplayVerdict.DIFFERENT
    assert ["own_rewards" in one for one in other[0].other_versions] == [True]


def test_code_that_changes_while_it_is_played(beside: Path, tmp_path: Path) -> None:
    """A worker that comes in the place of another and finds other code stops the run."""
    spec, log = catalog.load(beside / "own_walk.toml"), tmp_path / "log"
    with LocalExecutor(ExecutorConfig(spec, Limits(), "auto", tmp_path / "workers", log, 1)) as executor:
        assert executor.info.simulator_code.keys() == {"own_walk", "own_rewards"}
        (beside / "own_rewards.py").write_text(CHANGED, encoding="utf-8")
        executor._replace(executor._slots[0])

        with pytest.raises(EnvironmentFault, match="own_rewards"):
            executor._ready(executor._slots[0])


def test_tables_pool_no_runs_of_other_code(tmp_path: Path) -> None:
    """Runs by other code of their simulator stand in tables of their own that name the module; older records in one."""
    document = real_document(tmp_path / "real")
    codes: list[dict[str, str]] = [{"walk": "sha256 " + "0" * 64}, {}, {"walk": "sha256 " + "1" * 64}]
    for seed, code in enumerate(codes):
        write(tmp_path / "runs", coded(document, seed, code))
    first, older, other = load_results([tmp_path / "runs"]).runs

    assert len(comparable([first, older], ())) == 1
    assert [one.title for one in comparable([first, older, other], ())] == [
        "walk sha256 000000000000",
        "walk sha256 111111111111",
    ]
    with pytest.raises(UsageError, match=r"simulator's code.*acrobot"):
        comparability_notes([first, older, other], (), mix=False)


def coded(document: dict[str, Any], seed: int, code: dict[str, str]) -> dict[str, Any]:
    """Return a run's document whose simulator had some code."""
    new = changed(document, "acrobot", "tuner", [-90.0, -80.0], seed)
    new["fingerprint"] |= {"simulator_code": code} if code else {}
    return new


def test_a_record_without_code_is_refused_by_none(beside: Path, tmp_path: Path) -> None:
    """A record that doesn't name its simulator's code is refused by no code that is here."""
    opened, *_ = whole_run()
    assert isinstance(opened, RunOpened)

    assert real_document(tmp_path / "real")["fingerprint"]["simulator_code"] == {}
    assert other_code(opened.simulator_code, simulator_code(made(beside))) == ()
