"""``evopolicygym train serve``: one server of training sessions, with several wires to the same ones.

The session wire is that of NeMo Gym's resources servers, which verifiers' built-in taskset speaks too:

- ``POST /seed_session`` with a whole data row, of which ``seed`` counts, opens a session and sets a cookie with its id.
- ``POST /write``, ``/submit``, ``/look`` and ``/finish`` with a tool's arguments act, and answer ``text`` and ``done``.
- ``POST /verify`` with the row and the response waits for the score, answers both with ``reward``, and closes.
- ``POST /act`` with ``action`` and ``arguments``, or with a model's ``text``, answers the rewards of the step, too.
- ``POST /close_session`` closes; ``POST /aggregate_metrics`` answers means over verified rows.

Every answer sets the cookie again, since some clients keep only the latest answer's. The id may also come in the header
``x-session-id``. OpenEnv's wire is in ``training/openenv.py``. ``GET /status`` has numbers for who runs the server.
"""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Self

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from evopolicygym.core.errors import EvoPolicyGymError, RequestRefused, UsageError
from evopolicygym.core.score import mean
from evopolicygym.serving.body import BodyRefused, json_response
from evopolicygym.serving.connection import Connection
from evopolicygym.serving.guard import Guard, Refusal, bearer, is_secret
from evopolicygym.serving.http_server import Server, disable_uvicorn_logs
from evopolicygym.training.actions import TOOLS
from evopolicygym.training.openenv import HAS_WEBSOCKETS, OpenEnvWire, json_body
from evopolicygym.training.session import Outcome
from evopolicygym.training.sessions import SessionFactory, Sessions, TrainingConfig, refusal_of

COOKIE, HEADER = "evopolicygym_session", "x-session-id"
MAX_BODY = 8 << 20
"""Bytes of a request's body: a row with a whole response."""
REAP_S = 5.0
"""Seconds between looks for sessions whose clients are gone."""
METRICS = ("train", "validation", "held_out", "cost")
Answer = Callable[[Request], Awaitable[Response]]

disable_uvicorn_logs()


class TrainingConnection(Connection):
    """A connection to a training server, which has many at once."""

    max_connections = 4096
    request_s = 60.0


