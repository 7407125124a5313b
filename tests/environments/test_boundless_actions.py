"""Actions that nothing bounds: a policy that breaks a simulator with them has failed, and stops no run."""

import json
from pathlib import Path

import numpy as np
import pytest

from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.errors import EnvironmentFault
from evopolicygym.core.rollout import ATTEMPTS, FailureReason
from evopolicygym.core.spaces import (
    Box,
    Dict,
    Discrete,
    InvalidAction,
    MultiBinary,
    Space,
    Text,
    Tuple,
    action_reader,
    is_bounded,
)
from evopolicygym.core.task import BudgetRule, Task
from evopolicygym.runs.config import RunConfig
from places import SUPPORT
from playground import local_executor, one_worker, policy
from simulators import STEPS, spec
from whole_runs import played

WAYS = (
    *("raises", "dies", "gives infinity", "adds up to infinity", "gives infinities of both signs"),
    "gives another shape",
)
FEW = ("dies", "gives infinities of both signs")
"""What the gate tries."""
LATE = "self.n += 1\nreturn np.full(2, 3e38) if self.n > 2 else self.still"
GREEDY = policy(LATE, init="self.n = 0")


@pytest.mark.parametrize("number", [1e308, -1e308, 3.5e38, float(np.finfo(np.float64).max)])
def test_what_the_dtype_can_not_hold_is_invalid(number: float) -> None:
    """A number that the space's dtype can't hold is no action where there is no bound, and clipped where one is."""
    read = action_reader(Box((2,), "float32", (0.0, float("-inf")), (float("inf"), 1.0)))
    most = float(np.finfo(np.float32).max)

    with pytest.raises(InvalidAction, match="float32"):
        read(np.array([abs(number), 0.0]))
    with pytest.raises(InvalidAction, match="float32"):
        read(np.array([0.0, -abs(number)]))
    assert [part.tolist() for part in read(np.array([most, -most]))[:1]] == [[most, -most]]
    assert [read(np.array([-1e308, 1e308]))[0].tolist()] == [[0.0, 1.0]]


@pytest.mark.parametrize(
    ("space", "bounded"),
    [
        (Discrete(3), True),
        (MultiBinary((2,)), True),
        (Box((2,), "float32", -1.0, 1.0), True),
        (Box((2,), "uint8", 0.0, 255.0), True),
        (Box((2,), "float32", -1.0, (1.0, float("inf"))), False),
        (Box((2,), "float64", -1e300, 1e300), False),
        (Box((2,), "int64", float(np.iinfo(np.int64).min), 0.0), False),
        (Text(3), False),
        (Tuple((Discrete(2), Text(3))), False),
        (Dict((("a", Discrete(2)), ("b", Box((2,), "float32", -1.0, 1.0)))), True),
    ],
)
def test_which_spaces_keep_a_simulator_from_harm(space: Space, bounded: bool) -> None:  # noqa: FBT001 - a table's column
    """A space is bounded where no value of it is larger than what a simulator can reckon with."""
    assert is_bounded(space) == bounded


@pytest.mark.parametrize("way", [pytest.param(way, marks=[pytest.mark.nightly] * (way not in FEW)) for way in WAYS])
def test_who_breaks_the_simulator_has_failed(way: str, tmp_path: Path) -> None:
    """The case is played again as ever, then by the anchor alone: its return stands, and the episode has failed."""
    with local_executor("process", spec("Boundless", fails=way), tmp_path) as ground:
        broken, honest = ground.play(GREEDY, 3)[0], ground.play_one(policy("raise ValueError"), 3)
    failure = broken.episode.failure

    assert failure
    assert (failure.reason, failure.step) == (FailureReason.INVALID_ACTION, 0)
    assert str(ATTEMPTS) in broken.read("error.txt")
    assert broken.episode.trajectory_sha256 == honest.episode.trajectory_sha256
    assert (len(ground.repeated), broken.episode.length) == (ATTEMPTS, STEPS)


@pytest.mark.nightly
def test_who_hangs_the_simulator_has_failed(tmp_path: Path) -> None:
    """A simulator that never comes back from such an action is given up as often as one that fails."""
    with local_executor("process", spec("Boundless", fails="hangs"), tmp_path) as ground:
        failure = ground.play_one(GREEDY).episode.failure

    assert (failure and failure.reason) == FailureReason.INVALID_ACTION


def test_an_observation_that_is_no_number_is_shown_as_it_is(tmp_path: Path) -> None:
    """Where a simulator goes on with NaN, so does the policy, and the record says so."""
    with one_worker("process", spec("Boundless"), tmp_path) as ground:
        episode = ground.play_one(GREEDY)
    lines = [json.loads(line) for line in episode.read("trajectory.jsonl").splitlines()]

    assert (episode.episode.failure, lines[-1]["final_obs"]) == (None, ["NaN", "NaN"])


def test_what_fails_without_the_policy_is_the_environments(tmp_path: Path) -> None:
    """Where the simulator fails on the anchor's actions too, the fault is the environment's as ever."""
    with (
        local_executor("process", spec("Boundless", fails="raises", large=0.0), tmp_path) as ground,
        pytest.raises(EnvironmentFault, match=f"{ATTEMPTS + 1} times.*OverflowError"),
    ):
        ground.play_one(GREEDY)


@pytest.mark.nightly
@pytest.mark.parametrize("way", ["raises", "dies"])
def test_no_run_is_stopped_by_it(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole run of such a policy is charged, validated and scored by what the anchor got."""
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    task = Task(spec("Boundless", fails=way), BudgetRule(2), train_cases=2, validation_cases=1, held_out_cases=2)
    agent = AgentConfig("scripted", options={"steps": [{"write": "policy.py", "content": GREEDY}, {"submit": [0, 1]}]})
    asked = RunConfig(task, agent, SplitSource.PUBLIC, runs=tmp_path / "runs", workers=1, isolation="process")
    state = played(asked).state

    assert (state.spent, [one.status for one in state.submissions]) == (2, ["ok"])
    assert state.finished
    assert state.finished.score is not None
