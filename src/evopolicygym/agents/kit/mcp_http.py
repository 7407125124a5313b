"""MCP tools over streamable HTTP: one address, and a token that every request carries in its ``Authorization`` header.

The token is kept in the workspace, so that an editor's configuration stays valid when the server is started again.
"""

import secrets
import shlex
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from evopolicygym.agents.kit.mcp_server import judge_tools
from evopolicygym.agents.kit.outside_agent import OutsideAccess, address_file
from evopolicygym.core import regular_file
from evopolicygym.serving import http_server

ENVIRONMENT_FILE = "mcp.env"
"""Lies in the workspace; it holds the address and the token."""
URL, TOKEN = "EVOPOLICYGYM_MCP_URL", "EVOPOLICYGYM_MCP_TOKEN"
PATH = "/mcp"
MAX_BODY = 64 * 1024
"""Bytes of a request's body, as of the judge's."""
MAX_REQUESTS = 64
"""Requests that are answered at a time."""
MAX_ENVIRONMENT_FILE = 1 << 14


def serve_http(
    workspace: Path, listen: str, allow_hosts: Collection[str], announce: Callable[[str, Path], object]
) -> None:
    """Serve the tools of a workspace at ``HOST:PORT`` until interrupted.

    ``announce`` is called with the address, and the file that holds the token. Raises ``UsageError`` where nothing can
    listen there.
    """
    with OutsideAccess(listen, allow_hosts=allow_hosts).open() as access:
        assert access.tcp is not None  # noqa: S101 - for the type checker; ``listen`` is not empty
        url = f"http://{access.host}:{access.tcp.getsockname()[1]}{PATH}"
        token = _read_token(workspace / ENVIRONMENT_FILE) or secrets.token_urlsafe(24)
        file = address_file(workspace / ENVIRONMENT_FILE, {URL: url, TOKEN: token})
        tools = judge_tools(workspace).streamable_http_app(
            streamable_http_path=PATH,
            stateless_http=True,
            max_request_body_size=MAX_BODY,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the guard's task
        )
        http_server.disable_uvicorn_logs()
        config = uvicorn.Config(
            _TokenGuard(tools, token, access.hosts),
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            limit_concurrency=MAX_REQUESTS,
            h11_max_incomplete_event_size=http_server.MAX_HEAD,
            http="h11",
            ws="none",
        )
        announce(url, file)
        uvicorn.Server(config).run(sockets=[access.tcp])


def _read_token(file: Path) -> str:
    """Return the token of an earlier server with this file; empty if there was none."""
    with suppress(FileNotFoundError):
        lines = shlex.split(regular_file.read(file, MAX_ENVIRONMENT_FILE).decode("utf-8", "replace"), comments=True)
        return dict(word.split("=", 1) for word in lines if "=" in word).get(TOKEN, "")
    return ""


class _TokenGuard:
    """Passes on requests that name an allowed host, come from no browser and carry the token."""

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str]) -> None:
        self._app, self._token, self._hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if not http_server.is_for_this_machine(headers, self._hosts) or _is_from_page(headers):
            await PlainTextResponse("Requests from elsewhere are not answered.", 403)(scope, receive, send)
        elif scheme.lower() != "bearer" or not http_server.is_secret(given.strip(), self._token):
            refusal = PlainTextResponse("Missing or wrong token.", 401, {"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _is_from_page(headers: Headers) -> bool:
    return http_server.has_origin(headers) or not http_server.fetch_site_allowed(headers, http_server.NO_PAGE)
