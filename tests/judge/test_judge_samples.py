"""Independent samples at the judge's door: each conversation has a run of one submission to itself."""

from concurrent.futures import Future
from typing import Any

from asking import Json, ask, charges, refusal, submit
from evopolicygym.core.agent import AgentEnd, Turn
from evopolicygym.core.task import BudgetRule
from fakes import PATIENCE_S, OpenRun, RunMaker

SAMPLES = {"budget": BudgetRule(8, 1, 3), "choices": {"memory": "none"}}
TIMES = {"submit_started_at", "submit_completed_at", "wall_time_seconds"}
BODY: Json = {"env_instances": "4-6", "key": "mine", "parent": "starter"}


def sampled(run: OpenRun, turn: int, policy: str) -> list[object]:
    """Play a conversation that asks all there is to ask, before and after its submission; return the answers."""
    run.write_policy(policy)
    run.session.turn_started(turn)
    asked = [("GET", path, None) for path in ("/info", "/task", "/submissions", "/submissions/0", "/submissions/1")]
    asked += [("POST", "/check", {}), ("POST", "/submissions/0/restore", {}), ("GET", "/submissions/0/policy", None)]
    asked += [("POST", "/submit", body) for body in (BODY, BODY, {**BODY, "key": "another"})]
    answers = [ask(run, *request) for request in (*asked, *asked)]
    run.session.turn_ended(turn, Turn(AgentEnd.FINISHED))
    return [without_times(each.json() if "json" in each.headers["content-type"] else each.text) for each in answers]


def without_times(answer: Any) -> object:
    """Return an answer without what a clock says."""
    if isinstance(answer, dict):
        return {name: without_times(value) for name, value in answer.items() if name not in TIMES}
    return list(map(without_times, answer)) if isinstance(answer, list) else answer


def test_a_conversation_is_told_nothing_of_those_before(new_run: RunMaker) -> None:
    """All answers are those of a run of one submission, in each conversation, until no whole sample is left."""
    run = new_run(**SAMPLES)
    first, second = sampled(run, 0, "3"), sampled(run, 1, "3")

    assert first == second
    assert first[8] == first[9]
    assert [(one.submit_index, one.key, len(one.env_instances)) for one in charges(run)] == [
        (0, "0:mine", 3),
        (1, "1:mine", 3),
    ]
    assert not run.session.state.takes_submissions


def test_a_conversation_has_its_own_policy(new_run: RunMaker) -> None:
    """By number 0 each conversation reads and restores its own submission, and there is no other number."""
    run = new_run(**SAMPLES)
    for turn, policy in enumerate("34"):
        run.write_policy(policy)
        run.session.turn_started(turn)
        nothing = refusal(ask(run, "GET", "/submissions/0/policy"))
        told = submit(run, BODY).json()
        (listed,) = ask(run, "GET", "/submissions").json()["submissions"]

        assert nothing == refusal(ask(run, "GET", "/submissions/1")) == (404, "invalid_request")
        assert (told["submit_id"], listed["submit_id"], listed["mean_return"]) == (0, 0, float(policy))
        assert ask(run, "GET", "/submissions/0/policy").json()["submit_id"] == 0
        assert run.session.policy_of(turn) == {"policy.py": policy.encode()}
        assert refusal(submit(run, {**BODY, "key": ""})) == (409, "closed")
        run.session.turn_ended(turn, Turn(AgentEnd.FINISHED))


def test_a_conversation_ends_with_its_feedback(new_run: RunMaker) -> None:
    """Whoever waits for the end of a conversation waits until its only submission was played, and no longer."""
    run = new_run(**SAMPLES)
    run.session.turn_started(0)
    polls: list[float] = [0, 1e-3, 0, 1e-3]
    run.executor.gate.clear()
    submit(run, {**BODY, "wait": False})
    run.session.wait_for_end(Future(), polls.pop)
    left = len(polls)
    run.executor.gate.set()
    run.session.published(0).result(PATIENCE_S)
    run.session.wait_for_end(Future(), polls.pop)

    assert (left, len(polls)) == (2, 1)
