"""How a run ends, seen through the judge's door: finished, spent, closed, stopped by a fault of ours."""

import errno
import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from asking import SUBMIT, ask, charges, refusal, submit
from evopolicygym.core.agent import AgentConfig, AgentRules, Allowance
from evopolicygym.core.errors import EnvironmentFault
from evopolicygym.core.event import AgentEnded, AgentStarted, CloseReason, Event
from evopolicygym.core.run import fold
from evopolicygym.core.task import BudgetRule
from evopolicygym.records import journal
from evopolicygym.records.task_text import info
from fakes import GROUNDS, PATIENCE_S, TIME, OpenRun, RunMaker, open_run, opening
from removal import remove


def test_finishing_where_it_is_not_allowed(new_run: RunMaker) -> None:
    """A run that must be played to its end says so, and goes on."""
    run = new_run()
    answer = ask(run, "POST", "/finish", {})

    assert refusal(answer) == (400, "invalid_request")
    assert "8" in answer.json()["error"]["message"]
    assert submit(run).status_code == 200


def test_finishing_where_it_is_allowed(new_run: RunMaker) -> None:
    """A run that allows it takes no more once the agent has finished, even after a crash."""
    run = new_run(finish_allowed=True)
    submit(run)
    finished = ask(run, "POST", "/finish", {})

    assert (finished.status_code, finished.json()) == (200, {"status": "closed"})
    assert refusal(submit(run)) == (409, "closed")
    assert refusal(ask(run, "POST", "/finish", {})) == (409, "closed")
    assert run.session.done
    assert fold(journal.read(run.paths.journal).events).finish_asked


def test_a_submission_beyond_the_most_is_refused(new_run: RunMaker) -> None:
    """A run of two submissions says so, charges no third, and closes with budget left."""
    run = new_run(budget=BudgetRule(8, max_submissions=2))
    left = [ask(run, "GET", "/info").json()["state"]["remaining_submissions"] for _ in range(2) if submit(run)]
    refused = submit(run)

    assert left == [1, 0]
    assert ask(run, "GET", "/info").json()["max_submissions"] == 2
    assert "2 submissions" in ask(run, "GET", "/task").text
    assert refusal(refused) == (409, "closed")
    assert "2 submissions" in refused.json()["error"]["message"]
    assert (len(charges(run)), run.session.state.remaining, run.session.done) == (2, 6, True)
    run.session.close()
    assert run.session.state.closed
    assert run.session.state.closed.reason is CloseReason.SUBMISSIONS_SPENT


def test_submissions_are_counted_over_resumptions(tmp_path: Path) -> None:
    """A run that is resumed after its last submission takes no more, and one before it takes that one."""
    counts = []
    with open_run(tmp_path, {"budget": BudgetRule(8, max_submissions=2)}) as run:
        submit(run)
    for _ in range(2):
        with open_run(tmp_path) as run:
            counts.append((submit(run).status_code, len(charges(run)), run.session.done))

    assert counts == [(200, 2, True), (409, 2, True)]


def test_a_submission_below_the_least_is_refused(new_run: RunMaker) -> None:
    """Fewer episodes than one submission must have, or more than it may, are refused with nothing charged."""
    run = new_run(budget=BudgetRule(8, 2, 3))

    assert [refusal(submit(run, {"env_instances": cases})) for cases in ("0", "0-3")] == [(400, "budget_invalid")] * 2
    assert submit(run, {"env_instances": "0-1"}).status_code == 200
    assert len(charges(run)) == 1


def test_finishing_while_something_plays(new_run: RunMaker) -> None:
    """What is charged is played first: the run is done only then."""
    run = new_run(finish_allowed=True)
    run.executor.gate.clear()
    submit(run, {**SUBMIT, "wait": False})
    ask(run, "POST", "/finish", {})
    before = run.session.done
    run.executor.gate.set()
    run.session.published(0).result(PATIENCE_S)

    assert (before, run.session.done) == (False, True)


def test_finishing_wakes_who_waits_for_the_end(new_run: RunMaker) -> None:
    """Whoever waits for the run to be done hears of it at once."""
    run = new_run(finish_allowed=True)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(run.session.wait_for_end, Future())
        ask(run, "POST", "/finish", {})

        assert waiting.result(PATIENCE_S) is None


def test_finishing_while_a_checkpoint_is_taken(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A submission whose checkpoint was still being taken when the agent finished is refused and not charged."""
    run = new_run(finish_allowed=True)

    def finish_meanwhile(_settings: object) -> str:
        ask(run, "POST", "/finish", {})
        return "a"

    monkeypatch.setattr(run.session, "_capture", finish_meanwhile)

    assert refusal(submit(run)) == (409, "closed")
    assert charges(run) == []


def test_a_wish_that_can_t_be_stored(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wish to finish that is not on disk is not acted on."""
    run = new_run(finish_allowed=True)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "pwrite", full)
        answer = ask(run, "POST", "/finish", {})

    assert refusal(answer) == (503, "unavailable")
    assert submit(run).status_code == 200


