"""The judge's door, over a real socket: every call of the protocol, every refusal, nothing charged by any of them."""

import errno
import http.client
import json
import os
import socket
import ssl
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from evopolicygym.core.budget import BudgetRule
from evopolicygym.core.errors import EnvironmentFault
from evopolicygym.core.event import SubmissionCharged
from evopolicygym.core.run import fold
from evopolicygym.judge.http import MAX_BODY
from evopolicygym.records import journal
from fakes import FakeExecutor, OpenRun, RunMaker, open_run

Json = dict[str, Any]
SUBMIT = {"env_instances": [0]}
TLS = ssl.create_default_context()
"""Never used, and made once: httpx would make one for each request."""


def ask(run: OpenRun, method: str, path: str, body: object = None, **changes: Any) -> httpx.Response:
    """Ask the judge; a body that is no text is sent as JSON."""
    content = body if isinstance(body, bytes) or method == "GET" else json.dumps(body)
    headers = {"Content-Type": "application/json"} | changes.pop("headers", {})
    return httpx.request(
        method,
        run.door.endpoint.base_url + path,
        content=content,
        headers=headers,
        timeout=30,
        trust_env=False,
        verify=TLS,
    )


def submit(run: OpenRun, body: object = SUBMIT) -> httpx.Response:
    return ask(run, "POST", "/submit", body)


def refusal(answer: httpx.Response) -> tuple[int, str]:
    """Return a refusal's code and status; its body holds a sentence and nothing else."""
    document = answer.json()
    assert {"status", "error"} == document.keys()
    assert {"message"} == document["error"].keys()
    return answer.status_code, document["status"]


def charges(run: OpenRun) -> list[SubmissionCharged]:
    return [event for event in journal.read(run.paths.journal).events if isinstance(event, SubmissionCharged)]


# What is answered


def test_info(new_run: RunMaker) -> None:
    """GET /info tells how the run stands."""
    run = new_run()
    submit(run, {"env_instances": "0-2"})
    answer = ask(run, "GET", "/info")

    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json()["state"] == {"remaining_budget": 5, "n_submits": 1, "is_finalized": False}


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


def test_without_waiting(new_run: RunMaker) -> None:
    """With wait false the id comes at once; GET /submissions/NNN gives progress, and at the end the summary."""
    run = new_run()
    run.executor.gate.clear()
    first = submit(run, {"env_instances": "0-2", "wait": False})
    between = ask(run, "GET", "/submissions/000").json()
    run.executor.gate.set()
    run.session.published(0).result(30)
    after = ask(run, "GET", "/submissions/0").json()

    assert (first.status_code, first.json()["status"], first.json()["summary"]) == (202, "playing", None)
    assert (between["progress"], between["status"]) == ({"played": 0, "of": 3}, "playing")
    assert (after["progress"], after["status"]) == ({"played": 3, "of": 3}, "ok")
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


