"""The reference policies: what a project may be, that each loads and plays, and the agent that plays one."""

import ast
import sys
from pathlib import Path

import pytest

import evopolicygym
from evopolicygym.agents.base import make
from evopolicygym.agents.builtin.reference import write_reference
from evopolicygym.agents.kit import reference_policies
from evopolicygym.core.agent import AgentConfig, EnvironmentSpecificAgent
from evopolicygym.core.cases import PUBLIC_KEY, Split, SplitSource, derive
from evopolicygym.core.errors import UsageError
from evopolicygym.core.rollout import Recording, Rollout
from evopolicygym.core.task import BudgetRule, Limits, PolicyContext, Task
from evopolicygym.judge.rollouts import EpisodeJobBuilder
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.specs import catalog, pack_catalog
from specs import CORE16
from whole_runs import config, played

ROOM = Path(evopolicygym.__file__).parent / "references"
MOST_LINES, MOST_SHARED_LINES = 210, 400
FLOORS = {
    "door_key": 0.98,
    "key_corridor": 0.91,
    "four_rooms": 0.65,
    "obstructed_maze": 0.93,
    "parking": -11.0,
    "fetch_push": -25.0,
    "fetch_pick_and_place": -20.0,
}
"""What the mean return on three train cases of the public split is at least."""
each = pytest.mark.parametrize("name", reference_policies.names())
FILES = sorted(file for file in ROOM.glob("*/*") if file.suffix == ".py")
each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")


def laid(name: str, root: Path) -> Path:
    system = root / "system"
    system.mkdir(exist_ok=True)
    write_reference(name, system)
    return system


def mean_return(name: str, root: Path, cases: int) -> float:
    """Play a reference on train cases of the public split in the real sandbox; none may fail."""
    spec = catalog.load(name)
    system = laid(name, root)
    with LocalExecutor(ExecutorConfig(spec, Limits(), "auto", root / "workers", root / "log", workers=1)) as executor:
        info = executor.info
        context = PolicyContext(name, 0, cases, 0, spec.max_steps, info.observation_schema, info.action_schema)
        job_builder = EpisodeJobBuilder(derive(PUBLIC_KEY, name), PUBLIC_KEY, run_seed=0)
        jobs = [job_builder.job(Split.TRAIN, index, index, None, Recording.OUTPUT) for index in range(cases)]
        episodes = [episode for *_, episode in executor.play([Rollout(system, context, jobs)], lambda *_: None)]
    assert [episode.failure for episode in episodes if episode.failure] == []
    return sum(episode.episode_return for episode in episodes) / cases


def test_names_are_environments() -> None:
    """Each is named as an environment of Core16 or a pack's task, and what is shared is laid where a reference is."""
    of_packs = {task.name for name in pack_catalog.names() for task in pack_catalog.load(name).tasks}

    assert set(reference_policies.names()) <= CORE16 | of_packs
    assert {name for shared in reference_policies.SHARED.values() for name in shared} <= set(reference_policies.names())


@each_file
def test_a_reference_imports_little(file: Path) -> None:
    """A policy needs the standard library, numpy, scipy and what lies in its own project."""
    own = {name.removesuffix(".py") for name in FILES_BY_PROJECT[file.parent.name]}
    named = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            named |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            named.add(str(node.module).split(".")[0])

    assert named <= {*sys.stdlib_module_names, "numpy", "scipy"} | own


FILES_BY_PROJECT = {name: set(reference_policies.files_of(name)) for name in reference_policies.names()} | {
    folder: {file.name for file in (ROOM / folder).iterdir()} for folder in reference_policies.SHARED
}


@each_file
def test_a_reference_is_read_in_minutes(file: Path) -> None:
    """A file explains itself first, in more than a line, and is short; only what is shared may be longer."""
    text = file.read_text(encoding="utf-8")
    told = ast.get_docstring(ast.parse(text)) or ""

    assert len(told.splitlines()) > 2
    assert len(text.splitlines()) <= (
        MOST_SHARED_LINES if file.parent.name in reference_policies.SHARED else MOST_LINES
    )


@each
def test_a_project_holds_a_policy_and_plain_files(name: str) -> None:
    """What is laid is ``policy.py`` with code and numbers beside it: no weights, and nothing that Python left."""
    laid_files = reference_policies.files_of(name)

    assert "policy.py" in laid_files
    assert all(file.endswith((".py", ".json")) for file in laid_files)
    assert sum(map(len, laid_files.values())) < 50_000


def test_laying_replaces_what_was_there(tmp_path: Path) -> None:
    """A reference is the whole of ``system/``: nothing of the policy before it stays."""
    system = tmp_path / "system"
    (system / "old").mkdir(parents=True)
    (system / "old" / "weights.npy").write_text("x")
    write_reference("four_rooms", system)

    assert {file.name for file in system.iterdir()} == {"policy.py", "gridworld.py"}


def test_an_environment_without_a_reference_is_refused(tmp_path: Path) -> None:
    """Before anything is opened it is said which environments have a reference."""
    agent = make(AgentConfig("reference"))
    assert isinstance(agent, EnvironmentSpecificAgent)
    with pytest.raises(UsageError, match=r"'cartpole'.*four_rooms"):
        played(config(tmp_path, "reference"))
    assert list(tmp_path.rglob("journal.jsonl")) == []


def test_the_agent_submits_once(tmp_path: Path) -> None:
    """The agent plays the environment's reference for the whole budget, in one submission."""
    task = Task(catalog.load("key_corridor"), BudgetRule(2), validation_cases=1, held_out_cases=2)
    run = played(config(tmp_path, "reference", task=task, split=SplitSource.PUBLIC)).state

    assert [len(submission.charged.env_instances) for submission in run.submissions] == [2]
    assert not any(episode.failure for episode in run.submissions[0].episodes if episode)
    assert run.finished is not None
    assert run.finished.score is not None
    assert run.finished.score > 0.8


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(FLOORS))
def test_floor(name: str, tmp_path: Path) -> None:
    """A reference is about as good as it is said to be, on train cases and in the real sandbox."""
    assert mean_return(name, tmp_path, 3) >= FLOORS[name]


@pytest.mark.nightly
def test_floor_of_the_roundabout(tmp_path: Path) -> None:
    """The roundabout's reference gets through without a crash."""
    assert mean_return("roundabout", tmp_path, 3) >= 9.8