def test_closing_waits_for_what_plays(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever closes a run waits until all that was charged is played and in place."""
    run = new_run()
    run.executor.gate.clear()
    submit(run, {**SUBMIT, "wait": False})
    really = run.session._changed.wait_for
    monkeypatch.setattr(run.session._changed, "wait_for", lambda *asked: (run.executor.gate.set(), really(*asked))[1])
    run.session.close()

    assert run.session.state.closed
    assert (run.session.state.playing, run.session._in_place) == ((), {0})


def test_a_spent_run_is_closed(new_run: RunMaker) -> None:
    """When the budget is spent, no more submissions are taken; the rest is still told."""
    run = new_run()
    submit(run, {"env_instances": "0-7"})
    before = run.journal()

    assert refusal(submit(run)) == (409, "closed")
    assert before == run.journal()
    assert ask(run, "GET", "/submissions/0").status_code == 200
    assert ask(run, "GET", "/info").json()["state"]["remaining_budget"] == 0


def test_a_closed_run_says_so(new_run: RunMaker) -> None:
    """After the run closed, submitting is refused, and /info says that it is over."""
    run = new_run()
    submit(run)
    run.session.close()

    assert refusal(submit(run)) == (409, "closed")
    assert ask(run, "GET", "/info").json()["state"]["is_finalized"]


def forget_feedback(run: OpenRun) -> None:
    """Remove a submission's feedback, as an agent can where nothing isolates it."""
    remove(run.feedback(0))


def test_feedback_that_the_agent_removes_holds_nothing_up(new_run: RunMaker) -> None:
    """What was published counts as published, whatever becomes of it: the run is done, and closes."""
    run = new_run()
    submit(run, {"env_instances": "0-7"})
    forget_feedback(run)

    assert run.session.done
    assert run.session.published(0).done()
    run.session.close()
    assert ask(run, "GET", "/info").json()["state"]["is_finalized"]


def test_a_run_without_its_feedback_is_taken_up(tmp_path: Path) -> None:
    """Taken up again, a run whose agent removed its feedback goes on, and neither plays nor publishes it again."""
    with open_run(tmp_path, {}) as run:
        before = submit(run, {"env_instances": "0-7", "key": "mine"}).json()
        forget_feedback(run)
    with open_run(tmp_path) as run:
        assert run.session.done
        assert before == submit(run, {"env_instances": "0-7", "key": "mine"}).json()
        run.session.close()

        assert (run.executor.played, run.feedback(0).exists()) == ([], False)


def test_a_fault_of_ours_is_told_and_not_charged(new_run: RunMaker) -> None:
    """Where a simulator fails, who waits is told that nothing is lost, and nothing more is charged."""
    run = new_run()
    run.executor.fault = EnvironmentFault("the simulator raised")
    first, second = submit(run), submit(run)

    assert refusal(first) == (503, "unavailable")
    assert refusal(second) == (503, "unavailable")
    assert "simulator" not in first.text + second.text
    assert len(charges(run)) == 1
    with pytest.raises(EnvironmentFault):
        run.session.close()


def test_what_an_agent_may_use_is_told() -> None:
    """The user's limits and those of the agent itself, of turns the user's first, and what was used, pauses aside."""
    ended = [AgentEnded(TIME, 0, "finished", usage={"input": 20}, seconds=3.14159)]
    ended += [AgentEnded(TIME, 1, "limited", usage={"output": 3, "cost": 0.123456}, seconds=1.0)]
    events: list[Event] = [event for end in ended for event in (AgentStarted(TIME, end.turn), end)]
    agents = [AgentConfig("a", allowance=Allowance(5.0, 1000, 60.0, 3)), AgentConfig("a")]
    states = [fold([opening(agent=agent), *events]) for agent in agents]
    found = [info(state, GROUNDS, AgentRules(9, 7.0))["agent_limits"] for state in states]
    used = {"turns_used": 1, "time_used_s": 4.1, "cost_used_usd": 0.1235, "tokens_used": 23, "max_quiet_s": 7.0}

    assert found == [
        {"max_turns": 3, "max_time_s": 60.0, "time_left_s": 55.9, "max_cost_usd": 5.0, "max_tokens": 1000, **used},
        {"max_turns": 9, "max_time_s": None, "time_left_s": None, "max_cost_usd": None, "max_tokens": None, **used},
    ]