def test_a_submission_is_told_when_its_feedback_is_in_place(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the record and the rename a submission is still playing, to those who ask and to those who wait."""
    run = new_run()
    answers: list[Json] = []
    waiting: list[Future[None]] = []

    def look(*_: object) -> None:
        waiting.append(run.session.published(0))
        answers.extend((ask(run, "GET", "/submissions/0").json(), ask(run, "GET", "/submissions").json()))

    monkeypatch.setattr("evopolicygym.judge.submit.publish", lambda *asked: (look(), publish(*asked)))
    from evopolicygym.records.feedback import publish

    answer = submit(run)

    assert answers[0]["status"] == "playing"
    assert answers[1]["submissions"][0]["status"] == "playing"
    assert answer.status_code == 200
    assert waiting[0].result(30) is None


# Keys


def test_the_same_key_is_the_same_submission(new_run: RunMaker) -> None:
    """A client that timed out asks again, and nothing is charged."""
    run = new_run()
    body = {"env_instances": "0-2", "key": "mine"}
    first, second = submit(run, body).json(), submit(run, body).json()

    assert first == second
    assert run.session.state.spent == 3


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


# Budget under pressure


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


def test_one_submission_plays_at_a_time(new_run: RunMaker) -> None:
    """A second submission waits its turn."""
    run = new_run()
    run.executor.gate.clear()
    for _ in range(2):
        submit(run, {"env_instances": "0-1", "wait": False})
    run.executor.gate.set()
    run.session.published(1).result(30)

    assert [context.submit_index for _, _, context in run.executor.played] == [0, 0, 1, 1]


def test_a_client_that_leaves_has_its_submission_played(new_run: RunMaker) -> None:
    """Who closes the connection in the middle gets its feedback all the same, once."""
    run = new_run()
    run.executor.gate.clear()
    address = httpx.URL(run.door.endpoint.base_url)
    connection = http.client.HTTPConnection(address.host, address.port, timeout=30)
    connection.request("POST", f"{address.path}/submit", json.dumps(SUBMIT), {"Content-Type": "application/json"})
    while not run.session.state.submissions:
        ask(run, "GET", "/info")
    connection.close()
    run.executor.gate.set()
    run.session.published(0).result(30)

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

    def full() -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(run.session, "_capture", full)
        before = refusal(submit(run))

    assert before == (503, "unavailable")
    assert submit(run).status_code == 200


# Refusals


def too_big(run: OpenRun) -> None:
    (run.paths.system / "weights").write_bytes(bytes(65 << 20))


def linked(run: OpenRun) -> None:
    (run.paths.system / "away").symlink_to("/etc/passwd")


def absent(run: OpenRun) -> None:
    (run.paths.system / "policy.py").unlink()


@pytest.mark.parametrize("spoil", [too_big, linked, absent])
def test_a_system_that_can_t_be_taken(new_run: RunMaker, spoil: Any) -> None:
    """A system/ without policy.py, too big or with a link is refused and not charged."""
    run = new_run()
    before = run.journal()
    spoil(run)

    assert refusal(submit(run)) == (400, "invalid_checkpoint")
    assert before == run.journal()


NO_INDICES: list[object] = [[], "", [True], [1.5], ["0"], [-1], [16], [2**63], [10**400], "0-99", "3-1", None, 3, {}]
TOO_MANY: list[object] = ["0-8", list(range(9)), "0-7,0", "0-15"]
NO_REQUESTS: list[object] = [
    *([], "text", 3, None, True, {}, {"indices": [0]}, {**SUBMIT, "film": [0]}, {**SUBMIT, "seed": 3}),
    *({**SUBMIT, "wait": 1}, {**SUBMIT, "wait": "no"}, {**SUBMIT, "key": 3}, {**SUBMIT, "key": "a" * 201}),
    *({**SUBMIT, "key": "a\nb"}, {**SUBMIT, "key": "\ud800"}, {**SUBMIT, "key": None}),
    *(b"", b"{", b"\xff\xfe", b'{"env_instances": [0]', b"[" * 60_000, b'{"a":' * 10_000, b"1" * 60_000),
]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        *(({"env_instances": asked}, "invalid_env_instance") for asked in NO_INDICES),
        *(({"env_instances": asked}, "budget_invalid") for asked in TOO_MANY),
        *((body, "invalid_request") for body in NO_REQUESTS),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_can_t_be_asked_is_refused(new_run: RunMaker, body: object, status: str) -> None:
    """Each refusal has its status and code 400, and leaves the journal as it was."""
    run = new_run()
    before = run.journal()

    assert (400, status) == refusal(submit(run, body))
    assert (before, []) == (run.journal(), list(run.paths.checkpoints.iterdir()))


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"env_instances": [0, 99]}, "index 99 is outside 0 to 15"),
        ({"env_instances": "0-8"}, "9 episodes were asked for; one submission may play at most 8"),
        ({"env_instances": [0], "video": [0]}, "unknown field 'video'"),
        ({"env_instances": [True]}, "not True"),
    ],
)
def test_a_refusal_names_the_rule_and_the_value(new_run: RunMaker, body: object, named: str) -> None:
    """A refusal's message is a sentence about what was asked."""
    assert named in submit(new_run(), body).json()["error"]["message"]


def test_portions(new_run: RunMaker) -> None:
    """A run may ask for portions; what is left below the least may be spent whole."""
    run = new_run(budget=BudgetRule(7, 3, 4))
    codes = [submit(run, {"env_instances": asked}).status_code for asked in ("0-1", "0-4", "0-2", "0-2", "0-1", "0")]

    assert codes == [400, 400, 200, 200, 400, 200]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "example.org"}, 403),
        ({"Host": "127.0.0.1.example.org"}, 403),
        ({"Origin": "http://127.0.0.1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "multipart/form-data"}, 415),
    ],
)
def test_who_asks_from_elsewhere_is_refused(new_run: RunMaker, headers: dict[str, str], code: int) -> None:
    """Another host's name, a browser's origin and another type of content are refused."""
    run = new_run()
    before = run.journal()

    assert (code, "invalid_request") == refusal(ask(run, "POST", "/submit", SUBMIT, headers=headers))
    assert before == run.journal()


