"""OpenEnv's wire: one WebSocket is one client, which resets and steps sessions; and what its tools read by HTTP.

In: ``{"type": "reset" | "step" | "state" | "close" | "mcp", "data": ...}``, out: one message each, in order. A step is
an action with its arguments, or a model's text. A reset without a seed draws one, and says which in ``metadata``. A
reset waits for room as any session does; what is played longer than the server's ``wait_s`` is fetched by a look, so
that no step outlasts its client's patience. A session ends with its socket, and with the next reset.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from evopolicygym.core import strict_json
from evopolicygym.core.errors import EvoPolicyGymError, MissingExtra, RequestRefused, UsageError
from evopolicygym.core.strict_json import dumps
from evopolicygym.serving.body import json_response, read_body
from evopolicygym.training.actions import TOOLS
from evopolicygym.training.draw import LARGEST_SEED, parse_seed
from evopolicygym.training.session import Outcome, TrainingSession
from evopolicygym.training.sessions import Sessions
from evopolicygym.version import __version__

NAME = "evopolicygym"
DESCRIPTION = "Improve a policy through feedback, under a budget of episodes; the score is hidden and normalised."
HAS_WEBSOCKETS = find_spec("websockets") is not None
"""Whether uvicorn can serve WebSockets here."""
PREVIEWED = 100
"""Tasks of a split that are listed; there is one for each seed."""
TEXT = {"type": "string"}
ACTION_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "title": "An action with its arguments, or a text that may hold several",
    "properties": {
        "action": {"type": "string", "enum": list(TOOLS)},
        "arguments": {"type": "object"},
        "text": TEXT,
    },
}
OBSERVATION_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "text": TEXT,
        "rewards": {"type": "object", "additionalProperties": {"type": "number"}},
    },
    "required": ["text", "rewards"],
}
STATE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"episode_id": TEXT, "step_count": {"type": "integer"}},
    "required": ["step_count"],
}
SCHEMA = {"action": ACTION_SCHEMA, "observation": OBSERVATION_SCHEMA, "state": STATE_SCHEMA}
PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMETERS = -32700, -32600, -32601, -32602
"""Error codes of JSON-RPC."""
MCP_VERSION = "2025-06-18"
BODY_S = 60.0
"""Seconds within which a body must arrive."""


class OpenEnvWire:
    """The routes of OpenEnv's wire over a server's sessions."""

    def __init__(self, sessions: Sessions, splits: list[str], session_id: Callable[[Request], str]) -> None:
        """``splits`` are what sessions are drawn from; ``session_id`` finds the session that a request names."""
        self._sessions, self._splits, self._session_id = sessions, splits, session_id

    @property
    def routes(self) -> list[BaseRoute]:
        """All routes."""
        answers: dict[str, object] = {
            "/health": {"status": "healthy"},
            "/metadata": {"name": NAME, "description": DESCRIPTION, "version": __version__},
            "/schema": SCHEMA,
            "/openapi.json": openapi(),
            "/state": {"episode_id": None, "step_count": 0},
            "/list_environments": [NAME],
            f"/{NAME}/splits": [{"name": name, "type": _split_type(name)} for name in self._splits],
        }
        tasks = {"tasks": _task_list, "num_tasks": _task_count, "task": _task_at, "task_range": _task_range}
        return [
            *(Route(path, _constant(answer), methods=["GET"]) for path, answer in answers.items()),
            *(Route(f"/{NAME}/{path}", _from_body(answer), methods=["POST"]) for path, answer in tasks.items()),
            Route("/reset", self._reset, methods=["POST"]),
            Route("/step", _without_a_session, methods=["POST"]),
            Route("/mcp", self._mcp, methods=["POST"]),
            WebSocketRoute("/ws", self._serve) if HAS_WEBSOCKETS else Route("/ws", _without_websockets),
        ]

    async def _reset(self, request: Request) -> Response:
        """Answer a session's first observation without keeping the session: HTTP has none on this wire."""
        try:
            seed = (await json_body(request)).get("seed")
            session = await self._sessions.open(_random_seed() if seed is None else seed)
        except EvoPolicyGymError as error:
            return json_response({"error": str(error)}, 400 if isinstance(error, UsageError) else 503)
        self._sessions.close(session.id, "a reset by HTTP keeps no session")
        return json_response(_first_observation(session))

    async def _mcp(self, request: Request) -> Response:
        """Answer a message of the Model Context Protocol; tools act in the session that the request names."""
        try:
            message = strict_json.decode(await request.body() or b"{}")
        except strict_json.NotStrict:
            return json_response(_rpc_error(None, PARSE_ERROR, "The message is not JSON."))

        async def act(name: str, arguments: Mapping[str, Any]) -> Outcome:
            with self._sessions.in_use(self._session_id(request)) as session:
                return await self._sessions.step(session, {"action": name, "arguments": arguments}, None)

        answer = await answer_rpc(message, act)
        return Response(status_code=202) if answer is None else json_response(answer)

    async def _serve(self, socket: WebSocket) -> None:
        """Serve one client until it leaves."""
        await socket.accept()
        client = _Client(self._sessions)
        try:
            while True:
                answer = await client.answer(await socket.receive_text())
                if answer is None:
                    await socket.close()
                    return
                await socket.send_text(dumps(answer))
        except (WebSocketDisconnect, RuntimeError, KeyError):  # it left, also while it was answered; bytes, not text
            pass
        finally:
            client.leave()
            with suppress(RuntimeError):
                await socket.close()


