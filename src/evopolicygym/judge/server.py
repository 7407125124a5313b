"""The judge's endpoint: carries requests to the session and answers back, and decides nothing.

Every path begins with the run's token; nothing answers without it. Bodies are JSON only, a browser's requests are
refused, and no answer holds a traceback, a path or a version. A refusal writes nothing, neither to disk nor to a log.
Submissions are answered from the record: what an agent has made of the files in its workspace changes no answer.
"""

import asyncio
import base64
import re
import secrets
import socket
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Any, Self

import h11
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from evopolicygym.core import regular_file, strict_json
from evopolicygym.core.agent import JudgeAddress
from evopolicygym.core.errors import RecordError, RefusalStatus, RequestRefused, StorageError
from evopolicygym.core.run import SubmissionState
from evopolicygym.core.score import estimate
from evopolicygym.core.strict_json import dumps
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.core.text import printable
from evopolicygym.judge import task_text
from evopolicygym.judge.feedback import first_visible, said_with, summary, visible
from evopolicygym.judge.films import parse_stills
from evopolicygym.judge.request import parse_check, parse_empty, parse_submit
from evopolicygym.judge.rollouts import trial_answer
from evopolicygym.judge.session import JudgeSession
from evopolicygym.records.paths import SUMMARY, RunPaths
from evopolicygym.serving import http_server
from evopolicygym.serving.http_server import BodyRefused, Server, disable_uvicorn_logs, read_body

MAX_BODY = 64 * 1024
"""Bytes of a request's body."""
MAX_CONNECTIONS = 256
"""Connections that stand open at a time, and requests that are answered, for each socket of the judge's."""
REQUEST_S = 10.0
"""Seconds within which a request must have come, from its connection's first moment or from the answer before."""


def refusal_body(refused: RequestRefused) -> bytes:
    """Return what the body of a refusal says."""
    return dumps({"status": refused.status, "error": {"message": str(refused)}}).encode("utf-8", "replace")


def _send_at_once(connection: socket.socket) -> None:
    """Have no answer's second part wait for the first to be acknowledged, which takes a client 40 ms."""
    if connection.family in {socket.AF_INET, socket.AF_INET6}:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class Connection(H11Protocol):
    """Serves HTTP on one connection; a client that is slow, endless or unreadable is answered and let go."""

    _deadline: asyncio.TimerHandle
    _since = 0.0
    """When the present request began to be waited for."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's own
        """Begin to wait for a request, at the cost of whoever waits longest where too many do."""
        super().connection_made(transport)
        _send_at_once(transport.get_extra_info("socket"))
        self._wait_for_request()
        if len(self.tasks) > MAX_CONNECTIONS:  # of clients that have left, whose submissions are not yet charged
            self._refuse_for_now()
        elif len(self.connections) > MAX_CONNECTIONS:
            self._evict_oldest()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._deadline.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request, unless the rest of this one is more than anybody reads."""
        super().on_response_complete()
        self._deadline.cancel()
        if self.conn.their_state is h11.SEND_BODY and not self._body_is_short():
            self.transport.close()
        if not self.transport.is_closing():
            self._wait_for_request()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the words are ours
        """Refuse what is no HTTP."""
        self._refuse(RequestRefused(RefusalStatus.INVALID_REQUEST, "This is no HTTP request that can be read."))

    def _wait_for_request(self) -> None:
        self._since = self.loop.time()
        self._deadline = self.loop.call_later(REQUEST_S, self._on_timeout)

    def _waits_for_request(self) -> bool:
        """Return whether the present request has not come as a whole."""
        return self.conn.their_state in {h11.IDLE, h11.SEND_BODY}

    def _on_timeout(self) -> None:
        if self._waits_for_request():
            self._refuse(RequestRefused(RefusalStatus.INVALID_REQUEST, "The request took too long to come.", 408))

    def _evict_oldest(self) -> None:
        """Let the oldest connection go that brings no request, this one where all others do."""
        waiting: list[Connection] = [each for each in self._others() if each._waits_for_request()]  # noqa: SLF001 - ours
        if waiting:
            min(waiting, key=lambda each: each._since).transport.abort()  # noqa: SLF001 - as above
        else:
            self._refuse_for_now()

    def _others(self) -> "list[Connection]":
        return [each for each in self.connections if isinstance(each, Connection) and each is not self]

    def _body_is_short(self) -> bool:
        lengths = [value for name, value in self.headers if name == b"content-length"]
        return bool(lengths) and int(lengths[0]) <= MAX_BODY

    def _refuse_for_now(self) -> None:
        message = f"{MAX_CONNECTIONS} connections are being answered; ask again later."
        self._refuse(RequestRefused(RefusalStatus.UNAVAILABLE, message, 503))

    def _refuse(self, refused: RequestRefused) -> None:
        """Answer at once, where no answer has begun, and close."""
        if self.transport.is_closing():
            return
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            body = refusal_body(refused)
            headers = [
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
                ("connection", "close"),
            ]
            reason = HTTPStatus(refused.http_status).phrase
            events: list[Any] = [
                h11.Response(status_code=refused.http_status, headers=headers, reason=reason),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ]
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