@pytest.mark.parametrize(
    "headers",
    [{"Content-Type": ""}, {"Content-Type": "application/json; charset=utf-8"}, {"Host": "localhost:1"}],
)
def test_who_says_little_is_heard(new_run: RunMaker, headers: dict[str, str]) -> None:
    """A client that names no type, or this machine by its name, is answered."""
    assert ask(new_run(), "POST", "/submit", SUBMIT, headers=headers).status_code == 200


@pytest.mark.parametrize("size", [MAX_BODY + 1, 1 << 22])
def test_a_body_too_large_is_refused(new_run: RunMaker, size: int) -> None:
    """More than 64 KB are not read."""
    run = new_run()
    before = run.journal()

    assert refusal(submit(run, b" " * size)) == (413, "invalid_request")
    assert before == run.journal()


def test_a_body_in_pieces_is_bounded_too(new_run: RunMaker) -> None:
    """A body that doesn't say its length is cut off at the same size."""
    run = new_run()
    answer = httpx.post(
        run.door.endpoint.base_url + "/submit",
        content=(b" " * 1000 for _ in range(100)),
        headers={"Content-Type": "application/json"},
        timeout=30,
        trust_env=False,
        verify=TLS,
    )

    assert refusal(answer) == (413, "invalid_request")


def test_a_body_that_never_comes(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who promises a body and sends none is let go."""
    monkeypatch.setattr("evopolicygym.judge.connection.REQUEST_S", 0.05)
    run = new_run()
    address = httpx.URL(run.door.endpoint.base_url)
    head = f"POST {address.path}/submit HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n"
    with socket.create_connection((address.host, address.port or 0), timeout=30) as connection:
        connection.sendall(head.encode())
        answer = connection.recv(1 << 16)

    assert answer.startswith(b"HTTP/1.1 408 ")


# The token, and what is not a call


@pytest.mark.parametrize("path", ["/info", "/task", "/submissions", "/", "/wrong-token/info", "//info", "/%00/info"])
def test_nothing_answers_without_the_token(new_run: RunMaker, path: str) -> None:
    """Without the token there is nothing, and no hint of anything."""
    run = new_run()
    address = httpx.URL(run.door.endpoint.base_url)
    connection = http.client.HTTPConnection(address.host, address.port, timeout=30)
    with closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read().decode()

    assert answer.status == 404
    assert address.path.strip("/") not in body + str(answer.headers)
    assert json.loads(body) == {"status": "invalid_request", "error": {"message": "There is no such call."}}


def test_a_token_is_no_guess(new_run: RunMaker) -> None:
    """Each run has a token of its own, of 24 random bytes."""
    tokens = {httpx.URL(new_run(name).door.endpoint.base_url).path.strip("/") for name in ("one", "two")}

    assert len(tokens) == 2
    assert all(len(token) == 32 for token in tokens)


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("POST", "/info", 405),
        ("GET", "/submit", 405),
        ("DELETE", "/submissions/0", 405),
        ("PUT", "/finish", 405),
        ("GET", "/secret", 404),
        ("GET", "/info/", 404),
        ("GET", "/submissions/7", 404),
        ("GET", "/submissions/-1", 404),
        ("GET", "/submissions/x", 404),
        ("GET", "/submissions/99999999999999999999", 404),
        ("GET", "/../info", 404),
        ("POST", "/submit/..%2f..%2fetc", 404),
    ],
)
def test_what_is_no_call_is_told_blandly(new_run: RunMaker, method: str, path: str, code: int) -> None:
    """Another path or method has the same form of answer, without a traceback, a version or a path."""
    answer = ask(new_run(), method, path, b"")

    assert (code, "invalid_request") == refusal(answer)
    assert {"server", "x-powered-by"}.isdisjoint(answer.headers)
    assert len(answer.text) < 200


@pytest.mark.parametrize("request_line", [b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"X" * 70_000])
def test_what_is_no_http_is_let_go(new_run: RunMaker, request_line: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever comes down the wire, the door stays open, and nothing is logged for it."""
    run = new_run()
    address = httpx.URL(run.door.endpoint.base_url)
    with socket.create_connection((address.host, address.port or 0), timeout=30) as connection:
        connection.sendall(request_line)
        connection.recv(1 << 16)

    assert ask(run, "GET", "/info").status_code == 200
    assert caplog.records == []


# Finishing and closing


def test_finishing_where_it_is_not_allowed(new_run: RunMaker) -> None:
    """A run that must be played to its end says so, and goes on."""
    run = new_run()
    answer = ask(run, "POST", "/finish", {})

    assert refusal(answer) == (400, "invalid_request")
    assert "8 episodes are left" in answer.json()["error"]["message"]
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


def test_finishing_while_something_plays(new_run: RunMaker) -> None:
    """What is charged is played first: the run is done only then."""
    run = new_run(finish_allowed=True)
    run.executor.gate.clear()
    submit(run, {**SUBMIT, "wait": False})
    ask(run, "POST", "/finish", {})
    before = run.session.done
    run.executor.gate.set()
    run.session.published(0).result(30)

    assert (before, run.session.done) == (False, True)


def test_finishing_wakes_who_waits_for_the_end(new_run: RunMaker) -> None:
    """Whoever waits for the run to be done hears of it at once."""
    run = new_run(finish_allowed=True)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(run.session.wait_for_end, Future())
        ask(run, "POST", "/finish", {})

        assert waiting.result(30) is None


def test_finishing_while_a_checkpoint_is_taken(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A submission whose checkpoint was still being taken when the agent finished is refused and not charged."""
    run = new_run(finish_allowed=True)

    def finish_meanwhile() -> str:
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


def test_a_door_serves_more_than_one_socket(new_run: RunMaker) -> None:
    """A socket from a sandbox's network leads to the same run."""
    run = new_run()
    endpoint = run.door.serve(socket.create_server(("127.0.0.1", 0)))
    answer = httpx.post(
        endpoint.environment["EVOPOLICYGYM_SUBMIT_URL"], json=SUBMIT, timeout=30, trust_env=False, verify=TLS
    )

    assert answer.status_code == 200
    assert ask(run, "GET", "/info").json()["state"]["n_submits"] == 1


# Taken up again


def test_an_interrupted_submission_is_played_on(tmp_path: Path) -> None:
    """Taken up again, the missing episodes are played, and nothing is charged."""
    with open_run(tmp_path, {}) as run:
        run.executor.gate.clear()
        submit(run, {"env_instances": "0-3", "wait": False, "key": "mine"})
        while not run.executor.loaded:
            ask(run, "GET", "/info")
        run.rollouts.stop.set()
        run.executor.gate.set()
    with open_run(tmp_path) as run:
        answer = submit(run, {"env_instances": "0-3", "key": "mine"}).json()

        assert (answer["status"], run.session.state.spent) == ("ok", 4)
        assert [job.position for _, job, _ in run.executor.played] == [1, 2, 3]


def test_feedback_recorded_and_not_in_place(tmp_path: Path) -> None:
    """A crash between the record and the rename is made good before anyone can ask."""
    with open_run(tmp_path, {}) as run:
        submit(run)
        run.feedback(0).chmod(0o755)
        run.feedback(0).rename(run.paths.staged(0))
    with open_run(tmp_path) as run:
        answer = ask(run, "GET", "/submissions/0").json()

    assert (answer["status"], run.executor.played) == ("ok", [])
    assert run.feedback(0).stat().st_mode & 0o777 == 0o555


# Anything at all

words = some.text(max_size=20)
values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | words,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(words, inner, max_size=4),
    max_leaves=8,
)
bodies = (
    some.binary(max_size=200)
    | values.map(lambda value: json.dumps(value).encode())
    | some.dictionaries(some.sampled_from(["env_instances", "wait", "key", "seed"]), values, max_size=4).map(
        lambda value: json.dumps(value).encode()
    )
)


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a run that answers throughout; its budget allows nothing, as indices must number at least 900."""
    with open_run(tmp_path_factory.mktemp("standing"), {"budget": BudgetRule(1000, 900)}) as run:
        yield run


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bodies, some.sampled_from(["/submit", "/finish", "/info", "/submissions/0"]))
def test_whatever_is_asked_is_answered(standing: OpenRun, body: bytes, path: str) -> None:
    """No body makes the judge fail or charges anything."""
    before = standing.journal()
    answer = ask(standing, "POST", path, body)

    assert 400 <= answer.status_code < 500
    assert before == standing.journal()


def test_the_fake_keeps_the_executors_contract() -> None:
    """What stands in for the real executor has its form."""
    from evopolicygym.core.rollout import Executor

    executor: Executor = FakeExecutor()

    assert executor.grounds.isolation == "none"
