"""What an agent may say with a submission: values of parameters, what it was made from, what it expects."""

import base64
import json

import pytest

from asking import Json, ask, charges, refusal, submit
from evopolicygym.core.event import PolicyRestored
from evopolicygym.core.submission import STARTER
from evopolicygym.judge.request import MAX_KEY, MOST_HYPOTHESIS, MOST_SETTING, MOST_SETTINGS
from evopolicygym.judge.rollouts import MOST_RESTORED
from evopolicygym.records import journal
from fakes import OpenRun, RunMaker


def declare(run: OpenRun, **parameters: float | str) -> None:
    (run.paths.system / "parameters.json").write_text(json.dumps(parameters))


def asked(**fields: object) -> Json:
    return {"env_instances": "0", **fields}


def test_a_value_that_is_set(new_run: RunMaker) -> None:
    """It is recorded with the charge, and the checkpoint that plays and may be selected holds it."""
    run = new_run()
    declare(run, speed=4.6)
    submit(run, asked(set={"speed": 5.5}))
    charged = charges(run)[0]
    held = json.loads((run.paths.checkpoint(charged.checkpoint) / "parameters.json").read_text())

    assert (charged.settings, held) == ({"speed": 5.5}, {"speed": 5.5})
    assert run.executor.loaded == [charged.checkpoint]


@pytest.mark.parametrize(
    "wrong",
    [
        {"set": {"sped": 5}},
        {"set": {"speed": [5]}},
        {"set": ["speed"]},
        {"set": {"speed": "x" * 201}},
        {"set": {str(name): 1 for name in range(65)}},
        {"parent": 0},
        {"parent": -1},
        {"parent": "begin"},
        {"parent": True},
        {"hypothesis": 3},
        {"hypothesis": "x" * 1001},
    ],
)
def test_what_can_t_be_said_is_refused(new_run: RunMaker, wrong: Json) -> None:
    """A refusal is the client's fault, names the field, and charges nothing."""
    run = new_run()
    declare(run, speed=4.6)
    answer = submit(run, asked(**wrong))

    assert refusal(answer) == (400, "invalid_request")
    assert next(iter(wrong)) in answer.json()["error"]["message"]
    assert charges(run) == []


def test_a_declared_parent_and_a_hypothesis(new_run: RunMaker) -> None:
    """Both are recorded with the charge; the starter has a word of its own."""
    run = new_run()
    submit(run, asked(parent="starter", hypothesis="random play\nscores little"))
    submit(run, asked(parent=0))
    submit(run)

    assert [one.parent for one in charges(run)] == [STARTER, 0, None]
    assert [one.hypothesis for one in charges(run)] == ["random play\nscores little", "", ""]


def test_a_restored_policy_is_the_parent(new_run: RunMaker) -> None:
    """Restoring answers with the files, and the next submission, and only that, says that it was made from it."""
    run = new_run()
    for text in ("1", "2"):
        run.write_policy(text)
        submit(run)
    answer = ask(run, "POST", "/submissions/0/restore", {}).json()
    submit(run)
    submit(run)

    assert {path: base64.b64decode(text) for path, text in answer["files"].items()} == {"policy.py": b"1"}
    assert [one.parent for one in charges(run)] == [None, None, 0, None]


def test_a_parent_that_is_named_goes_before_what_was_restored(new_run: RunMaker) -> None:
    """Who restores one submission and names another is believed."""
    run = new_run()
    submit(run)
    submit(run)
    ask(run, "POST", "/submissions/0/restore", {})
    submit(run, asked(parent=1))

    assert charges(run)[-1].parent == 1


def test_restoring_costs_no_episode_and_little_of_the_journal(new_run: RunMaker) -> None:
    """It charges nothing, the same twice is one line, and there is an end to it."""
    run = new_run()
    submit(run)
    submit(run)
    before = run.session.state.spent
    for _ in range(3):
        ask(run, "POST", "/submissions/1/restore", {})
    lines = [one for one in journal.read(run.paths.journal).events if isinstance(one, PolicyRestored)]
    run.session.trials.restored = MOST_RESTORED

    assert (run.session.state.spent, len(lines)) == (before, 1)
    assert refusal(ask(run, "POST", "/submissions/0/restore", {})) == (400, "invalid_request")


def test_nothing_is_restored_that_was_never_submitted(new_run: RunMaker) -> None:
    """There is no such call for a submission that isn't there, none that says more, and none after the end."""
    run = new_run(finish_allowed=True)
    submit(run)
    nowhere = refusal(ask(run, "POST", "/submissions/1/restore", {}))
    for call in ("/submissions/0/restore", "/finish"):
        assert refusal(ask(run, "POST", call, {"submission": 1})) == (400, "invalid_request")
    ask(run, "POST", "/finish", {})

    assert nowhere == (404, "invalid_request")
    assert refusal(ask(run, "POST", "/submissions/0/restore", {})) == (409, "closed")


def test_the_most_that_can_be_said(new_run: RunMaker) -> None:
    """Texts as long, and as many values, as the limits allow are taken and recorded; with one more, nothing is."""
    run = new_run()
    values = {f"{number:0>{MOST_SETTING}}": "x" * MOST_SETTING for number in range(MOST_SETTINGS)}
    declare(run, **dict.fromkeys(values, ""))
    most: Json = {"key": "k" * MAX_KEY, "hypothesis": "h" * MOST_HYPOTHESIS, "set": values}
    name, *others = values
    more = [{**most, field: most[field] + "x"} for field in ("key", "hypothesis")]
    more += [{**most, "set": {**values, name: "x" * (MOST_SETTING + 1)}}, {**most, "set": {**values, "another": 1}}]
    more += [{**most, "set": {name + "0": "", **dict.fromkeys(others, "")}}]

    assert [refusal(submit(run, asked(**fields))) for fields in more] == [(400, "invalid_request")] * len(more)
    assert submit(run, asked(**most)).status_code == 200
    (charged,) = charges(run)
    assert {"key": charged.key, "hypothesis": charged.hypothesis, "set": charged.settings} == most
