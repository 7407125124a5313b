"""The judge's door, over a real socket: every call of the protocol, and keys."""

import json
import os
import re
import socket
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from asking import SUBMIT, Json, ask, charges, submit
from evopolicygym.core import cases
from evopolicygym.core.cases import Split
from evopolicygym.core.rollout import Failure, FailureReason
from evopolicygym.core.task import TaskInterface
from evopolicygym.judge.rollouts import finalize
from fakes import PATIENCE_S, SECRET, FakeExecutor, RunMaker, open_run
from places import ROOT
from removal import remove


def test_info(new_run: RunMaker) -> None:
    """GET /info tells how the run stands."""
    run = new_run()
    submit(run, {"env_instances": "0-2"})
    answer = ask(run, "GET", "/info")

    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    standing = {"remaining_budget": 5, "n_submits": 1, "remaining_films": 0, "is_finalized": False}
    assert answer.json()["state"] == {**standing, "remaining_submissions": None}


def test_the_protocol_names_every_field(new_run: RunMaker) -> None:
    """What the judge answers, writes into feedback and records is named in the protocol, as code."""
    run = new_run(films=2, finish_allowed=True, choices={"interface": TaskInterface.PERMUTED.value})
    asked = [("GET", "/info", None), ("POST", "/submit", {"env_instances": "0-1", "films": [0]})]
    asked += [("GET", "/submissions", None), ("GET", "/submissions/0/policy", None), ("POST", "/check", {})]
    asked += [("POST", "/submissions/0/restore", {}), ("POST", "/submissions/9/restore", {}), ("POST", "/finish", {})]
    answers = [ask(run, *request).json() for request in asked]
    for file in run.feedback(0).rglob("trajectory.jsonl"):
        answers += map(json.loads, file.read_text(encoding="utf-8").splitlines())
    kinds = {json.loads(line)["event"]["kind"] for line in run.paths.journal.read_text(encoding="utf-8").splitlines()}
    of_the_toy = {"policy.py", *run.session.state.opened.task.environment.reward_components}
    page = (ROOT / "docs/reference/protocol.md").read_text(encoding="utf-8")

    assert "interface" in names_in(answers)
    assert (names_in(answers) | kinds) - of_the_toy <= set(re.findall(r"\w+", " ".join(page.split("`")[1::2])))


def names_in(document: object) -> set[str]:
    """Return the names of all fields of a JSON document."""
    match document:
        case dict():
            return {*document, *names_in(list(document.values()))}
        case list():
            return set().union(*map(names_in, document))
    return set()


def test_task(new_run: RunMaker) -> None:
    """GET /task is markdown."""
    answer = ask(new_run(), "GET", "/task")

    assert (answer.status_code, answer.headers["content-type"].startswith("text/markdown")) == (200, True)
    assert answer.text.startswith("# Task: toy")


@pytest.mark.parametrize(("asked", "played"), [([3, 1, 1], [3, 1, 1]), ("0-2,7", [0, 1, 2, 7]), ("5,5", [5, 5])])
def test_a_submission(new_run: RunMaker, asked: object, played: list[int]) -> None:
    """POST /submit plays, and answers with the id, the status and what stands in summary.json."""
    run = new_run()
    document = submit(run, {"env_instances": asked}).json()
    written = json.loads((run.feedback(0) / "summary.json").read_text(encoding="utf-8"))

    assert (0, "ok", written) == (document["submit_id"], document["status"], document["summary"])
    assert played == written["env_instances"]
    assert sorted(played) == sorted(charges(run)[0].env_instances)


