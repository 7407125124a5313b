"""What an executor promises: the same results however many play, faults that are named, nothing left behind."""

import os
import select
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from evopolicygym.core.causes import RULES, Cause, Outcome, Rule
from evopolicygym.core.errors import EnvironmentFault, EvoPolicyGymError, UsageError
from evopolicygym.core.rollout import ATTEMPTS, EpisodeJob, Rollout
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.judge.rollouts import STOPPED_MESSAGE, RolloutStopped
from evopolicygym.rollout import messages
from evopolicygym.rollout.executors import local
from fakes import PATIENCE_S
from playground import Playground, local_executor, policy
from simulators import EXITS, GIVES_NAN, GIVES_NONSENSE, HANGS, RAISES, RAISES_ONCE, STEPS, spec

NOISY = policy("return np.random.uniform(-2, 2, 2)")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    """An executor with two workers on the plain simulator."""
    with local_executor("bubblewrap", spec("Plain"), tmp_path_factory.mktemp("pair"), workers=2) as ground:
        yield ground


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    """An executor with one worker on the simulator that misbehaves."""
    root = tmp_path_factory.mktemp("faulty")
    with local_executor("process", spec("Faulty", marker=str(root / "marker")), root) as ground:
        yield ground


def test_results_do_not_depend_on_who_plays(pair: Playground, tmp_path: Path) -> None:
    """One worker and two, at another level and in another order, give the same trajectories bit for bit."""
    by_two = [one.episode.trajectory_sha256 for one in pair.play(NOISY, 0, 1, 2, 3)]
    with local_executor("process", spec("Plain"), tmp_path) as alone:
        by_one = [one.episode.trajectory_sha256 for one in alone.play(NOISY, 3, 2, 1, 0)]

    assert by_two == by_one[::-1]
    assert len(set(by_two)) == 4


def test_files_hold_what_was_played(pair: Playground) -> None:
    """Two workers leave the same files as each other for the same case."""
    first, second = pair.play(NOISY, 5, 5)

    assert first.read("trajectory.jsonl") == second.read("trajectory.jsonl")


def test_grounds_tell_what_was_found(pair: Playground) -> None:
    """An executor says at which level policies play, what they may import, and how many play at once."""
    info = pair.executor.info

    assert (info.isolation, info.workers) == ("bubblewrap", 2)
    assert [name.split("==")[0] for name in info.allowed_imports] == ["numpy", "scipy"]
    found = {
        "namespaces",
        "process numbers",
        "seccomp",
        "signals",
        "landlock",
        "addresses",
        "threads",
        "chosen",
        "case seeds",
    }
    found |= {"user", "files", "checkpoint"}
    assert found | {"arithmetic", "processor"} == set(info.findings)


def test_no_worker_waits_for_the_last_episode_of_a_rollout(pair: Playground) -> None:
    """While one worker plays a slow case, the other plays the next policy's cases, which have the same positions."""
    second_is_slow = policy("time.sleep(self.wait_s); return self.still", reset="self.wait_s = 150 * episode_index")
    slow, quick = (pair.rollout(pair.checkpoint(text), 0, 1) for text in (second_is_slow, policy()))
    playing = pair.executor.play([slow, quick], print)
    ended = {(rollout is quick, job.position) for rollout, job, _ in islice(playing, 3)}
    playing.close()  # type: ignore[attr-defined] # an iterator by contract, a generator in fact

    assert ended == {(False, 0), (True, 0), (True, 1)}


def test_a_rollout_may_be_left(pair: Playground) -> None:
    """A rollout that nobody wants any more is stopped in the middle, and the next one plays as ever."""
    second_is_slow = policy("time.sleep(self.wait_s); return self.still", reset="self.wait_s = 150 * episode_index")
    checkpoint = pair.checkpoint(second_is_slow)
    playing = pair.executor.play([pair.rollout(checkpoint, 0, 1)], print)
    _, first, _ = next(playing)
    playing.close()  # type: ignore[attr-defined] # an iterator by contract, a generator in fact
    episode = pair.play_one(policy()).episode

    assert (first.position, episode.length, episode.failure) == (0, STEPS, None)


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """When an executor is closed, all processes that it started are gone, and its directory too."""
    with local_executor("bubblewrap", spec("Plain"), tmp_path, workers=2) as ground:
        ground.play(
            policy("import threading; threading.Thread(target=time.sleep, args=(600,)).start(); return [0, 0]"), 0
        )
        workers = [seat.process.pid for seat in ground.executor._slots]  # type: ignore[attr-defined] # looks inside
        handles = [os.pidfd_open(number) for worker in workers for number in (worker, *_descendants(worker))]
    gone = [bool(select.select([handle], [], [], PATIENCE_S)[0]) for handle in handles]

    assert (all(gone), (tmp_path / "scratch").exists()) == (True, False)
    assert len(gone) >= 4


