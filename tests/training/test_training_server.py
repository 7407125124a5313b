"""The training server: its session wire, its guard, admission, time-outs, and what is said of lost sessions."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from evopolicygym.core.errors import RequestRefused, UsageError
from evopolicygym.training.environment import TextEnvironment, TrainingEnvironment
from evopolicygym.training.server import TrainingServer
from evopolicygym.training.sessions import SessionFactory, Sessions
from training_clients import CONFIG, HOLDS, OPTIONS, ask


@pytest.fixture(scope="module")
def server() -> Iterator[TrainingServer]:
    """A training server."""
    with TrainingServer(CONFIG) as started:
        yield started


def test_the_session_wire(server: TrainingServer) -> None:
    """A row opens a session, tools act in it, and verifying scores and closes it; only the latest cookie is sent."""
    row = ask(f"{server.url}/task/7").body
    assert "Task: cartpole" in row["responses_create_params"]["input"][0]["content"]
    assert [tool["name"] for tool in row["responses_create_params"]["tools"]] == ["write", "submit", "look", "finish"]

    seeded = ask(f"{server.url}/seed_session", {**row, "anything": "else"})
    written = ask(f"{server.url}/write", {"path": "policy.py", "content": HOLDS}, seeded.cookie)
    refused = ask(f"{server.url}/submit", {"episodes": 9}, written.cookie)
    submitted = ask(f"{server.url}/submit", {"episodes": 4}, refused.cookie)
    finished = ask(f"{server.url}/finish", {}, submitted.cookie)
    verified = ask(f"{server.url}/verify", {**row, "response": {"output": []}}, finished.cookie)

    assert refused.status == 200
    assert refused.body["text"].startswith("Refused: 9 episodes requested")
    assert "mean return 500.00 of 4 episodes" in submitted.body["text"]
    assert finished.body["done"] is True
    assert verified.body["reward"] == pytest.approx(1 - 0.1 * 4 / 8)
    assert sum(verified.body["curve"]) == pytest.approx(verified.body["reward"])
    assert verified.body["response"] == {"output": []}
    assert verified.body["split"] == "train"
    again = ask(f"{server.url}/verify", row, verified.cookie)
    assert again.body["reward"] == verified.body["reward"]
    means = ask(f"{server.url}/aggregate_metrics", {"verify_responses": [verified.body, {"mask_sample": True}]}).body
    assert means["agent_metrics"]["reward"] == verified.body["reward"]


def test_verifying_finishes_what_the_agent_has_not(server: TrainingServer) -> None:
    """An agent that only submitted is scored."""
    seeded = ask(f"{server.url}/seed_session", {"seed": 8})
    ask(f"{server.url}/submit", {"episodes": 2}, seeded.cookie)
    verified = ask(f"{server.url}/verify", {"seed": 8}, seeded.cookie).body
    assert verified["episodes"] == 2
    assert verified["submissions"] == 1


def test_a_lost_session_is_said_loudly(server: TrainingServer) -> None:
    """Neither an unknown session nor a closed one is replaced by a fresh one."""
    unknown = ask(f"{server.url}/look", {}, "evopolicygym_session=nothing")
    assert unknown.status == 410
    assert (
        "is lost: it is unknown here; a server that was restarted has no sessions. Nothing replaces it"
        in (unknown.body["error"])
    )
    seeded = ask(f"{server.url}/seed_session", {"seed": 9})
    assert ask(f"{server.url}/close_session", {}, seeded.cookie).status == 200
    assert "its client closed it" in ask(f"{server.url}/submit", {}, seeded.cookie).body["error"]


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/seed_session", {}, 400, "Missing seed"),
        (
            "/seed_session",
            {"seed": "7"},
            400,
            "Invalid seed: expected an integer from 0 to 9223372036854775807, got '7'",
        ),
        ("/seed_session", {"seed": -1}, 400, "Invalid seed: expected an integer from 0"),
        ("/look", {}, 400, "Missing session"),
        ("/seed_session", [], 400, "Invalid body: expected a JSON object"),
    ],
)
def test_an_invalid_request_is_refused(
    server: TrainingServer, path: str, body: object, status: int, message: str
) -> None:
    """Nothing is opened."""
    before = ask(f"{server.url}/status").body["opened"]
    reply = ask(f"{server.url}{path}", body)
    assert reply.status == status
    assert message in reply.body["error"]
    assert ask(f"{server.url}/status").body["opened"] == before


def test_only_programs_with_the_token_are_answered(server: TrainingServer) -> None:
    """The token is in the path or a bearer token; pages of browsers and other host names are refused."""
    origin = server.url.removesuffix(f"/{server.token}")
    assert ask(f"{origin}/status").status == 401
    assert ask(f"{origin}/status", authorization=f"Bearer {server.token}").status == 200
    assert ask(f"{server.url}/status", origin="http://elsewhere").status == 403
    assert ask(f"{server.url}/status", host="elsewhere").status == 403
    with pytest.raises(UsageError, match=r"expected 127\.0\.0\.1 for a server without a token"):
        TrainingServer(CONFIG, "0.0.0.0", token="")  # noqa: S104 - refused


def test_a_client_has_the_rewards_of_a_session_here(server: TrainingServer) -> None:
    """The plain classes do the same by a server as in this process."""
    steps: list[Any] = [
        {"action": "submit", "arguments": {"episodes": 2}},
        f"```python\n{HOLDS}```\n/submit 3",
        "/finish",
    ]
    outcomes = []
    for environment in (TextEnvironment(**OPTIONS), TextEnvironment(url=server.url)):
        task, _ = environment.reset(seed=10)
        outcomes.append((task, [environment.step(step) for step in steps]))
        environment.close()
    assert outcomes[0] == outcomes[1]

    tools = TrainingEnvironment(url=server.url)
    assert "Task: cartpole" in tools.reset(seed=10)
    tools.write("policy.py", HOLDS)
    tools.submit(2)
    assert tools.get_reward() == pytest.approx(1 - 0.1 * 2 / 8)


@pytest.fixture(scope="module")
def factory() -> Iterator[SessionFactory]:
    """What opens sessions in this process."""
    made = SessionFactory.of(CONFIG)
    yield made
    made.pool.close()


def test_a_session_waits_for_room(factory: SessionFactory) -> None:
    """Beyond the sessions that may be open, the next one waits in turn, and is refused only when it waited too long."""

    async def play() -> None:
        sessions = Sessions(replace(factory, config=replace(CONFIG, sessions=1)))
        first = await sessions.open(1)
        waiting = [asyncio.ensure_future(sessions.open(seed)) for seed in (2, 3)]
        while sessions.status["waiting"] < 2:
            await asyncio.to_thread(int)  # so that they begin to wait
        sessions.close(first.id, "done")
        second = await waiting[0]
        assert second.drawn.seed == 2
        assert not waiting[1].done()
        sessions.close(second.id, "done")
        assert (await waiting[1]).drawn.seed == 3
        sessions.close_all()

        sessions = Sessions(replace(factory, config=replace(CONFIG, sessions=1, queue_s=1e-3)))
        await sessions.open(1)
        with pytest.raises(RequestRefused, match="1 sessions are open"):
            await sessions.open(2)
        sessions.close_all()

    asyncio.run(play())


def test_a_dead_client_is_reaped_but_never_in_a_step(factory: SessionFactory) -> None:
    """A session is closed when its client hasn't asked for long, and not while it is asked or played."""

    async def play() -> None:
        sessions = Sessions(replace(factory, config=replace(CONFIG, idle_s=1e-9)))
        session = await sessions.open(1)
        with sessions.in_use(session.id):
            sessions.reap()
        assert sessions.status["open"] == 1
        with sessions.in_use(session.id):
            session.start("submit", {"episodes": 8})
        sessions.reap()  # its episodes are played, or it is scored, until it is settled
        assert sessions.status["open"] == 1 or session.done
        await sessions.wait_until_settled(session, None)
        sessions.reap()
        assert sessions.status["open"] == 0
        with (
            pytest.raises(RequestRefused, match="it was closed after 1e-09 s without a request"),
            sessions.in_use(session.id),
        ):
            pass
        assert not (factory.pool.directory / session.id).exists()

    asyncio.run(play())