PLAYING = "playing"
"""A submission's status until its feedback is in place."""
MAX_SUMMARY = 1 << 24
"""Bytes of a ``summary.json`` that are read."""


def receipt(session: JudgeSession, index: int) -> dict[str, Any]:
    """Return what is shown of one submission; its summary is null until its feedback is in place."""
    submission = session.state.submissions[index]
    shown, in_place = session.state.shown(submission), session.in_place(submission)
    return {
        **_status(shown, in_place=in_place),
        "progress": session.progress(submission),
        **said_with(submission.charged),
        "summary": _summary(session, shown) if in_place else None,
    }


def lines(session: JudgeSession) -> list[dict[str, Any]]:
    """Return what is shown of all submissions, a short line each."""
    state = session.state
    return [_line(session, submission) for submission in state.submissions[first_visible(state) :]]


def _line(session: JudgeSession, submission: SubmissionState) -> dict[str, Any]:
    returns = submission.returns if submission.status is SubmissionStatus.OK else ()
    return {
        **_status(session.state.shown(submission), in_place=session.in_place(submission)),
        "n_episodes": len(submission.episodes),
        "progress": session.progress(submission),
        "env_instances": list(submission.charged.env_instances),
        **said_with(submission.charged),
        "mean_return": estimate(returns).mean if returns else None,
    }


def _status(submission: SubmissionState, *, in_place: bool) -> dict[str, Any]:
    """Return its status and in how many episodes the policy failed: null until it is over, or where none was played."""
    played = in_place and submission.status is SubmissionStatus.OK
    return {
        "submit_id": submission.index,
        "status": submission.status.value if in_place else PLAYING,
        "failed_episodes": submission.failed if played else None,
        "trouble": printable(submission.trouble) or None if in_place else None,
    }


def _summary(session: JudgeSession, submission: SubmissionState) -> dict[str, Any]:
    assert submission.published is not None  # noqa: S101 - for the type checker; it is in place
    document = summary(session.state, submission, submission.published)
    if submission.charged.films and submission.status is SubmissionStatus.OK:
        document["films"] = _films(session.writer.paths, submission.index)
    return document


def _films(paths: RunPaths, index: int) -> object:
    """Return what the summary on disk says of films, as the journal doesn't; None where the agent has spoilt it."""
    try:
        return strict_json.decode(regular_file.read(paths.published_feedback(index) / SUMMARY, MAX_SUMMARY))["films"]
    except (OSError, RecordError, strict_json.NotStrict, TypeError, LookupError):
        return None


JSON_TYPES = ("application/json", "application/x-www-form-urlencoded", "")
"""Content types taken as JSON: its own, and what urllib and curl say when they are given nothing. A browser could send
the second too, but never without an Origin, and that is refused."""

INDEX = re.compile(r"\d{1,9}", re.ASCII)
"""A submission's index in a path."""

disable_uvicorn_logs()