def test_programs_side_by_side_crowd_no_core(tmp_path: Path) -> None:
    """Two executors of one worker each are pinned to cores of their own, or to none."""
    with (
        local_executor("process", spec("Plain"), tmp_path / "one", workers=1) as one,
        local_executor("process", spec("Plain"), tmp_path / "other", workers=1) as other,
    ):
        one.play(policy(), 0)
        other.play(policy(), 0)
        first, second = (
            os.sched_getaffinity(ground.executor._slots[0].process.pid)  # type: ignore[attr-defined] # looks inside
            for ground in (one, other)
        )

    assert first != second or len(first) > 1 or os.cpu_count() == 1


def test_a_simulator_that_fails_once_is_repeated(faulty: Playground) -> None:
    """A case whose simulator fails on a valid action is played again, for the policy that it was played for."""
    repeated = []
    rollouts = [faulty.rollout(faulty.checkpoint(policy()), seed) for seed in (0, RAISES_ONCE)]
    ended = list(faulty.executor.play(rollouts, lambda rollout, _job, why: repeated.append((rollout, why))))

    assert [(rollout, episode.length) for rollout, _, episode in ended] == [(each, STEPS) for each in rollouts]
    assert repeated == [(rollouts[1], "RuntimeError: the simulator broke once")]


@pytest.mark.parametrize(
    ("seed", "why"),
    [
        (RAISES, "RuntimeError: the simulator broke"),
        (EXITS, "exit code 3"),
        (GIVES_NAN, "Faulty-v0"),
        (GIVES_NONSENSE, "(7,)"),
    ],
)
def test_a_simulator_that_keeps_failing_is_an_error(faulty: Playground, seed: int, why: str) -> None:
    """After three attempts it is the environment's fault; the policy's record stays clean, and others play on."""
    faulty.repeated.clear()
    with pytest.raises(EnvironmentFault, match=f"Case 0 of faulty .*{ATTEMPTS} times") as caught:
        faulty.play(policy(), seed)

    assert [why in one for one in (*faulty.repeated, str(caught.value))] == [True] * ATTEMPTS
    assert faulty.play_one(policy()).episode.length == STEPS


def test_a_simulator_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulator that makes no progress is killed with its worker, and the case counts as failed."""
    monkeypatch.setattr(messages, "RULES", {**RULES, Cause.ENVIRONMENT: Rule(Outcome.RUN_STOPS)})
    with (
        local_executor("process", spec("Faulty"), tmp_path) as ground,
        pytest.raises(EnvironmentFault, match="exit code -14"),
    ):
        ground.play(policy(), HANGS)


def test_a_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    """A worker that dies while idle costs one attempt, no more."""
    with local_executor("process", spec("Plain"), tmp_path) as ground:
        ground.play(policy(), 0)
        worker = ground.executor._slots[0].process  # type: ignore[attr-defined] # looks inside
        worker.kill()
        worker.wait()
        loaded = ground.load(policy())
        worker = ground.executor._slots[0].process  # type: ignore[attr-defined] # as above
        worker.kill()
        worker.wait()
        played = ground.play_one(policy())

    assert (loaded, played.episode.length, len(ground.repeated)) == (None, STEPS, 1)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (replace(spec("Plain"), id="Nowhere-v0"), UsageError),
        (replace(spec("Plain"), imports=("no_such_simulator",)), UsageError),
        (spec("Faulty", no_such_argument=1), EnvironmentFault),
    ],
)
def test_what_can_not_be_opened(tmp_path: Path, wrong: EnvironmentSpec, error: type[EvoPolicyGymError]) -> None:
    """An environment that can't be made is told when the executor is first asked, and whose fault it is."""
    with local_executor("process", wrong, tmp_path) as ground, pytest.raises(error):
        _ = ground.executor.info


def _descendants(number: int) -> Iterator[int]:
    for thread in Path(f"/proc/{number}/task").iterdir():
        for child in (thread / "children").read_text().split():
            yield int(child)
            yield from _descendants(int(child))


def test_a_closed_executor_starts_nobody(tmp_path: Path) -> None:
    """Closed while an episode plays, it has no worker any more, and who waited for the episode is told."""
    acting = tmp_path / "acting"
    os.mkfifo(acting)
    sleepy = policy(f"open({str(acting)!r}, 'w').close(); time.sleep(600)")
    with local_executor("none", spec("Plain"), tmp_path) as ground:
        executor = ground.executor
        assert isinstance(executor, local.LocalExecutor)

        def close() -> None:
            acting.read_bytes()  # there is nothing, and it comes when the policy acts
            executor.close()

        closing = threading.Thread(target=close)
        closing.start()

        def repeated(_rollout: Rollout, _job: EpisodeJob, _why: str) -> None:
            raise RolloutStopped(STOPPED_MESSAGE)

        with pytest.raises(RolloutStopped):
            list(executor.play([ground.rollout(ground.checkpoint(sleepy), 0)], repeated))
        closing.join()

        assert [seat.process.poll() is None for seat in executor._slots] == [False]
