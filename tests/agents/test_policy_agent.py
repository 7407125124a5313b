"""The agent ``policy``: it plays a project that is there already, under the name that it is given."""

from dataclasses import replace
from pathlib import Path

import pytest

from evopolicygym.agents.base import make
from evopolicygym.core.agent import AgentConfig, EnvironmentSpecificAgent
from evopolicygym.core.errors import UsageError
from evopolicygym.records.reader import find_runs, read_run
from shell import Shell
from whole_runs import config, played

BALANCER = """
from angles import ANGLE, SPEED

class Policy:
    def __init__(self, obs_space, action_space, env_meta): pass
    def reset(self, episode_index): pass
    def act(self, obs): return int(obs[ANGLE] + 0.5 * obs[SPEED] > 0)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project of two files that balances a pole, with what Python left there."""
    project = tmp_path / "balancer"
    (project / "__pycache__").mkdir(parents=True)
    (project / "__pycache__" / "angles.pyc").write_bytes(b"old")
    (project / "angles").mkdir()
    (project / "angles" / "__init__.py").write_text("ANGLE, SPEED = 2, 3\n", encoding="utf-8")
    (project / "policy.py").write_text(BALANCER, encoding="utf-8")
    return project


def agent(project: Path, model: str = "") -> AgentConfig:
    return AgentConfig("policy", model, {"project": str(project)})


def test_a_given_project_is_played(project: Path, tmp_path: Path, shell: Shell) -> None:
    """The project is the whole of ``system/``, submitted once for the whole budget, and scored.

    A name for tables is no model that could cost something, so nobody is warned of a price that is not known.
    """
    words = ["--agent", "policy", "--option", f"project={project}", "--model", "by hand", "--runs", tmp_path / "runs"]
    left = shell(
        "run",
        "cartpole",
        *words,
        "--budget",
        3,
        "--validation",
        1,
        "--held-out",
        2,
        "--workers",
        1,
        "--isolation",
        "none",
    )
    (root,) = find_runs(tmp_path / "runs")
    state, system = read_run(root).state, root / "workspace" / "system"

    assert (left.code, "price" in left.err.replace(str(tmp_path), "")) == (0, False)
    assert [len(submission.charged.env_instances) for submission in state.submissions] == [3]
    assert {file.relative_to(system).as_posix() for file in system.rglob("*.*")} == {"policy.py", "angles/__init__.py"}
    assert state.finished is not None
    assert state.finished.score is not None
    assert state.finished.score > 150


def test_tables_call_it_by_its_model(project: Path) -> None:
    """The model is what the policy is called by, and nothing is asked of it."""
    config = agent(project, "PPO 128 episodes")
    make(config)

    assert config.entry == "policy PPO 128 episodes"


def test_a_missing_project_is_refused(tmp_path: Path) -> None:
    """Before a run is opened it is said that there is no project, and what one is."""
    found = make(agent(tmp_path / "nowhere"))
    assert isinstance(found, EnvironmentSpecificAgent)
    with pytest.raises(UsageError, match=r"nowhere.*policy\.py"):
        played(replace(config(tmp_path / "runs"), agent=agent(tmp_path / "nowhere")))
    assert list(tmp_path.rglob("journal.jsonl")) == []


@pytest.mark.parametrize("options", [{}, {"projects": "x"}, {"project": "x", "seed": 1}])
def test_other_options_are_refused(options: dict[str, str]) -> None:
    """It takes one option, and says which."""
    with pytest.raises(UsageError, match="--option project=DIR"):
        make(AgentConfig("policy", options=options))