class JudgeServer:
    """Serves one session on this machine's loopback, and on sockets that are handed in."""

    def __init__(self, session: JudgeSession) -> None:
        """Begin to serve; the address is known when this returns."""
        token = secrets.token_urlsafe(24)
        self._prefix = f"/{token}"
        self._hosts: set[str] = set()
        self._server = Server(_GuardedJudge(_application(session), token, self._hosts), "judge", Connection)
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = self.serve(listener)
        """Where the judge answers on this machine's loopback."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def serve(self, listener: socket.socket, hosts: Collection[str] = ()) -> JudgeAddress:
        """Answer on a listening socket besides, and requests that name one of these hosts; return where it is."""
        self._hosts.update(hosts)
        return JudgeAddress(f"{self._server.serve(listener)}{self._prefix}")

    def close(self) -> None:
        """Answer no more; requests that wait are cut off."""
        self._server.close()


class _GuardedJudge:
    """Lets through what names this machine or a host that was allowed, comes from no browser, and has the token.

    The rest of the path goes on.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str]) -> None:
        self._app = app
        self._token = token
        self._hosts = hosts
        """Those besides this machine, which may become more."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given, _, path = scope["path"].removeprefix("/").partition("/")
        if not _is_allowed(Headers(scope=scope), self._hosts):
            refused = RequestRefused(RefusalStatus.INVALID_REQUEST, "Requests from elsewhere are not answered.", 403)
            await _refusal(refused)(scope, receive, send)
        elif not http_server.is_secret(given, self._token):
            await _refusal(_no_such_call(404))(scope, receive, send)
        else:
            await self._app({**scope, "path": f"/{path}"}, receive, send)


def _is_allowed(headers: Headers, hosts: Collection[str]) -> bool:
    """Return whether a request names this machine or one of some hosts, and shows no sign of a browser's page."""
    of_page = http_server.has_origin(headers) or not http_server.fetch_site_allowed(headers, http_server.NO_PAGE)
    return http_server.is_for_this_machine(headers, hosts) and not of_page


def _application(session: JudgeSession) -> Starlette:
    grounds, publications = session.rollouts.executor.grounds, _Publications(session)

    async def info(_: Request) -> Response:
        return _answer(task_text.info(visible(session.state), grounds, session.rules))

    async def task(_: Request) -> Response:
        return PlainTextResponse(task_text.task_text(visible(session.state)), media_type="text/markdown")

    async def charged(request: Request) -> tuple[int, bool]:
        """Return a submission's index and whether to wait for it; what was asked is not held while that is awaited."""
        asked = parse_submit(await _json_body(request))
        submission = await run_in_threadpool(session.accept, asked)
        return submission.index, asked.wait

    async def submit(request: Request) -> Response:
        index, wait = await charged(request)
        if wait:
            await publications.wait(index, request)
        return _answer(receipt(session, index), 200 if wait else 202)

    async def submissions(_: Request) -> Response:
        return _answer({"submissions": lines(session)})

    async def submission(request: Request) -> Response:
        return _answer(receipt(session, _submit_index(request, session)))

    async def finish(request: Request) -> Response:
        parse_empty(await _json_body(request, empty={}), "finishing")
        await run_in_threadpool(session.finish)
        return _answer({"status": "closed"})

    routes = [
        Route("/info", info, methods=["GET"]),
        Route("/task", task, methods=["GET"]),
        Route("/submit", submit, methods=["POST"]),
        Route("/submissions", submissions, methods=["GET"]),
        Route("/submissions/{index}", submission, methods=["GET"]),
        *_policy_routes(session),
        Route("/finish", finish, methods=["POST"]),
    ]
    handlers: dict[Any, Any] = {
        RequestRefused: _on_refusal,
        RecordError: _on_stop,
        StorageError: _on_stop,
        404: _on_unknown,
        405: _on_unknown,
    }
    application = Starlette(routes=routes, exception_handlers=handlers)
    application.router.redirect_slashes = False
    return application


