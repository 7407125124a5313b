"""When an episode is a success: never by the random actions that finish a failed one, nor by a crash into the goal."""

from dataclasses import replace
from pathlib import Path

import pytest

from evopolicygym.analysis.run_tables import load_runs
from evopolicygym.core.event import EpisodePlayed
from evopolicygym.core.rollout import Failure, FailureReason
from evopolicygym.core.task import Success, SuccessRule
from evopolicygym.environments.environment import Environment
from evopolicygym.records.reader import read_run
from evopolicygym.records.run_document import success_rate
from evopolicygym.records.verify import findings
from evopolicygym.records.writer import RunWriter
from evopolicygym.specs import catalog
from fakes import whole_run
from made_up import load_result
from playground import local_executor, policy
from shell import Shell
from simulators import spec
from viewed import documents

pytestmark = pytest.mark.made_up

FAILED = Failure(FailureReason.ERROR, "no act", 1)


@pytest.fixture
def failed(tmp_path: Path) -> Path:
    """Write a record of which one of three held-out episodes failed, although the simulator reported a success."""
    events = [
        replace(one, episode=replace(one.episode, failure=FAILED))
        if isinstance(one, EpisodePlayed) and place == 20
        else one
        for place, one in enumerate(whole_run())
    ]
    with RunWriter(tmp_path / "failed", events[0]) as writer:  # type: ignore[arg-type]
        for event in events[1:]:
            writer.record(event)
        writer.write_document()
    return tmp_path / "failed"


def test_random_actions_do_not_succeed_for_a_policy(tmp_path: Path) -> None:
    """An episode that the anchor finishes is no success where the simulator says so; one that the policy plays is."""
    succeeding = replace(spec("Plain"), success=Success(SuccessRule.INFO, "level"), max_steps=2)
    with local_executor("process", succeeding, tmp_path) as ground:
        (fine,), (failed,) = ground.play(policy(), 0), ground.play(policy("raise ValueError('no act')"), 0)

    assert (fine.episode.success, failed.episode.success) == (True, False)


def test_a_failed_episode_counts_as_no_success(failed: Path, shell: Shell) -> None:
    """Tables, pages, exports and the document count two of three."""
    record = read_run(failed)
    rows = [row for row in load_runs(failed).episodes if row.split == "held_out"]
    (page,) = documents(failed)("runs")["runs"]

    assert [one.ok for one in findings(failed) if one.name == "run.json"] == [True]
    assert success_rate(record.state) == load_result(failed).success_rate == page["success_rate"] == 2 / 3
    assert [row.success for row in rows].count(True) == 2
    assert "67%" in shell.printed("show", failed)


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"is_success": True, "crashed": False}, True),
        ({"is_success": True, "crashed": True}, False),
        ({"is_success": False, "crashed": False}, False),
    ],
)
def test_a_crash_into_the_goal_is_no_success(info: dict[str, bool], expected: bool) -> None:  # noqa: FBT001 - a parameter
    """In parking the goal counts only where the car did not crash in the step that reached it."""
    environment = Environment(replace(catalog.load("cartpole"), success=catalog.load("parking").success))

    assert environment.success(-5.0, terminated=True, info=info) is expected