def test_nothing_runs_before_the_charge_is_on_disk(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the policy is loaded, its charge stands in the journal."""
    run = new_run()
    seen: list[int] = []
    really = run.executor.load
    monkeypatch.setattr(run.executor, "load", lambda *asked: (seen.append(len(charges(run))), really(*asked))[1])
    submit(run)

    assert seen == [1]


@pytest.mark.parametrize("status", ["import_error", "missing_policy", "init_error", "init_timeout"])
def test_a_policy_that_can_t_be_loaded_is_charged(new_run: RunMaker, status: str) -> None:
    """Whatever follows the charge costs its full number of episodes."""
    run = new_run()
    run.write_policy(status)
    document = submit(run, {"env_instances": "0-3"}).json()

    assert (status, 4) == (document["status"], run.session.state.spent)


def test_how_many_are_played_before(new_run: RunMaker) -> None:
    """A submission that waits for others says for how many."""
    run = new_run()
    run.executor.gate.clear()
    for indices in ("0-2", "3", "4"):
        submit(run, {"env_instances": indices, "wait": False})
    waiting = [one["progress"]["ahead"] for one in ask(run, "GET", "/submissions").json()["submissions"]]
    run.executor.gate.set()
    run.session.published(2).result(PATIENCE_S)
    after = [one["progress"]["ahead"] for one in ask(run, "GET", "/submissions").json()["submissions"]]

    assert (waiting, after) == ([0, 1, 2], [0, 0, 0])


def test_without_waiting(new_run: RunMaker) -> None:
    """With wait false the id comes at once; GET /submissions/NNN gives progress, and at the end the summary."""
    run = new_run()
    run.executor.gate.clear()
    first = submit(run, {"env_instances": "0-2", "wait": False})
    between = ask(run, "GET", "/submissions/000").json()
    run.executor.gate.set()
    run.session.published(0).result(PATIENCE_S)
    after = ask(run, "GET", "/submissions/0").json()

    assert (first.status_code, first.json()["status"], first.json()["summary"]) == (202, "playing", None)
    assert (between["progress"], between["status"]) == ({"played": 0, "of": 3, "ahead": 0}, "playing")
    assert (after["progress"], after["status"]) == ({"played": 3, "of": 3, "ahead": 0}, "ok")
    assert after["summary"]["n_episodes"] == 3


def test_submissions_are_listed(new_run: RunMaker) -> None:
    """GET /submissions lists them in their order."""
    run = new_run()
    run.write_policy("2.5")
    submit(run, {"env_instances": "0-1"})
    run.write_policy("import_error")
    submit(run)
    listed = ask(run, "GET", "/submissions").json()["submissions"]

    assert [(one["submit_id"], one["status"], one["n_episodes"], one["mean_return"]) for one in listed] == [
        (0, "ok", 2, 2.5),
        (1, "import_error", 1, None),
    ]


def test_hidden_cases_change_no_answer(new_run: RunMaker) -> None:
    """Once the budget is spent, answers stay the same, whatever hidden cases are played: but that the run is over."""
    run, paths = new_run(), ("/submissions", "/submissions/0", "/task", "/info")
    submit(run, {"env_instances": "0-7"})
    before = [ask(run, "GET", path).text for path in paths]
    run.session.close()
    finalize(run.rollouts)
    after = [ask(run, "GET", path).text for path in paths]

    assert run.session.state.held_out()
    assert [text.replace('"is_finalized":true', '"is_finalized":false') for text in after] == before


def test_a_job_has_the_case_s_seed_and_another_for_its_policy(new_run: RunMaker) -> None:
    """An environment is reset by the seed behind an index; the policy's random numbers are derived by the secret."""
    run = new_run()
    submit(run, {"env_instances": "3,1"})
    seeds = cases.derive(SECRET, "toy").seeds[Split.TRAIN]

    assert [(job.seed, job.policy_seed) for _, job, _ in run.executor.played] == [
        (seeds[index], cases.policy_seed(SECRET, "toy", Split.TRAIN, index, 0)) for index in (3, 1)
    ]


@pytest.mark.parametrize(("failing", "told"), [((0, 1), 2), ((1,), 1), ((), 0)])
def test_an_answer_says_how_many_episodes_failed(new_run: RunMaker, failing: tuple[int, ...], told: int) -> None:
    """Beside the status, which stays ok, every answer says in how many episodes the policy failed."""
    run = new_run()
    run.executor.failures = dict.fromkeys(failing, Failure(FailureReason.ERROR, "no"))
    answer = submit(run, {"env_instances": "0-1"}).json()
    (line,) = ask(run, "GET", "/submissions").json()["submissions"]

    assert (answer["status"], answer["failed_episodes"]) == ("ok", told)
    assert (line["status"], line["failed_episodes"]) == ("ok", told)
    assert [type(each["trouble"]) for each in (answer, line)] == [str if told else type(None)] * 2


@pytest.mark.parametrize("status", ["import_error", ""])
def test_where_nothing_was_played_nothing_failed(new_run: RunMaker, status: str) -> None:
    """How many episodes failed is null while a submission plays, and where its policy can't be loaded."""
    run = new_run()
    run.write_policy(status or "1.0")
    run.executor.gate.clear()
    first = submit(run, {"env_instances": "0", "wait": False}).json()
    run.executor.gate.set()
    run.session.published(0).result(PATIENCE_S)
    after = ask(run, "GET", "/submissions/0").json()

    assert (first["failed_episodes"], after["failed_episodes"]) == (None, None if status else 0)


def test_the_list_and_the_summary_tell_one_mean(new_run: RunMaker) -> None:
    """A mean is the same number wherever it is told: no sum that is rounded at each step."""
    run = new_run()
    run.write_policy("0.1")
    summary = submit(run, {"env_instances": "0-7"}).json()["summary"]
    listed = ask(run, "GET", "/submissions").json()["submissions"]

    assert [one["mean_return"] for one in listed] == [0.1]
    assert summary["mean_return"] == 0.1


def empty(feedback: Path) -> None:
    (feedback / "summary.json").unlink()


def forge(feedback: Path) -> None:
    (feedback / "summary.json").chmod(0o644)
    (feedback / "summary.json").write_text("[" * 100_000, encoding="utf-8")


def lead_elsewhere(feedback: Path) -> None:
    (feedback.parents[1] / "secret").write_text('{"films": "secret"}', encoding="utf-8")
    (feedback / "summary.json").unlink()
    (feedback / "summary.json").symlink_to(feedback.parents[1] / "secret")


def make_wait(feedback: Path) -> None:
    (feedback / "summary.json").unlink()
    os.mkfifo(feedback / "summary.json")


@pytest.mark.parametrize("spoil", [remove, empty, forge, lead_elsewhere, make_wait])
@pytest.mark.parametrize("films", [0, 1])
def test_feedback_that_the_agent_has_spoilt(new_run: RunMaker, spoil: Callable[[Path], None], films: int) -> None:
    """What was played is told from the record, whatever an agent makes of its files; only films are not in there."""
    run = new_run(films=films)
    body = {"env_instances": "0-1", "key": "mine", **({"films": [1]} if films else {})}
    before = submit(run, body).json()
    run.feedback(0).chmod(0o755)
    spoil(run.feedback(0))
    if films:
        before["summary"]["films"] = None

    assert before == ask(run, "GET", "/submissions/0").json()
    assert before == submit(run, body).json()
    assert ask(run, "GET", "/submissions").json()["submissions"][0]["status"] == "ok"


def test_films_are_told_as_in_the_summary(new_run: RunMaker) -> None:
    """Of films the answers say what the agent reads in its feedback."""
    run = new_run(films=1)
    told = submit(run, {"env_instances": "0-1", "films": [1]}).json()["summary"]

    assert told == json.loads((run.feedback(0) / "summary.json").read_text(encoding="utf-8"))
    assert [one["env_instance"] for one in told["films"]] == [1]


def test_a_submission_is_told_when_its_feedback_is_in_place(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is renamed, and delivered to an agent elsewhere, a submission is playing, to all who ask or wait."""
    run = new_run()
    run.executor.failures = {0: Failure(FailureReason.ERROR, "no")}
    answers: list[Json] = []
    waiting: list[Future[None]] = []

    def look(*_: object) -> None:
        waiting.append(run.session.published(0))
        answers.extend(
            (ask(run, "GET", "/submissions/0").json(), *ask(run, "GET", "/submissions").json()["submissions"])
        )

    monkeypatch.setattr("evopolicygym.judge.session.publish", lambda *asked: (look(), publish(*asked)))
    monkeypatch.setattr(run.session, "_deliver", look)
    from evopolicygym.records.feedback import publish

    answer = submit(run)

    assert [(each["status"], each["failed_episodes"], each["trouble"]) for each in answers] == [
        ("playing", None, None)
    ] * 4
    assert (answer.status_code, answer.json()["failed_episodes"]) == (200, 1)
    assert waiting[0].result(PATIENCE_S) is None


# Keys


def test_the_same_key_is_the_same_submission(new_run: RunMaker) -> None:
    """A client that timed out asks again, and nothing is charged, in a later turn of its agent either."""
    run = new_run()
    body = {"env_instances": "0-2", "key": "mine"}
    first, second = submit(run, body).json(), submit(run, body).json()
    run.session.turn_started(0)

    assert first == second == submit(run, body).json()
    assert (run.session.state.spent, charges(run)[0].key) == (3, "mine")


def test_a_key_outlives_the_budget(new_run: RunMaker) -> None:
    """The same key is answered when the budget is spent, too."""
    run = new_run()
    body = {"env_instances": "0-7", "key": "mine"}

    assert submit(run, body).json() == submit(run, body).json()


def test_one_key_at_the_same_time(new_run: RunMaker) -> None:
    """Twenty who ask at once with one key get one submission."""
    run = new_run()
    body = {"env_instances": "0-2", "key": "mine"}
    with ThreadPoolExecutor(20) as pool:
        answers = [each.json() for each in pool.map(lambda _: submit(run, body), range(20))]

    assert [answers[0]] * 20 == answers
    assert len(charges(run)) == 1


def test_empty_keys_are_none(new_run: RunMaker) -> None:
    """Without a key each request is a submission of its own."""
    run = new_run()
    submit(run, {**SUBMIT, "key": ""})
    submit(run, {**SUBMIT, "key": ""})

    assert run.session.state.spent == 2


# More than one socket, and resumed


def test_a_door_serves_more_than_one_socket(new_run: RunMaker) -> None:
    """A socket from a sandbox's network leads to the same run."""
    run = new_run()
    endpoint = run.door.serve(socket.create_server(("127.0.0.1", 0)))
    answer = ask(run, "POST", "/submit", SUBMIT, base_url=endpoint.base_url)

    assert answer.status_code == 200
    assert ask(run, "GET", "/info").json()["state"]["n_submits"] == 1


def test_an_interrupted_submission_is_played_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken up again, the missing episodes are played, and nothing is charged."""
    with open_run(tmp_path, {}) as run:
        run.executor.gate.clear()
        loaded, really = Event(), run.executor.load
        monkeypatch.setattr(run.executor, "load", lambda *asked: (loaded.set(), really(*asked))[1])
        submit(run, {"env_instances": "0-3", "wait": False, "key": "mine"})
        assert loaded.wait(PATIENCE_S)
        run.rollouts.stop.set()
        run.executor.gate.set()
    with open_run(tmp_path) as run:
        answer = submit(run, {"env_instances": "0-3", "key": "mine"}).json()

        assert (answer["status"], run.session.state.spent) == ("ok", 4)
        assert [job.position for _, job, _ in run.executor.played] == [1, 2, 3]


def test_feedback_recorded_and_not_in_place(tmp_path: Path) -> None:
    """A crash between the record and the rename is made good before anyone can ask, or is delivered anything."""
    with open_run(tmp_path, {}) as run:
        submit(run)
        run.feedback(0).chmod(0o755)
        run.feedback(0).rename(run.paths.staged_feedback(0))
    delivered: list[tuple[int, bool]] = []
    with open_run(tmp_path, deliver=lambda index: delivered.append((index, run.feedback(index).exists()))) as again:
        answer = ask(again, "GET", "/submissions/0").json()

    assert (answer["status"], again.executor.played, delivered) == ("ok", [], [(0, True)])
    assert run.feedback(0).stat().st_mode & 0o777 == 0o555


def test_the_fake_keeps_the_executors_contract() -> None:
    """What stands in for the real executor has its form."""
    from evopolicygym.core.rollout import Executor

    executor: Executor = FakeExecutor()

    assert executor.info.isolation == "none"
