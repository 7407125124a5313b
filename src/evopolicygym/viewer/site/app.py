"""The viewer's site: read-only, behind a token; it serves documents and the pages' static files.

Headers of every response forbid loading anything from other origins and running scripts other than static files.
"""

import socket
from collections.abc import Mapping
from types import MappingProxyType

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evopolicygym.core.errors import EvoPolicyGymError, UsageError
from evopolicygym.core.strict_json import dumps
from evopolicygym.serving.guard import Guard, Refusal
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

    async def page(request: Request) -> Response:
        return access.entrance(request) or Response(static_files()["index.html"], media_type=TYPES[".html"])

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
    return _with_headers(Guard(app, access.admit, _refused, max_body=0, has_pages=True))


def _with_headers(app: ASGIApp) -> ASGIApp:
    """Return the application with the site's headers in every response."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await app(scope, receive, send_with_headers)

    return answer


def _refused(scope: Scope, refusal: Refusal) -> Response:
    """Return the answer to a request that the guard refuses."""
    match refusal.reason:
        case "token":
            return refused_page() if scope["path"] == "/" else _problem(REFUSED, 403)
        case "host":
            return _problem("Requests from elsewhere are not answered; open the address that view printed.", 403)
        case _:
            return _problem(refusal.message, refusal.http_status)


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
