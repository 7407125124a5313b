"""Checking a policy: free, bounded, behind all that was charged, and silent about cases."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from asking import ask, charged, charges, refusal, submit
from evopolicygym.core.errors import RequestRefused
from evopolicygym.judge.rollouts import MOST_TRIALS
from fakes import OpenRun, RunMaker


def test_a_check_is_free(new_run: RunMaker) -> None:
    """It answers with a status, charges nothing, plays nothing and leaves no checkpoint."""
    run = new_run()
    answer = ask(run, "POST", "/check", {}).json()

    seconds = {"load_s": None, "act_s": None}  # as this executor starts nothing
    printed = {"stdout": "", "stderr": ""}
    assert answer == {"status": "ok", "error": None, **printed, **seconds, "checks_left": MOST_TRIALS - 1}
    assert (charges(run), run.executor.played, list(run.paths.checkpoints.iterdir())) == ([], [], [])


def test_a_check_says_why_not(new_run: RunMaker) -> None:
    """Of a policy that can't be loaded it says what its submission would say."""
    run = new_run()
    run.write_policy("import_error")
    answer = ask(run, "POST", "/check", {}).json()

    assert (answer["status"], answer["error"]["message"]) == ("import_error", "it can't")


def test_a_check_with_a_value_set(new_run: RunMaker) -> None:
    """It tries what a submission with these values would play."""
    run = new_run()
    (run.paths.system / "parameters.json").write_text(json.dumps({"speed": 4.6}))
    for setting in ({}, {"speed": 5}):
        ask(run, "POST", "/check", {"set": setting})

    assert len(set(run.executor.checked)) == 2


@pytest.mark.parametrize("body", [{"case": 3}, {"env_instances": "0"}, [], {"set": {"speed": 1}}])
def test_a_check_takes_no_case(new_run: RunMaker, body: object) -> None:
    """Nothing can be asked of it but values of parameters that are declared."""
    assert refusal(ask(new_run(), "POST", "/check", body)) == (400, "invalid_request")


def test_checks_end(new_run: RunMaker) -> None:
    """After the last, the answer says so, and submissions go on."""
    run = new_run()
    run.session.trials.count = MOST_TRIALS

    assert refusal(ask(run, "POST", "/check", {})) == (400, "invalid_request")
    assert submit(run).status_code == 200


def test_ten_thousand_checks_hold_up_no_submission(new_run: RunMaker) -> None:
    """While one plays none is tried, what is charged goes before all that wait, and most are refused at once."""
    run = new_run()
    run.executor.gate.clear()
    with ThreadPoolExecutor(9) as clients:
        with charged(run):
            first = clients.submit(submit, run, {"env_instances": "0-2"})
        with charged(run):
            second = clients.submit(submit, run, {"env_instances": "3-4"})
            checks = [clients.submit(ask, run, "POST", "/check", {}) for _ in range(7)]
        tried_while_playing = len(run.executor.checked)
        run.executor.gate.set()
        assert {first.result().status_code, second.result().status_code} == {200}
        assert {check.result().status_code for check in checks} == {200}
        played = [context.submit_index for _, _, context in run.executor.played]
    taken = sum(is_taken(run) for _ in range(10_000))

    assert (tried_while_playing, played) == (0, [0, 0, 0, 1, 1])
    assert taken == MOST_TRIALS - len(checks)


def is_taken(run: OpenRun) -> bool:
    try:
        run.session.try_policy({})
    except RequestRefused:
        return False
    return True