def _policy_routes(session: JudgeSession) -> list[Route]:
    """Return the calls that concern the policy alone: nothing is charged."""

    async def policy(request: Request) -> Response:
        index = _submit_index(request, session)
        return _answer(_files(session, index, await run_in_threadpool(session.policy_of, index)))

    async def check(request: Request) -> Response:
        settings = parse_check(await _json_body(request, empty={}))
        trial = await run_in_threadpool(session.try_policy, settings)
        return _answer(trial_answer(trial, session.trials.left))

    async def restore(request: Request) -> Response:
        parse_empty(await _json_body(request, empty={}), "restoring")
        index = _submit_index(request, session)
        return _answer(_files(session, index, await run_in_threadpool(session.restore_policy, index)))

    async def frames(request: Request) -> Response:
        index = _submit_index(request, session)
        asked = parse_stills(*(request.query_params.get(name, "") for name in ("episode", "steps")))
        found = await run_in_threadpool(session.frames, index, *asked)
        pictures = {str(step): base64.b64encode(picture).decode() for step, picture in found.items()}
        return _answer({"submit_id": index - first_visible(session.state), "frames": pictures})

    return [
        Route("/submissions/{index}/frames", frames, methods=["GET"]),
        Route("/submissions/{index}/restore", restore, methods=["POST"]),
        Route("/submissions/{index}/policy", policy, methods=["GET"]),
        Route("/check", check, methods=["POST"]),
    ]


def _files(session: JudgeSession, index: int, files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return what is answered with the files of a submission's policy."""
    contents = {path: base64.b64encode(content).decode() for path, content in files.items()}
    return {"submit_id": index - first_visible(session.state), "files": contents}


def _submit_index(request: Request, session: JudgeSession) -> int:
    """Return the index of the submission that a path names; raise ``RequestRefused`` where there is none."""
    index, state = str(request.path_params["index"]), session.state
    if not INDEX.fullmatch(index) or int(index) >= len(visible(state).submissions):
        raise RequestRefused(RefusalStatus.INVALID_REQUEST, f"There is no submission {index[:20]}.", 404)
    return first_visible(state) + int(index)


class _Publications:
    """One future for each submission that is waited for, however many wait for it and leave again."""

    def __init__(self, session: JudgeSession) -> None:
        self._session = session
        self._futures: dict[int, asyncio.Future[None]] = {}

    async def wait(self, index: int, request: Request) -> None:
        """Return once a submission's feedback is in place or its client has left; raise what stopped the run."""
        published, left = await self._published(index), asyncio.ensure_future(_left(request))
        try:
            await asyncio.wait({published, left}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            left.cancel()
        if published.done():
            published.result()

    async def _published(self, index: int) -> "asyncio.Future[None]":
        source = await run_in_threadpool(self._session.published, index)
        if index not in self._futures:
            self._futures[index] = asyncio.wrap_future(source)
            self._futures[index].add_done_callback(_see)
        return self._futures[index]


def _see(published: "asyncio.Future[None]") -> None:
    """Look at how a future ended, as all who waited for it may have left: what nobody looks at is logged."""
    if not published.cancelled():
        published.exception()


async def _left(request: Request) -> None:
    """Return when a client whose body was read has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _json_body(request: Request, empty: object = None) -> object:
    """Return a request's decoded body, or ``empty`` where it has none and that is allowed."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in JSON_TYPES:
        raise RequestRefused(RefusalStatus.INVALID_REQUEST, "The body must be application/json.", 415)
    try:
        body = await read_body(request, MAX_BODY)
    except BodyRefused as refused:
        raise RequestRefused(RefusalStatus.INVALID_REQUEST, str(refused), refused.http_status) from None
    if not body and empty is not None:
        return empty
    try:
        return strict_json.decode(body)
    except strict_json.NotStrict as error:
        raise RequestRefused(RefusalStatus.INVALID_REQUEST, f"The body is not strict JSON: {error}.") from None


def _answer(content: object, status: int = 200) -> Response:
    return Response(dumps(content), status, media_type="application/json")


def _refusal(refused: RequestRefused) -> Response:
    return Response(refusal_body(refused), refused.http_status, media_type="application/json")


def _no_such_call(status: int) -> RequestRefused:
    return RequestRefused(RefusalStatus.INVALID_REQUEST, "There is no such call.", status)


async def _on_refusal(_: Request, refused: Exception) -> Response:
    if not isinstance(refused, RequestRefused):
        raise refused
    return _refusal(refused)


async def _on_stop(_: Request, __: Exception) -> Response:
    return _refusal(RequestRefused(RefusalStatus.UNAVAILABLE, "The run was stopped; nothing is lost.", 503))


async def _on_unknown(_: Request, error: Exception) -> Response:
    return _refusal(_no_such_call(getattr(error, "status_code", 404)))
