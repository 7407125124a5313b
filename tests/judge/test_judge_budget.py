"""A budget under pressure: many who ask at once, clients that leave, disks that are full."""

import errno
import http.client
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from asking import SUBMIT, charged, charges, refusal, submit
from evopolicygym.core.cases import Split
from evopolicygym.core.rollout import Recording
from evopolicygym.core.task import PolicyContext
from evopolicygym.judge.rollouts import RolloutStopped
from evopolicygym.records import journal
from fakes import PATIENCE_S, RunMaker, open_run


def test_one_of_many_too_large_is_accepted(new_run: RunMaker) -> None:
    """Of twenty submissions at once, each of more than half the budget, exactly one is taken."""
    run = new_run()
    with ThreadPoolExecutor(20) as pool:
        codes = [each.status_code for each in pool.map(lambda _: submit(run, {"env_instances": "0-4"}), range(20))]

    assert sorted(codes) == [200] + [400] * 19
    assert run.session.state.spent == 5


def test_many_at_once_spend_the_budget_exactly(new_run: RunMaker) -> None:
    """Of twenty submissions of one episode, as many are taken as there is budget, one after another."""
    run = new_run()
    with ThreadPoolExecutor(20) as pool:
        codes = [each.status_code for each in pool.map(lambda _: submit(run), range(20))]

    assert (codes.count(200), codes.count(409)) == (8, 12)
    assert list(range(8)) == [one.submit_index for one in charges(run)]
    assert len(run.executor.played) == 8


@pytest.mark.parametrize("cases", [[0, 0, 0], [5, 0, 5]])
def test_a_case_that_is_asked_for_again_is_an_episode(new_run: RunMaker, cases: list[int]) -> None:
    """What a request costs are its episodes, not its different cases: with two left, three of one case are refused."""
    run = new_run()
    assert submit(run, {"env_instances": [0, 0, 1, 1, 2, 3]}).status_code == 200
    assert (submit(run, {"env_instances": cases}).status_code, run.session.state.spent) == (400, 6)
    assert (submit(run, {"env_instances": cases[::2]}).status_code, run.session.state.spent) == (200, 8)


def test_one_submission_plays_at_a_time(new_run: RunMaker) -> None:
    """A second submission waits its turn."""
    run = new_run()
    run.executor.gate.clear()
    for _ in range(2):
        submit(run, {"env_instances": "0-1", "wait": False})
    run.executor.gate.set()
    run.session.published(1).result(PATIENCE_S)

    assert [context.submit_index for _, _, context in run.executor.played] == [0, 0, 1, 1]


def test_a_client_that_leaves_has_its_submission_played(new_run: RunMaker) -> None:
    """Who closes the connection in the middle gets its feedback all the same, once."""
    run = new_run()
    run.executor.gate.clear()
    address = httpx2.URL(run.door.address.base_url)
    connection = http.client.HTTPConnection(address.host, address.port, timeout=PATIENCE_S)
    with charged(run):
        connection.request("POST", f"{address.path}/submit", json.dumps(SUBMIT), {"Content-Type": "application/json"})
    connection.close()
    run.executor.gate.set()
    run.session.published(0).result(PATIENCE_S)

    assert (len(charges(run)), len(run.executor.played)) == (1, 1)


def test_a_charge_that_can_t_be_stored(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the disk is full the request is answered 503, nothing starts, and later it works."""
    run = new_run()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "pwrite", full)
        before = refusal(submit(run))
    after = submit(run)

    assert before == (503, "unavailable")
    assert (after.status_code, run.session.state.spent, len(run.executor.loaded)) == (200, 1, 1)


def test_a_checkpoint_that_can_t_be_stored(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no room for the checkpoint, the answer is the same."""
    run = new_run()

    def full(_settings: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(run.session, "_capture", full)
        before = refusal(submit(run))

    assert before == (503, "unavailable")
    assert submit(run).status_code == 200


def test_a_run_that_is_put_down_tells_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that are stopped with the run are no simulators that failed: nothing follows the stop in the record."""
    with open_run(tmp_path, {}) as run:
        jobs = [run.rollouts.job_builder.job(Split.TRAIN, 0, 0, None, Recording.OUTPUT)]
        rollout = run.rollouts.rollout("a", PolicyContext("toy", 0, 2, 0, 3, {}, {}), jobs)
        before = len(journal.read(run.paths.journal).events)

        def play(*arguments: Any) -> Iterator[Any]:
            run.rollouts.stop.set()
            arguments[-1](rollout, jobs[0], "the simulator's process ended by itself")
            yield

        monkeypatch.setattr(run.executor, "play", play)
        with pytest.raises(RolloutStopped):
            run.rollouts.play(Split.TRAIN, [rollout])

        assert len(journal.read(run.paths.journal).events) == before
