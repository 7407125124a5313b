"""What a busy machine does to a policy: nothing that is charged to it."""

from pathlib import Path

import pytest

from busy import busy
from evopolicygym.core.errors import SandboxError
from evopolicygym.core.event import EpisodePlayed
from evopolicygym.core.rollout import Failure
from evopolicygym.core.task import Limits
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import find_runs, read_run
from playground import Playground, one_worker, policy
from sameness import told
from simulators import spec
from suites import Program
from whole_runs import events, state_kept_in

pytestmark = pytest.mark.nightly

TIGHT = Limits(load_s=20.0, reset_s=0.5, act_s=0.5, episode_s=20.0)
HEAVY = policy(
    "began = time.process_time()\nwhile time.process_time() - began < 0.3: pass\nreturn obs / np.linalg.norm(obs)"
)
"""Uses more than half of the processor time that ``TIGHT`` gives an act."""
SUITE = (
    *("--environment", "acrobot", "--environment", "reacher", "--agent", "tuner", "--repeats", "2", "--budget", "16"),
    *("--validation", "4", "--held-out", "8", "--split", "public", "--jobs", "2"),
)
"""Four runs of 16 episodes."""


def hashes(ground: Playground) -> list[tuple[Failure | None, str]]:
    """Return what came of two episodes of a policy that computes a lot, but no more than it may."""
    return [(one.episode.failure, one.episode.trajectory_sha256) for one in ground.play(HEAVY, 3, 4)]


@pytest.mark.parametrize("level", ["bubblewrap", "process"])
def test_a_policy_is_not_charged_for_what_others_compute(level: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A policy that computes a lot has no failed episode more beside six busy programs, and plays the same."""
    with one_worker(level, spec("Plain"), tmp_path_factory.mktemp("yard"), TIGHT) as ground:
        alone = hashes(ground)
        with busy(6):
            crowded = hashes(ground)

    assert alone == crowded
    assert [failure for failure, _ in crowded] == [None, None]


def test_sleeping_is_ended_on_a_busy_machine_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Who sleeps waits for no processor, whatever else is running, and who spins uses its own time up."""
    with one_worker("bubblewrap", spec("Plain"), tmp_path_factory.mktemp("yard"), TIGHT) as ground, busy(6):
        failures = [ground.play_one(policy(act)).episode.failure for act in ("time.sleep(60)", "while True: pass")]

    assert ["asleep" in str(failure) for failure in failures] == [True, False]
    assert ["processor time" in str(failure) for failure in failures] == [False, True]


def test_a_starved_policy_has_not_failed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where the machine gives a policy no processor, that is the machine's fault: the case is an error of ours."""
    yard = tmp_path_factory.mktemp("yard")
    with (
        one_worker("bubblewrap", spec("Plain"), yard, TIGHT, change="starved") as ground,
        pytest.raises(SandboxError, match="processor time"),
    ):
        ground.play_one(policy("time.sleep(60)"))


@pytest.mark.nightly
def test_a_suite_comes_out_the_same(tmp_path: Path) -> None:
    """A suite of 64 episodes beside six busy programs has no failed episode more, and every trajectory's hash."""
    alone = played_in(tmp_path / "alone")
    with busy(6):
        crowded = played_in(tmp_path / "crowded")

    assert crowded == alone
    assert len(alone) == 4
    assert [failures for _, failures in alone.values()] == [[]] * 4


def played_in(place: Path) -> dict[tuple[str, int], tuple[dict[str, object], list[Failure]]]:
    """Play the suite; return by run what came of it, each episode's hash in it, and which failures there were."""
    program = Program(place / "runs", SUITE)
    with state_kept_in(place / "state"):
        code, _, complaints = program.played()
    assert code == 0, complaints
    found = {}
    for run in find_runs(program.directory):
        played = [one.episode for one in events(RunPaths(run)) if isinstance(one, EpisodePlayed)]
        failures = [one.failure for one in played if one.failure]
        state = read_run(run).state
        found[state.opened.task.environment.name, state.opened.seed] = (told(state), failures)
    return found
