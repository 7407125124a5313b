"""The paper's own client contract: a program that knows urllib and three addresses plays a real run to its end."""

import json
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.core.event import CloseReason, RunStatus
from whole_runs import Told, config, played, state_kept_in


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Return a run that the paper's client played."""
    place = tmp_path_factory.mktemp("paper")
    with state_kept_in(place / "state"):
        return played(config(place / "runs", "players:make_paper_client", budget=12, isolation="none"))


@pytest.fixture(scope="module")
def told(run: Told) -> dict[str, Any]:
    """Return what the client saw."""
    found: dict[str, Any] = json.loads(run.paths.transcript.read_text(encoding="utf-8"))
    return found


def test_the_client_spends_its_budget(run: Told) -> None:
    """The run closes when the budget is spent, and has a score."""
    assert run.state.closed is not None
    assert run.state.finished is not None
    assert (
        run.state.remaining,
        run.state.closed.reason,
        run.state.finished.status,
    ) == (0, CloseReason.BUDGET_SPENT, RunStatus.SCORED)


def test_what_the_client_is_told(told: dict[str, Any]) -> None:
    """/info and /task answer what the release answered."""
    assert (told["task"], told["budget"]) == ("# Task: cartpole", 12)


def test_the_answer_is_the_summary(told: dict[str, Any]) -> None:
    """What POST /submit answers is what stands in summary.json, and text ranges are read in order."""
    assert [(one["answer"], one["same"]) for one in told["rounds"]] == [("ok", True)] * 3
    assert [one["env_instances"] for one in told["rounds"]] == [[0, 1, 2, 3, 7], [0, 1, 2, 3, 7], [0, 1]]


def test_the_trajectory_is_readable(told: dict[str, Any]) -> None:
    """Each step has the release's fields, the rewards add up to the return, and the last step ends the episode."""
    fields = {"t", "obs", "action", "reward", "terminated", "truncated", "info", "reward_components"}

    assert all(fields <= set(one["keys"]) for one in told["rounds"])
    assert all(one["adds_up"] and one["ended"] for one in told["rounds"])


def test_the_policy_improves(told: dict[str, Any], run: Told) -> None:
    """What the client edits is what is played: a better gain has a better return, and is selected."""
    means = [one["mean_return"] for one in told["rounds"]]

    assert means[2] > means[0]
    assert run.state.selected is not None
    assert run.state.selected.submit_index > 0


def test_the_workspace_stays_readable(run: Told) -> None:
    """Feedback lies where the client looked for it."""
    assert Path("submit_002/summary.json") in {
        path.relative_to(run.paths.feedback) for path in run.paths.feedback.rglob("summary.json")
    }
