"""The viewer's site: read-only, behind a token; it serves documents and the pages' static files.

Headers of every response forbid loading anything from other origins and running scripts other than static files.
"""

import socket
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evopolicygym.core.errors import EvoPolicyGymError, UsageError
from evopolicygym.core.strict_json import dumps
from evopolicygym.serving import http_server
from evopolicygym.viewer.documents.documents import Documents, NoSuchDocument
from evopolicygym.viewer.documents.reading import shown
from evopolicygym.viewer.site.access import REFUSED, Access, refused_page
from evopolicygym.viewer.site.static_files import TYPES, static_files

LARGEST_PORT = 65_535
POLICY = (
    "default-src 'self'; img-src 'self' data:; media-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Mapping[str, str] = MappingProxyType({
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
})  # fmt: skip


def application(documents: Documents, access: Access, settings: Mapping[str, object] | None = None) -> ASGIApp:
    """Return the site; ``settings`` are the initial settings of its pages."""
    settings_text = dumps(settings or {}).encode()

    async def page(_: Request) -> Response:
        return Response(static_files()["index.html"], media_type=TYPES[".html"])

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in static_files():
            return _problem("There is no such file.", 404)
        return Response(static_files()[name], media_type=TYPES[name[name.rindex(".") :]])

    async def initial_settings(_: Request) -> Response:
        return Response(settings_text, media_type="application/json")

    async def data(request: Request) -> Response:
        name = request.path_params["name"]
        try:
            tag = f'"{await run_in_threadpool(documents.tag, name)}"'
            if tag in request.headers.get("if-none-match", ""):
                return Response(status_code=304, headers={"ETag": tag})
            content = await run_in_threadpool(documents.document, name)
        except (NoSuchDocument, UsageError) as error:
            return _problem(str(error), 404)
        except (EvoPolicyGymError, OSError) as error:
            return _problem(str(error), 422)
        return Response(content, media_type="application/json", headers={"ETag": tag})

    async def film(request: Request) -> Response:
        try:
            path = await run_in_threadpool(documents.film, request.path_params["run"], request.path_params["episode"])
        except EvoPolicyGymError as error:
            return _problem(str(error), 404)
        return FileResponse(path) if path and path.is_file() else _problem("There is no such film.", 404)

    routes = [
        Route("/", page),
        Route("/static/{name}", static),
        Route("/data/settings.json", initial_settings),
        Route("/data/{name:path}.json", data),
        Route("/film/{run}/{episode}.mp4", film),
    ]

    async def unknown(_: Request, error: Exception) -> Response:
        return _problem("There is nothing here; pages begin at /.", getattr(error, "status_code", 404))

    app = Starlette(routes=routes, exception_handlers={404: unknown, 405: unknown})
    app.router.redirect_slashes = False
    return _GuardedSite(app, access)


class _GuardedSite:
    """Accepts requests with the token that come from this machine and no other site's page; adds the headers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        answer: Callable[[Scope, Receive, Send], Awaitable[None]] = self._app
        if scope["type"] != "http":
            return
        if not _from_here(Headers(scope=scope), scope):
            answer = _problem("Requests from elsewhere are not answered; open the address that view printed.", 403)
        elif entrance := self._access.entrance(scope):
            answer = entrance
        elif not self._access.is_granted(scope):
            answer = refused_page() if scope["path"] == "/" else _problem(REFUSED, 403)
        await answer(scope, receive, send_with_headers)


def _from_here(headers: Headers, scope: Scope) -> bool:
    """Return whether a request names this site as its host, and comes from one of its pages or from no page."""
    port = scope["server"][1] if scope.get("server") else None
    if not http_server.is_for(headers, port) or http_server.has_other_origin(headers):
        return False
    entered = scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate"
    return entered or http_server.fetch_site_allowed(headers, http_server.OWN_PAGES)


def _problem(message: str, status: int) -> Response:
    return Response(dumps({"error": shown(message)}), status, media_type="application/json")


def open_socket(port: int) -> socket.socket:
    """Return a listening socket on loopback; raise ``UsageError`` if the port is in use."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        if not 0 <= port <= LARGEST_PORT:
            raise UsageError(f"Invalid port: expected 0 (any free one) to {LARGEST_PORT}, got {port}.") from error
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"Port {port} can't be used: {why}. Give another --port, or 0 for any free one.") from error