class TrainingServer:
    """Serves training sessions at an address until it is closed."""

    def __init__(
        self,
        config: TrainingConfig,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        allow_hosts: Collection[str] = (),
    ) -> None:
        """Start to serve.

        ``token`` is by default drawn; with an empty one, requests need none. ``allow_hosts`` are names by which
        requests may call this machine, besides ``host``.

        Raises ``UsageError`` if it can't listen there, or should listen beyond this machine without a token.
        """
        self.token = secrets.token_urlsafe(24) if token is None else token
        if not self.token and host not in {"127.0.0.1", "localhost"}:
            raise UsageError(f"Invalid host: expected 127.0.0.1 for a server without a token, got {host!r}.")
        try:
            listener = socket.create_server((host, port), backlog=1024)
        except OSError as error:
            raise UsageError(f"The server can't listen on {host}:{port}: {error.strerror}.") from error
        self._factory = SessionFactory.of(config)
        guard = Guard(application(self._factory), self._admit, _refused, MAX_BODY, {host, *allow_hosts})
        self._server = Server(guard, "training", TrainingConnection, has_lifespan=True, websockets=HAS_WEBSOCKETS)
        origin = self._server.serve(listener)
        self.url = f"{origin}/{self.token}" if self.token else origin
        """Where clients find it; the token is a part of the path. Clients may send it as a bearer token instead."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self) -> None:
        """Serve until the server is closed, or for ``KeyboardInterrupt``."""
        self._server.wait()

    def close(self) -> None:
        """Stop serving and playing."""
        self._server.close()
        self._factory.pool.close()

    def _admit(self, scope: Scope) -> Scope | None:
        if not self.token:
            return scope
        given, _, path = scope["path"].removeprefix("/").partition("/")
        if is_secret(given, self.token):
            return {**scope, "path": f"/{path}", "root_path": ""}
        return scope if is_secret(bearer(Headers(scope=scope)), self.token) else None


def _refused(_: Scope, refusal: Refusal) -> Response:
    return json_response({"error": refusal.message}, refusal.http_status)


def application(factory: SessionFactory) -> Starlette:
    """Return the application that serves sessions that ``factory`` opens."""
    wire = SessionWire(factory)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        reaper = asyncio.ensure_future(_reap(wire.sessions))
        try:
            yield
        finally:
            reaper.cancel()
            with suppress(asyncio.CancelledError):
                await reaper
            wire.sessions.close_all()

    openenv = OpenEnvWire(wire.sessions, [factory.config.distribution.split.value], session_id_of)
    return Starlette(routes=[*wire.routes, *openenv.routes], lifespan=lifespan)


async def _reap(sessions: Sessions) -> None:
    while True:
        await asyncio.sleep(REAP_S)
        sessions.reap()


class SessionWire:
    """The routes of the session wire."""

    def __init__(self, factory: SessionFactory) -> None:
        self._factory = factory
        self.sessions = Sessions(factory)

    @property
    def routes(self) -> list[BaseRoute]:
        """All routes."""
        actions = [self._post(f"/{name}", self._tool(name)) for name in TOOLS]
        return [
            self._post("/seed_session", self._seed),
            *actions,
            self._post("/act", self._act),
            self._post("/verify", self._verify),
            self._post("/close_session", self._close),
            self._post("/aggregate_metrics", self._aggregate),
            Route("/status", self._guarded(self._status), methods=["GET"]),
            Route("/session", self._guarded(self._session), methods=["GET"]),
            Route("/task/{seed:int}", self._guarded(self._row), methods=["GET"]),
        ]

    def _post(self, path: str, answer: Answer) -> Route:
        return Route(path, self._guarded(answer), methods=["POST"])

    def _guarded(self, answer: Answer) -> Answer:
        async def guarded(request: Request) -> Response:
            try:
                return await answer(request)
            except BodyRefused as refused:
                return json_response({"error": str(refused)}, refused.http_status)
            except EvoPolicyGymError as error:
                message, status = refusal_of(error)
                return json_response({"error": message}, status)

        return guarded

    async def _seed(self, request: Request) -> Response:
        row = await json_body(request)
        session = await self.sessions.open(_seed_of(row))
        opened = {"session": session.id, "task": session.task, "tools": tool_schemas()}
        mcp = {"server_name": "evopolicygym", "url_path": "/mcp", "transport": "http", "headers": {HEADER: session.id}}
        return _with_cookie(json_response({**opened, "mcp": mcp}), session.id)

    def _tool(self, name: str) -> Answer:
        async def act(request: Request) -> Response:
            step = {"action": name, "arguments": await json_body(request)}
            session_id = session_id_of(request)
            with self.sessions.in_use(session_id) as session:
                outcome = await self.sessions.step(session, step, None)
            return _with_cookie(json_response({"text": outcome.text, "done": outcome.done}), session_id)

        return act

    async def _act(self, request: Request) -> Response:
        """Act for a trainer: by a tool's name or by a text, with the rewards in the answer."""
        body = await json_body(request)
        with self.sessions.in_use(session_id_of(request)) as session:
            return json_response(outcome_document(await self.sessions.step(session, body, _wait_s(body))))

    async def _verify(self, request: Request) -> Response:
        body, session_id = await json_body(request), session_id_of(request)
        result = self.sessions.result(session_id)
        if result is None:
            try:
                result = await self._scored(session_id)
            except RequestRefused:
                raise
            except EvoPolicyGymError as error:
                self.sessions.close(session_id, "it failed, and was masked")
                failed = {"mask_sample": True, "failure_kind": "evopolicygym:fault", "failure_reason": str(error)}
                return _with_cookie(json_response({**body, "reward": 0.0, **failed}), session_id)
        return _with_cookie(json_response({**body, **verification(result)}), session_id)

    async def _scored(self, session_id: str) -> dict[str, Any]:
        """Finish a session if its agent hasn't, wait for its score, and close it."""
        with self.sessions.in_use(session_id) as session:
            if not session.done:
                await self.sessions.act(session, "finish", {}, 0.0)
                await self.sessions.wait_until_settled(session, None)
                await self.sessions.act(session, "look", {}, 0.0)
            document = session.document
        self.sessions.close(session_id, "it was verified")
        return document

    async def _close(self, request: Request) -> Response:
        self.sessions.close(session_id_of(request), "its client closed it")
        return json_response({})

    async def _aggregate(self, request: Request) -> Response:
        body = await json_body(request)
        rows = body.get("verify_responses") or []
        names = ("reward", *METRICS)
        known = [row for row in rows if isinstance(row, dict) and not row.get("mask_sample")]
        means = {name: mean([row.get(name) for row in known]) for name in names} if known else {}
        return json_response(
            {"agent_metrics": means, "key_metrics": {"reward": means.get("reward")}, "group_level_metrics": []}
        )

    async def _status(self, _: Request) -> Response:
        return json_response(self.sessions.status)

    async def _session(self, request: Request) -> Response:
        """Answer what is known of a session, for a trainer; of a closed one, its result."""
        session_id = session_id_of(request)
        if result := self.sessions.result(session_id):
            return json_response(result)
        with self.sessions.in_use(session_id) as session:
            return json_response(session.document)

    async def _row(self, request: Request) -> Response:
        """Answer the data row of a seed."""
        seed = int(request.path_params["seed"])
        return json_response(data_row(seed, await run_in_threadpool(self._factory.task, seed)))


