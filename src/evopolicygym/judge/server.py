"""The judge's HTTP interface to a session.

Every path begins with the run's token; other requests are rejected. Bodies are JSON only, requests from browsers are
rejected, and no answer contains a traceback, a path or a version. A rejected request writes nothing to disk or to a
log. Answers about submissions come from the event log, so that files that an agent changed in its workspace have no
effect on them.
"""

import asyncio
import base64
import re
import secrets
import socket
from collections.abc import Collection, Mapping
from typing import Any, Self

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from evopolicygym.core import regular_file, strict_json
from evopolicygym.core.errors import RecordError, RefusalStatus, RequestRefused, StorageError
from evopolicygym.core.run import SubmissionState
from evopolicygym.core.score import estimate
from evopolicygym.core.shortage import shortage_error
from evopolicygym.core.strict_json import dumps
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.core.text import printable
from evopolicygym.judge.feedback import first_visible, said_with, summary, visible
from evopolicygym.judge.films import parse_stills
from evopolicygym.judge.request import parse_check, parse_empty, parse_submit
from evopolicygym.judge.rollouts import trial_answer
from evopolicygym.judge.session import JudgeSession
from evopolicygym.judge_client.address import JudgeAddress
from evopolicygym.records import task_text
from evopolicygym.records.paths import SUMMARY, RunPaths
from evopolicygym.serving.body import BodyRefused, json_response, read_body
from evopolicygym.serving.connection import Connection
from evopolicygym.serving.guard import Guard, Refusal, is_secret
from evopolicygym.serving.http_server import Server, disable_uvicorn_logs

MAX_BODY = 64 * 1024
"""Bytes of a request's body."""
UNAVAILABLE = 503


def refusal_body(refused: RequestRefused) -> bytes:
    """Return the body of a refusal."""
    return dumps({"status": refused.status, "error": {"message": str(refused)}}).encode("utf-8", "replace")


class JudgeConnection(Connection):
    """A connection whose refusals are the judge's."""

    def refusal(self, http_status: int, message: str) -> bytes:
        """Return the body of a refusal."""
        status = RefusalStatus.UNAVAILABLE if http_status == UNAVAILABLE else RefusalStatus.INVALID_REQUEST
        return refusal_body(RequestRefused(status, message, http_status))


PLAYING = "playing"
"""A submission's status until its feedback is in place."""
MAX_SUMMARY = 1 << 24
"""Bytes of a ``summary.json`` that are read."""


def receipt(session: JudgeSession, index: int) -> dict[str, Any]:
    """Return a submission as the judge's JSON answer; its summary is null until its feedback is in place."""
    submission = session.state.submissions[index]
    shown, in_place = session.state.shown(submission), session.in_place(submission)
    return {
        **_status(shown, in_place=in_place),
        "progress": session.progress(submission),
        **said_with(submission.charged),
        "summary": _summary(session, shown) if in_place else None,
    }


def lines(session: JudgeSession) -> list[dict[str, Any]]:
    """Return all submissions in short form."""
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
    """Return a submission's status, and in how many episodes the policy failed (null if none was played yet)."""
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
    """Return the films of the summary on disk, which the event log lacks; None if the agent damaged it."""
    try:
        return strict_json.decode(regular_file.read(paths.published_feedback(index) / SUMMARY, MAX_SUMMARY))["films"]
    except (OSError, RecordError, strict_json.NotStrict, TypeError, LookupError):
        return None


JSON_TYPES = ("application/json", "application/x-www-form-urlencoded", "")
"""Content types accepted as JSON: its own, and the defaults of urllib and curl. A browser may send the second too, but
only with an Origin, which is rejected."""

INDEX = re.compile(r"\d{1,9}", re.ASCII)
"""A submission's index in a path."""

disable_uvicorn_logs()


