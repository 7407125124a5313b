"""OpenEnv's wire, by a plain WebSocket and by HTTP; the owners' own client and validators are tried nightly."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from evopolicygym.training.server import TrainingServer
from training_clients import CONFIG, HOLDS, ask

client = pytest.importorskip("websockets.sync.client")
exceptions = pytest.importorskip("websockets.exceptions")
Tell = Callable[[str, Any], dict[str, Any]]


@pytest.fixture(scope="module")
def server() -> Iterator[TrainingServer]:
    """A training server."""
    with TrainingServer(CONFIG) as started:
        yield started


@contextmanager
def connected(server: TrainingServer) -> Iterator[Tell]:
    """Yield a function that sends one message on a new socket and returns the answer."""
    with client.connect(f"{server.url.replace('http', 'ws', 1)}/ws", proxy=None) as socket:

        def tell(kind: str, data: Any = None) -> dict[str, Any]:
            socket.send(json.dumps({"type": kind, **({} if data is None else {"data": data})}))
            answer: dict[str, Any] = json.loads(socket.recv())
            return answer

        yield tell


def test_a_socket_is_a_client(server: TrainingServer) -> None:
    """Its rewards add up to what the session is worth; the episode's id comes back, and steps are counted."""
    with connected(server) as tell:
        first = tell("reset", {"seed": 11, "episode_id": "mine"})["data"]
        steps: list[Any] = [
            {"text": f"```python\n{HOLDS}```"},
            {"action": "submit", "arguments": {"episodes": 4}},
            {"action": "finish"},
        ]
        answers = [tell("step", step)["data"] for step in steps]
        state = tell("state")["data"]

    assert "Task: cartpole" in first["observation"]["text"]
    assert first["metadata"]["split"] == "train"
    assert [answer["done"] for answer in answers] == [False, False, True]
    assert sum(answer["reward"] for answer in answers) == pytest.approx(state["worth"]["value"])
    assert (state["episode_id"], state["step_count"]) == ("mine", 3)


def test_errors_leave_the_session_as_it_was(server: TrainingServer) -> None:
    """Each has its code; an action that can't be done is an observation for its agent."""
    with connected(server) as tell:
        assert tell("step", {"action": "look"})["data"]["code"] == "VALIDATION_ERROR"
        tell("reset", {"seed": 12})
        assert tell("fly")["data"]["code"] == "UNKNOWN_TYPE"
        assert tell("reset", {"seed": "x"})["data"]["code"] == "VALIDATION_ERROR"
        refused = tell("step", {"action": "submit", "arguments": {"episodes": 99}})
        assert refused["data"]["observation"]["text"].startswith("Refused: ")
        assert refused["data"]["reward"] == 0.0
        tools = tell("mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})["data"]["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["write", "submit", "look", "finish"]


def test_a_session_ends_with_its_socket(server: TrainingServer) -> None:
    """Nothing is left open by a client that leaves, or resets again."""
    with connected(server) as tell:
        tell("reset", {"seed": 13})
        tell("reset", {})
        assert ask(f"{server.url}/status").body["open"] == 1
    with connected(server) as tell:
        tell("state")
        assert ask(f"{server.url}/status").body["open"] == 0


def test_the_guard_holds_for_sockets(server: TrainingServer) -> None:
    """Without the token there is no socket, nor for a page of a browser."""
    origin = server.url.replace("http", "ws", 1)
    for url, more in ((origin.removesuffix(server.token), {}), (f"{origin}/", {"origin": "http://elsewhere"})):
        with pytest.raises(exceptions.InvalidStatus), client.connect(f"{url}ws", proxy=None, **more):
            pass


def test_what_is_asked_by_http(server: TrainingServer) -> None:
    """Health, metadata, schemas, tasks, one reset, and tools by MCP with a header for each session."""
    assert ask(f"{server.url}/health").body == {"status": "healthy"}
    assert {"/reset", "/step", "/state"} <= ask(f"{server.url}/openapi.json").body["paths"].keys()
    assert ask(f"{server.url}/evopolicygym/task", {"split": "train", "index": 3}).body == {"task": {"seed": 3}}
    tasks = {"split": "train", "start": 5, "stop": 8}
    assert len(ask(f"{server.url}/evopolicygym/task_range", tasks).body["tasks"]) == 3
    assert "Task: cartpole" in ask(f"{server.url}/reset", {"seed": 1}).body["observation"]["text"]
    assert ask(f"{server.url}/step", {"action": {}}).status == 400
    assert ask(f"{server.url}/mcp", {}).body["jsonrpc"] == "2.0"

    seeded = ask(f"{server.url}/seed_session", {"seed": 14}).body
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "look", "arguments": {}}}
    answer = ask(f"{server.url}{seeded['mcp']['url_path']}", call, **seeded["mcp"]["headers"]).body
    assert "Task: cartpole" in answer["result"]["content"][0]["text"]
    assert ask(f"{server.url}/mcp", call).body["result"]["isError"] is True
