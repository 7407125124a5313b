"""A run whose agent's commands are executed in its own workplace while somebody else decides on them."""

import json
from pathlib import Path
from typing import Any

import pytest

from enclosed import needs_bubblewrap
from evopolicygym.agents.kit.outside_agent import TurnOver
from evopolicygym.api.play.serve import HostedRun, host, resume_hosted
from evopolicygym.api.read.run import Run
from evopolicygym.core.errors import AgentError
from evopolicygym.sandbox.program.standing import Execution, WorkplaceLost
from fakes import PATIENCE_S
from players import GOOD

pytestmark = needs_bubblewrap
SMALL: dict[str, Any] = {"validation": 1, "held_out": 2, "split": "public", "workers": 1, "isolation": "bubblewrap"}
DRIVEN = {"driven by": "a test"}


def used() -> dict[str, float]:
    return {"input": 10, "output": 5}


def begun(runs: Path, budget: int = 4) -> HostedRun:
    return host("cartpole", "inspect_ai", DRIVEN, used, runs=runs, budget=budget, label="tested", **SMALL)


def submit(run: HostedRun, cases: str, policy: str = GOOD) -> Execution:
    command = f"cat > system/policy.py && ./judge submit {cases}"
    return run.workplace.execute(["bash", "-c", command], policy.encode(), limit_s=PATIENCE_S)


def document(run: Run | HostedRun) -> dict[str, Any]:
    assert run.path is not None
    found: dict[str, Any] = json.loads((run.path / "run.json").read_bytes())
    return found


def test_a_run_is_driven_from_elsewhere(tmp_path: Path) -> None:
    """Its commands are kept in, and what the record says of it is who drove it, and what was used of models."""
    run = begun(tmp_path)
    done = submit(run, "0-1")
    left = run.remaining
    scored = run.finish()
    record = document(scored)

    assert (done.code, left) == (0, 2), done
    assert (scored.score, record["outcome"]["closed"]) == (500.0, "agent_ended")
    assert record["isolation"]["agent"].items() >= DRIVEN.items()
    assert {"hidden", "privileges", "simulators"} <= record["isolation"]["agent"].keys()
    assert record["tool_usage"] == {"input": 10, "output": 5}
    with pytest.raises(TurnOver):
        run.workplace.execute(["true"])


def test_a_paused_run_goes_on(tmp_path: Path) -> None:
    """A run that is paused keeps its files and its one turn; resumed, it has what is left of the budget."""
    run = begun(tmp_path)
    submit(run, "0-1")
    run.pause("the harness stopped")
    with pytest.raises(AgentError, match="the harness stopped"):
        run.finish()
    assert run.path is not None
    again = resume_hosted(run.path, DRIVEN, used)
    assert isinstance(again, HostedRun)
    left = again.remaining
    policy = again.workplace.execute(["cat", "system/policy.py"], limit_s=PATIENCE_S).stdout
    submit(again, "0-1")
    scored = again.finish()
    once_more = resume_hosted(run.path, DRIVEN, used)

    assert (left, policy) == (2, GOOD.encode())
    assert (scored.score, document(scored)["budget"]["spent"]) == (500.0, 4)
    assert isinstance(once_more, Run)
    assert once_more.score == 500.0


def test_a_lost_workplace_is_made_anew(tmp_path: Path) -> None:
    """Commands that end their sandbox lose what lay outside of the workspace; the turn goes on till all is spent."""
    run = begun(tmp_path)
    with pytest.raises(WorkplaceLost):
        run.workplace.execute(["bash", "-c", "kill -KILL -1"], limit_s=PATIENCE_S)
    done = submit(run, "0-3")
    scored = run.finish()

    assert done.code == 0
    assert run.closed
    assert (scored.score, document(scored)["outcome"]["closed"]) == (500.0, "budget_spent")