def tool_schemas() -> list[dict[str, Any]]:
    """Return the tools as functions of the Responses API."""
    return [
        {"type": "function", "name": name, "description": tool.meaning, "parameters": tool.schema, "strict": False}
        for name, tool in TOOLS.items()
    ]


def data_row(seed: int, task: str) -> dict[str, Any]:
    """Return the data row of a seed, in the shape that NeMo Gym reads; ``task`` is what its agent reads first."""
    return {
        "responses_create_params": {"input": [{"role": "user", "content": task}], "tools": tool_schemas()},
        "seed": seed,
    }


def verification(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``/verify`` answers of a scored session beside the row: the reward, and numbers that are metrics."""
    worth = document["worth"]
    return {
        "reward": worth["value"],
        **{name: worth[name] for name in METRICS},
        "episodes": document["episodes_spent"],
        "submissions": len(document["submissions"]),
        "curve": document["rewards"],
        "task": document["task"],
        "split": document["split"],
        "session": document["session"],
        "mask_sample": False,
    }


def outcome_document(outcome: Outcome) -> dict[str, Any]:
    """Return an action's outcome as JSON, for a trainer."""
    return {"text": outcome.text, "reward": outcome.reward, "done": outcome.done, "rewards": dict(outcome.rewards)}


def _seed_of(row: Mapping[str, Any]) -> object:
    """Return the seed that a row names; raise ``UsageError`` if it names none."""
    metadata = row.get("verifier_metadata")
    seed = row.get("seed", metadata.get("seed") if isinstance(metadata, dict) else None)
    if seed is None:
        raise UsageError("Missing seed: expected a row with an integer seed, which names its session.")
    return seed


def _wait_s(body: Mapping[str, Any]) -> float | None:
    """Return how long a step may wait; None for the server's own."""
    wait_s = body.get("wait_s")
    if wait_s is not None and (isinstance(wait_s, bool) or not isinstance(wait_s, int | float) or wait_s < 0):
        raise UsageError(f"Invalid wait_s: expected a number from 0, got {str(wait_s)[:60]!r}.")
    return wait_s


def session_id_of(request: Request) -> str:
    """Return the session that a request names by its header or its cookie; raise ``UsageError`` if it names none."""
    if session_id := request.headers.get(HEADER) or request.cookies.get(COOKIE):
        return session_id
    raise UsageError(f"Missing session: expected the cookie that /seed_session sets, or the header {HEADER}.")


def _with_cookie(response: Response, session_id: str) -> Response:
    response.set_cookie(COOKIE, session_id, httponly=True, samesite="strict")
    return response
