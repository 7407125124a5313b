"""Cases of the paper's release pay here what its own code pays for them: a table of returns, played again."""

import json
import tomllib
from pathlib import Path

import pytest

from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.cases import Split, SplitSource
from evopolicygym.core.event import EpisodePlayed
from evopolicygym.core.task import BudgetRule, Task
from evopolicygym.environments.splits import FILES, RELEASE_NAMES
from evopolicygym.runs.config import RunConfig
from evopolicygym.specs import catalog
from playground import policy
from whole_runs import events, played

pytestmark = pytest.mark.nightly

RELEASED = tomllib.loads(Path(__file__).with_name("released_returns.toml").read_text(encoding="utf-8"))
SLOW = {"car_racing"}


@pytest.mark.parametrize("name", [pytest.param(one, marks=[pytest.mark.nightly] * (one in SLOW)) for one in RELEASED])
def test_a_case_of_the_release_pays_the_same_here(name: str, tmp_path: Path) -> None:
    """A fixed policy gets in a case of the release's files what the release's own code gives it, to 1e-9."""
    released, spec = RELEASED[name], catalog.load(name)
    project, cases = tmp_path / "project", tmp_path / "cases"
    project.mkdir()
    (project / "policy.py").write_text(policy(released["act"], reset=released.get("reset", "pass")), encoding="utf-8")
    cases.mkdir()
    for split, file in FILES.items():
        document = {"cases": [{"seed": int(seed)} for seed in released[split]]}
        document |= {"env": RELEASE_NAMES.get(name, f"gymnasium/{spec.id}"), "split": Path(file).stem}
        (cases / file).write_text(json.dumps(document), encoding="utf-8")
    task = Task(spec, BudgetRule(1), train_cases=1, validation_cases=1, held_out_cases=1)
    agent = AgentConfig("policy", options={"project": str(project)})
    run = played(RunConfig(task, agent, SplitSource.DIRECTORY, cases, runs=tmp_path / "runs", workers=1))
    paid = {one.split: one.episode.episode_return for one in events(run.paths) if isinstance(one, EpisodePlayed)}

    assert paid == pytest.approx({split: sum(released[split].values()) for split in Split}, rel=0, abs=1e-9)