class JudgeServer:
    """Serves one session on the loopback interface, and on further sockets."""

    def __init__(self, session: JudgeSession) -> None:
        """Start to serve."""
        self._token = secrets.token_urlsafe(24)
        self._hosts: set[str] = set()
        guard = Guard(_application(session), self._without_token, _refused, MAX_BODY, self._hosts)
        self._server = Server(guard, "judge", JudgeConnection)
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = self.serve(listener)
        """The judge's address on the loopback interface."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def serve(self, listener: socket.socket, hosts: Collection[str] = ()) -> JudgeAddress:
        """Serve on another listening socket and accept these host names; return the address."""
        self._hosts.update(hosts)
        return JudgeAddress(f"{self._server.serve(listener)}/{self._token}")

    def _without_token(self, scope: Scope) -> Scope | None:
        """Return a request without the token that its path begins with; None for another path."""
        given, _, path = scope["path"].removeprefix("/").partition("/")
        return {**scope, "path": f"/{path}"} if is_secret(given, self._token) else None

    def close(self) -> None:
        """Stop serving; pending requests are cut off."""
        self._server.close()


def _refused(_: Scope, refusal: Refusal) -> Response:
    """Return the answer to a request that the guard refuses; without the token there is no judge."""
    if refusal.reason == "token":
        return _refusal(_no_such_call(404))
    return _refusal(RequestRefused(RefusalStatus.INVALID_REQUEST, refusal.message, refusal.http_status))


def _application(session: JudgeSession) -> Starlette:
    publications = _Publications(session)

    async def info(_: Request) -> Response:
        return json_response(task_text.info(visible(session.state), session.rollouts.executor.info, session.rules))

    async def task(_: Request) -> Response:
        return PlainTextResponse(task_text.task_text(visible(session.state)), media_type="text/markdown")

    async def charged(request: Request) -> tuple[int, bool]:
        """Return a submission's index and whether to wait for it; frees the request's body before the wait."""
        submit_request = parse_submit(await _json_body(request))
        submission = await run_in_threadpool(session.accept, submit_request)
        return submission.index, submit_request.wait

    async def submit(request: Request) -> Response:
        index, wait = await charged(request)
        if wait:
            await publications.wait(index, request)
        return json_response(receipt(session, index), 200 if wait else 202)

    async def submissions(_: Request) -> Response:
        return json_response({"submissions": lines(session)})

    async def submission(request: Request) -> Response:
        return json_response(receipt(session, _submit_index(request, session)))

    async def finish(request: Request) -> Response:
        parse_empty(await _json_body(request, empty={}), "finishing")
        await run_in_threadpool(session.finish)
        return json_response({"status": "closed"})

    routes = [
        Route("/info", info, methods=["GET"]),
        Route("/task", task, methods=["GET"]),
        Route("/submit", submit, methods=["POST"]),
        Route("/submissions", submissions, methods=["GET"]),
        Route("/submissions/{index}", submission, methods=["GET"]),
        *_policy_routes(session),
        Route("/finish", finish, methods=["POST"]),
    ]

    async def on_error(_: Request, error: Exception) -> Response:
        if shortage := shortage_error(error):
            session.fail(shortage)
            return _stopped()
        if isinstance(error, RequestRefused):
            return _refusal(error)
        raise error

    handlers: dict[Any, Any] = {
        RequestRefused: on_error,
        OSError: on_error,
        RuntimeError: on_error,
        RecordError: _on_stop,
        StorageError: _on_stop,
        404: _on_unknown,
        405: _on_unknown,
    }
    application = Starlette(routes=routes, exception_handlers=handlers)
    application.router.redirect_slashes = False
    return application


def _policy_routes(session: JudgeSession) -> list[Route]:
    """Return the routes that concern the policy alone and charge nothing."""

    async def policy(request: Request) -> Response:
        index = _submit_index(request, session)
        return json_response(_files(session, index, await run_in_threadpool(session.policy_of, index)))

    async def check(request: Request) -> Response:
        settings = parse_check(await _json_body(request, empty={}))
        trial = await run_in_threadpool(session.try_policy, settings)
        return json_response(trial_answer(trial, session.trials.left))

    async def restore(request: Request) -> Response:
        parse_empty(await _json_body(request, empty={}), "restoring")
        index = _submit_index(request, session)
        return json_response(_files(session, index, await run_in_threadpool(session.restore_policy, index)))

    async def frames(request: Request) -> Response:
        index = _submit_index(request, session)
        asked = parse_stills(*(request.query_params.get(name, "") for name in ("episode", "steps")))
        stills = await run_in_threadpool(session.frames, index, *asked)
        pictures = {str(step): base64.b64encode(picture).decode() for step, picture in stills.items()}
        return json_response({"submit_id": index - first_visible(session.state), "frames": pictures})

    return [
        Route("/submissions/{index}/frames", frames, methods=["GET"]),
        Route("/submissions/{index}/restore", restore, methods=["POST"]),
        Route("/submissions/{index}/policy", policy, methods=["GET"]),
        Route("/check", check, methods=["POST"]),
    ]


def _files(session: JudgeSession, index: int, files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the files of a submission's policy as the judge's JSON answer, in base64."""
    contents = {path: base64.b64encode(content).decode() for path, content in files.items()}
    return {"submit_id": index - first_visible(session.state), "files": contents}


