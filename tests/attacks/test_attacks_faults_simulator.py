"""A simulator's process that dies on a valid action: no policy's fault, played again, never charged, never hidden."""

import json
from pathlib import Path

import pytest

from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.errors import EnvironmentFault, EvoPolicyGymError, SandboxError
from evopolicygym.core.event import EpisodeRepeated, RunStopped, StopReason, SubmissionCharged
from evopolicygym.core.rollout import ATTEMPTS
from evopolicygym.core.run import RunState, Stage
from evopolicygym.core.task import BudgetRule, Task
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import find_runs, read_run
from evopolicygym.runs.config import RunConfig
from evopolicygym.runs.run import resume
from places import SUPPORT
from playground import local_executor, policy
from sameness import assert_the_same, feedback
from simulators import HANGS, IS_KILLED, IS_KILLED_ONCE, SEGFAULTS, STEPS, spec
from whole_runs import events, played

FINE = 1
"""A seed on which the simulator does as it should."""
MATE = 2
"""As above: the case that is played before the one that fails."""


@pytest.fixture
def simulators_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have workers find the simulators of the tests."""
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))


def config_on(place: Path, train: int, held_out: int = 5) -> RunConfig:
    """Return a run of two train cases on the simulator that misbehaves, the second with this seed."""
    cases = place / "cases"
    cases.mkdir(parents=True, exist_ok=True)
    for name, seeds in (("train", [MATE, train]), ("valid", [4]), ("heldout", [held_out])):
        (cases / f"{name}.json").write_text(json.dumps({"cases": [{"seed": seed} for seed in seeds]}))
    task = Task(
        spec("Faulty", marker=str(place / "marker")),
        BudgetRule(2),
        train_cases=2,
        validation_cases=1,
        held_out_cases=1,
    )
    agent = AgentConfig(
        "scripted", options={"steps": [{"write": "policy.py", "content": policy()}, {"submit": [0, 1], "key": "one"}]}
    )
    return RunConfig(task, agent, SplitSource.DIRECTORY, cases, runs=place / "runs", workers=1, isolation="process")


def take_up(root: Path) -> RunState:
    return resume(root, 1, lambda _paths, _state: None, lambda _event, _state: None)


@pytest.mark.parametrize(
    ("seed", "code", "error", "attempts"),
    [(SEGFAULTS, -11, EnvironmentFault, ATTEMPTS), (IS_KILLED, -9, SandboxError, 2)],
)
def test_a_simulator_whose_process_is_killed(
    tmp_path: Path, seed: int, code: int, error: type[EvoPolicyGymError], attempts: int
) -> None:
    """A segmentation fault is met by a new process twice, the kernel's killer once; then the rollout stops."""
    with local_executor("process", spec("Faulty", marker=str(tmp_path / "marker")), tmp_path) as ground:
        with pytest.raises(error, match=rf"Case 0 of faulty .*{attempts} times.*exit code {code}"):
            ground.play(policy(), seed)
        after = ground.play_one(policy(), FINE)

    assert [f"exit code {code}" in why for why in ground.repeated] == [True] * (attempts - 1)
    assert (after.episode.length, after.episode.failure) == (STEPS, None)


@pytest.mark.usefixtures("simulators_found")
def test_what_is_played_again_is_not_charged(tmp_path: Path) -> None:
    """A case whose simulator was killed counts once, and only its last attempt is published."""
    fine, killed = (tmp_path / name for name in ("fine", "killed"))
    undisturbed = played(config_on(fine, FINE))
    told = played(config_on(killed, IS_KILLED_ONCE))
    repeated = [one.position for one in events(told.paths) if isinstance(one, EpisodeRepeated)]
    episodes = sorted(path.name for path in (told.paths.published_feedback(0) / "episodes").iterdir())

    assert (repeated, told.state.spent, episodes) == ([1], 2, ["ep_000", "ep_001"])
    assert [one.length for one in told.state.submissions[0].episodes if one] == [STEPS, STEPS]
    assert told.state.stage is Stage.FINISHED
    assert feedback(undisturbed.paths).keys() == feedback(told.paths).keys()


@pytest.mark.usefixtures("simulators_found")
@pytest.mark.parametrize(
    ("train", "held_out"), [(SEGFAULTS, 5), pytest.param(FINE, SEGFAULTS, marks=pytest.mark.nightly)]
)
def test_a_run_whose_simulator_keeps_dying(tmp_path: Path, train: int, held_out: int) -> None:
    """The run stops with what to do and says why; when the simulator is mended it ends as if nothing had happened."""
    asked = config_on(tmp_path, train, held_out)
    with pytest.raises(
        EnvironmentFault, match=rf"(?s)Case 1 of faulty .*{ATTEMPTS} times.*evopolicygym resume "
    ) as caught:
        played(asked)
    (root,) = find_runs(tmp_path / "runs")
    stopped = read_run(root).state
    seen = [one for one in events(RunPaths(root)) if isinstance(one, SubmissionCharged | EpisodeRepeated | RunStopped)]
    (tmp_path / "marker").touch()
    state = take_up(root)
    undisturbed = played(asked)

    assert (caught.value.exit_code, stopped.spent, stopped.finished) == (4, 2, None)
    assert [type(one) for one in seen] == [SubmissionCharged, EpisodeRepeated, EpisodeRepeated, RunStopped]
    assert isinstance(seen[-1], RunStopped)
    assert seen[-1].reason is StopReason.ENVIRONMENT
    assert (state.spent, state.stage) == (2, Stage.FINISHED)
    assert_the_same(root, undisturbed.paths.root, marked_beside=False)


@pytest.mark.usefixtures("simulators_found")
@pytest.mark.nightly
def test_a_run_whose_simulator_hangs(tmp_path: Path) -> None:
    """A simulator that answers no more is killed and the case played again, as if it had died."""
    with pytest.raises(EnvironmentFault, match="exit code -14"):
        played(config_on(tmp_path, HANGS))
    (root,) = find_runs(tmp_path / "runs")

    assert read_run(root).state.spent == 2
    assert len([one for one in events(RunPaths(root)) if isinstance(one, EpisodeRepeated)]) == ATTEMPTS - 1
