"""A policy's process that is killed from outside: nobody's failure, played again once, and then the run stops."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import evopolicygym
from evopolicygym.core.causes import FROM_OUTSIDE
from evopolicygym.core.errors import SandboxError
from evopolicygym.core.event import EpisodePlayed, EpisodeRepeated
from evopolicygym.core.rollout import Failure, FailureReason
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import find_runs
from evopolicygym.sandbox.seccomp import OWN_SIGNALS
from playground import Playground, one_worker, policy
from simulators import spec
from whole_runs import events

KILL, GO_ON = signal.SIGKILL, signal.SIGUSR1
WAITING = policy(
    """
    if not heard:
        signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
    while not heard:
        time.sleep(0.01)
    return self.still
    """,
    top="import signal\nheard = []",
)
"""Waits at its first step for a signal, which a test can tell from outside."""
HANDLED = 1 << (GO_ON - 1)
RUN: dict[str, Any] = {"budget": 1, "validation": 1, "held_out": 1, "split": "public", "workers": 1}


@contextmanager
def signalled(*numbers: int) -> Iterator[None]:
    """Send the signals to the policies of this process that wait, one each, and then let all go on."""
    done, plan, seen = Event(), list(numbers), set[tuple[int, bytes]]()

    def send() -> None:
        while not done.wait(0.01):
            for process in set(waiting(os.getpid())) - seen:
                seen.add(process)
                with suppress(ProcessLookupError):
                    os.kill(process[0], plan.pop(0) if plan else GO_ON)

    thread = Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def waiting(parent: int) -> Iterator[tuple[int, bytes]]:
    """Yield the descendants of a process that handle the signal, each with the time of its start."""
    for task in Path(f"/proc/{parent}/task").iterdir():
        with suppress(OSError):
            for child in map(int, (task / "children").read_text().split()):
                fields = dict(line.split(":\t", 1) for line in Path(f"/proc/{child}/status").read_text().splitlines())
                if int(fields["SigCgt"], 16) & HANDLED:
                    yield child, Path(f"/proc/{child}/stat").read_bytes().split()[21]
                yield from waiting(child)


def submit(session: evopolicygym.Session) -> None:
    """Spend the budget."""
    session.submit(WAITING, episodes=1)


def repeated(root: Path) -> Sequence[str]:
    """Return why episodes of a run were played again."""
    return [event.message for event in events(RunPaths(root)) if isinstance(event, EpisodeRepeated)]


def failures(root: Path) -> list[Failure | None]:
    """Return how the policy failed in each episode that counts."""
    return [event.episode.failure for event in events(RunPaths(root)) if isinstance(event, EpisodePlayed)]


@pytest.mark.parametrize("isolation", ["bubblewrap", pytest.param("process", marks=pytest.mark.nightly)])
def test_a_killed_policy_has_not_failed(tmp_path: Path, isolation: str) -> None:
    """Killed once, it plays again, uncharged; killed twice, the run stops with exit code 4, and is resumed."""
    with signalled(KILL, GO_ON, signal.SIGTERM, GO_ON, KILL, KILL), pytest.raises(SandboxError, match="SIG") as caught:
        evopolicygym.run("cartpole", submit, runs=tmp_path, isolation=isolation, **RUN)
    (root,) = find_runs(tmp_path)
    stopped = failures(root)
    with signalled():
        run = evopolicygym.resume(root, agent=submit)

    assert (caught.value.exit_code, stopped, failures(root)) == (4, [None] * 2, [None] * 3)
    assert [name in why for name, why in zip(("KILL", "TERM", "KILL"), repeated(root), strict=True)] == [True] * 3
    assert (run.score is None, evopolicygym.verify(root).failed) == (False, ())


@pytest.fixture(scope="module", params=["bubblewrap", pytest.param("process", marks=pytest.mark.nightly)])
def yard(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    """A worker on the plain simulator."""
    with one_worker(request.param, spec("Plain"), tmp_path_factory.mktemp("yard")) as ground:
        yield ground


@pytest.mark.parametrize("number", sorted(FROM_OUTSIDE))
def test_a_policy_cant_end_itself_as_if_from_outside(yard: Playground, number: int) -> None:
    """Each such signal to itself is refused, by every call, which is an error of the policy."""
    sent = f"signal.signal({number}, signal.SIG_DFL)" if number != signal.SIGKILL else "0"
    raised, direct, queued = (
        yard.play_one(policy(f"import ctypes, signal\n{sent}\n{how}")).episode.failure
        for how in (
            f"signal.raise_signal({number})",
            f"os.kill(os.getpid(), {number})",
            f"if ctypes.CDLL(None).sigqueue(os.getpid(), {number}, None): raise PermissionError",
        )
    )

    assert [failure and failure.reason for failure in (raised, direct, queued)] == [FailureReason.ERROR] * 3
    assert yard.repeated == []


@pytest.mark.parametrize("how", ["os.abort()", "signal.raise_signal(signal.SIGSEGV)", "os._exit(137)", "os.close(4)"])
def test_faults_are_the_policys(yard: Playground, how: str) -> None:
    """A policy that ends by a fault, with an exit code, or closes its channel, has died."""
    failure = yard.play_one(policy(f"import signal\n{how}\ntime.sleep(60)")).episode.failure

    assert (failure and failure.reason) == FailureReason.DIED
    assert yard.repeated == []


def test_without_the_filter_it_stops_its_run(tmp_path: Path) -> None:
    """Where system calls aren't filtered, a policy that kills itself has no failed episode, and so no score."""
    kills = policy("os.kill(os.getpid(), 9)")
    with one_worker("process", spec("Plain"), tmp_path, change="without_filter") as ground:
        with pytest.raises(SandboxError, match="SIGKILL"):
            ground.play(kills, 0)
        with pytest.raises(SandboxError, match="SIGKILL"):
            ground.load(policy(init="os.kill(os.getpid(), 9)"))

    assert len(ground.repeated) == 1


def test_all_other_signals_may_be_sent() -> None:
    """The filter allows a policy every signal to itself but those from outside."""
    allowed = {value.value | rest for value in OWN_SIGNALS for rest in range(65) if not rest & value.mask}

    assert allowed == set(range(65)) - FROM_OUTSIDE