def _submit_index(request: Request, session: JudgeSession) -> int:
    """Return the submission's index in a path; raise ``RequestRefused`` if there is no such submission."""
    index, state = str(request.path_params["index"]), session.state
    if not INDEX.fullmatch(index) or int(index) >= len(visible(state).submissions):
        raise RequestRefused(RefusalStatus.INVALID_REQUEST, f"There is no submission {index[:20]}.", 404)
    return first_visible(state) + int(index)


class _Publications:
    """One future for each awaited submission, shared by all requests that wait for it."""

    def __init__(self, session: JudgeSession) -> None:
        self._session = session
        self._futures: dict[int, asyncio.Future[None]] = {}

    async def wait(self, index: int, request: Request) -> None:
        """Return when a submission's feedback is in place or the client has left; raise if the run was stopped."""
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
            self._futures[index].add_done_callback(_retrieve_exception)
        return self._futures[index]


def _retrieve_exception(published: "asyncio.Future[None]") -> None:
    """Retrieve a future's exception, which asyncio logs otherwise if all waiting requests have left."""
    if not published.cancelled():
        published.exception()


async def _left(request: Request) -> None:
    """Return when the client has disconnected; its body was read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _json_body(request: Request, empty: object = None) -> object:
    """Return a request's decoded body, or ``empty`` if it is not None and there is no body."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in JSON_TYPES:
        raise RequestRefused(RefusalStatus.INVALID_REQUEST, "The body must be application/json.", 415)
    try:
        body = await read_body(request)
    except BodyRefused as refused:
        raise RequestRefused(RefusalStatus.INVALID_REQUEST, str(refused), refused.http_status) from None
    if not body and empty is not None:
        return empty
    try:
        return strict_json.decode(body)
    except strict_json.NotStrict as error:
        raise RequestRefused(RefusalStatus.INVALID_REQUEST, f"The body is not strict JSON: {error}.") from None


def _refusal(refused: RequestRefused) -> Response:
    return Response(refusal_body(refused), refused.http_status, media_type="application/json")


def _no_such_call(status: int) -> RequestRefused:
    return RequestRefused(RefusalStatus.INVALID_REQUEST, "There is no such call.", status)


async def _on_stop(_: Request, __: Exception) -> Response:
    return _stopped()


def _stopped() -> Response:
    return _refusal(RequestRefused(RefusalStatus.UNAVAILABLE, "The run was stopped; nothing is lost.", 503))


async def _on_unknown(_: Request, error: Exception) -> Response:
    return _refusal(_no_such_call(getattr(error, "status_code", 404)))