class _Client:
    """A client of one socket."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._session_id = ""
        self._episode_id: str | None = None
        self._steps = 0

    async def answer(self, text: str) -> dict[str, Any] | None:
        """Return the answer to a message; None to end. Its errors leave the session as it was."""
        try:
            message = strict_json.decode(text)
        except strict_json.NotStrict as error:
            return _error("INVALID_JSON", str(error))
        kind = message.get("type") if isinstance(message, dict) else None
        data = message.get("data", {}) if isinstance(message, dict) else {}
        answers = {"reset": self._reset, "step": self._step, "state": self._state, "mcp": self._mcp}
        if kind == "close":
            return None
        if kind not in answers:
            return _error("UNKNOWN_TYPE", f"Invalid type: expected {', '.join(answers)} or close, got {kind!r}.")
        if not isinstance(data, dict):
            return _error("VALIDATION_ERROR", "Invalid data: expected an object.")
        try:
            return await answers[kind](data)
        except UsageError as error:
            return _error("VALIDATION_ERROR", str(error))
        except RequestRefused as refused:
            is_full = refused.http_status == 503  # noqa: PLR2004 - as sessions refuse without room
            return _error("CAPACITY_REACHED" if is_full else "SESSION_ERROR", str(refused))
        except EvoPolicyGymError as error:
            return _error("FACTORY_ERROR" if kind == "reset" else "EXECUTION_ERROR", str(error))

    def leave(self) -> None:
        """Close the session."""
        if self._session_id:
            self._sessions.close(self._session_id, "its socket was closed, or reset")

    async def _reset(self, data: dict[str, Any]) -> dict[str, Any]:
        given, episode_id = data.get("seed"), data.get("episode_id")
        seed = _random_seed() if given is None else parse_seed(given)
        if episode_id is not None and not isinstance(episode_id, str):
            raise UsageError(f"Invalid episode_id: expected text, got {str(episode_id)[:60]!r}.")
        self.leave()
        self._session_id = ""
        session = await self._sessions.open(seed)
        self._session_id, self._episode_id, self._steps = session.id, episode_id or session.id, 0
        return {"type": "observation", "data": _first_observation(session)}

    async def _step(self, data: dict[str, Any]) -> dict[str, Any]:
        outcome = await self._act(data)
        self._steps += 1
        return {
            "type": "observation",
            "data": {
                "observation": {"text": outcome.text, "rewards": dict(outcome.rewards)},
                "reward": outcome.reward,
                "done": outcome.done,
                "metadata": {},
            },
        }

    async def _act(self, step: Mapping[str, Any]) -> Outcome:
        if not self._session_id:
            raise UsageError("There is no session: reset first.")
        with self._sessions.in_use(self._session_id) as session:
            return await self._sessions.step(session, step, None)

    async def _state(self, _: dict[str, Any]) -> dict[str, Any]:
        document: dict[str, Any] = {}
        if self._session_id:
            with self._sessions.in_use(self._session_id) as session:
                document = session.document
        return {"type": "state", "data": {**document, "episode_id": self._episode_id, "step_count": self._steps}}

    async def _mcp(self, data: dict[str, Any]) -> dict[str, Any]:
        async def act(name: str, arguments: Mapping[str, Any]) -> Outcome:
            return await self._act({"action": name, "arguments": arguments})

        return {"type": "mcp", "data": await answer_rpc(data, act) or {}}


async def json_body(request: Request) -> dict[str, Any]:
    """Return a request's body, empty if it has none; raise ``UsageError`` for anything but a JSON object."""
    content = await read_body(request, BODY_S)
    try:
        body = strict_json.decode(content or b"{}")
    except strict_json.NotStrict as error:
        raise UsageError(f"Invalid body: expected JSON: {error}.") from error
    if not isinstance(body, dict):
        raise UsageError("Invalid body: expected a JSON object.")
    return body


