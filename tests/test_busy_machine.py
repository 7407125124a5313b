"""What a busy machine does to a policy: nothing that is charged to it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from evopolicygym.core.episode import Failure
from evopolicygym.core.errors import SandboxError
from evopolicygym.core.task import Limits
from evopolicygym.rollout import attendant
from playground import Playground, one_worker, policy
from simulators import spec

TIGHT = Limits(load_s=20.0, reset_s=0.5, act_s=0.5, episode_s=20.0)
HEAVY = policy(
    "began = time.process_time()\nwhile time.process_time() - began < 0.3: pass\nreturn obs / np.linalg.norm(obs)"
)
"""Uses more than half of the processor time that ``TIGHT`` gives an act."""


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep every processor busy with programs that do nothing else."""
    with ExitStack() as stack:
        for _ in range(count):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


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


def test_a_starved_policy_has_not_failed(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the machine gives a policy no processor, that is the machine's fault: the case is an error of ours."""
    monkeypatch.setattr(attendant, "STARVED", 0)
    with (
        one_worker("bubblewrap", spec("Plain"), tmp_path_factory.mktemp("yard"), TIGHT) as ground,
        pytest.raises(SandboxError, match=r"too busy to play on: .* of processor time within"),
    ):
        ground.play_one(policy("time.sleep(60)"))