async def answer_rpc(
    message: object, act: Callable[[str, Mapping[str, Any]], Awaitable[Outcome]]
) -> dict[str, Any] | None:
    """Answer a message of the Model Context Protocol; None for a notification, which has no answer."""
    if not isinstance(message, dict) or not isinstance(method := message.get("method"), str):
        return _rpc_error(None, INVALID_REQUEST, "Invalid message: expected an object with a method.")
    number, given = message.get("id"), message.get("params") or {}
    if number is None:
        return None
    result: dict[str, Any]
    match method:
        case "initialize":
            version = given.get("protocolVersion") if isinstance(given, dict) else None
            server = {"name": NAME, "version": __version__}
            result = {"protocolVersion": version or MCP_VERSION, "capabilities": {"tools": {}}, "serverInfo": server}
        case "ping":
            result = {}
        case "tools/list":
            result = {
                "tools": [
                    {"name": name, "description": tool.meaning, "inputSchema": tool.schema}
                    for name, tool in TOOLS.items()
                ]
            }
        case "tools/call" if isinstance(given, dict) and isinstance(given.get("name"), str):
            try:
                outcome = await act(given["name"], given.get("arguments") or {})
                result = {"content": [{"type": "text", "text": outcome.text}], "isError": False}
            except EvoPolicyGymError as error:
                result = {"content": [{"type": "text", "text": str(error)}], "isError": True}
        case "tools/call":
            return _rpc_error(number, INVALID_PARAMETERS, "Invalid parameters: expected name and arguments.")
        case _:
            return _rpc_error(number, UNKNOWN_METHOD, f"There is no method {method[:60]!r}.")
    return {"jsonrpc": "2.0", "id": number, "result": result}


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document: the paths alone."""
    gets = ("/health", "/metadata", "/schema", "/state", "/list_environments", f"/{NAME}/splits")
    posts = ("/reset", "/step", "/mcp", *(f"/{NAME}/{name}" for name in ("tasks", "num_tasks", "task", "task_range")))
    answers = {"responses": {"200": {"description": "The answer, as JSON"}}}
    paths = {**{path: {"get": answers} for path in gets}, **{path: {"post": answers} for path in posts}}
    return {
        "openapi": "3.1.0",
        "info": {"title": NAME, "description": DESCRIPTION, "version": __version__},
        "paths": paths,
        "components": {"schemas": {name.capitalize(): schema for name, schema in SCHEMA.items()}},
    }


def _first_observation(session: TrainingSession) -> dict[str, Any]:
    return {
        "observation": {"text": session.task, "rewards": {}},
        "reward": 0.0,
        "done": False,
        "metadata": session.drawn.document,
    }


def _random_seed() -> int:
    return secrets.randbelow(1 << 31)


def _split_type(name: str) -> str:
    return "train" if name == "train" else "test"


def _constant(answer: object) -> Callable[[Request], Awaitable[Response]]:
    async def respond(_: Request) -> Response:
        return json_response(answer)

    return respond


def _from_body(answer: Callable[[Mapping[str, Any]], object]) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        try:
            return json_response(answer(await json_body(request)))
        except UsageError as error:
            return json_response({"detail": str(error)}, 400)

    return respond


def _task_list(_: Mapping[str, Any]) -> object:
    return {"tasks": [{"seed": seed} for seed in range(PREVIEWED)], "env_name": NAME}


def _task_count(_: Mapping[str, Any]) -> object:
    return {"num_tasks": LARGEST_SEED + 1}


def _task_at(body: Mapping[str, Any]) -> object:
    return {"task": {"seed": _index(body.get("index"))}}


def _task_range(body: Mapping[str, Any]) -> object:
    first, last = _index(body.get("start") or 0), body.get("stop")
    end = min(_index(first + PREVIEWED if last is None else last), first + PREVIEWED)
    return {"tasks": [{"seed": seed} for seed in range(first, end)]}


def _index(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_SEED:
        raise UsageError(f"Invalid task index: expected an integer from 0, got {str(value)[:60]!r}.")
    return value


async def _without_a_session(_: Request) -> Response:
    return json_response({"detail": "A step needs a session: connect to /ws, and reset there."}, 400)


async def _without_websockets(_: Request) -> Response:
    return json_response({"error": str(MissingExtra("OpenEnv's wire", "training", "websockets"))}, 501)


def _error(code: str, message: str) -> dict[str, Any]:
    return {"type": "error", "data": {"message": message, "code": code}}


def _rpc_error(number: object, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}
