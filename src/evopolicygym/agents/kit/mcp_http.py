"""MCP tools over streamable HTTP: one address, and a token that every request carries in its ``Authorization`` header.

The token is kept with the run, so that an editor's configuration stays valid when the server is started again.
"""

import secrets
from collections.abc import Callable, Collection
from pathlib import Path

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from evopolicygym.agents.kit.mcp_server import judge_tools
from evopolicygym.agents.kit.outside_agent import OutsideAccess, address_file, read_addresses
from evopolicygym.core.beneath import open_directory
from evopolicygym.serving import http_server

ENVIRONMENT_FILE = "mcp.env"
"""Lies next to the file with the judge's address; it contains the address of the tools and the token."""
URL, TOKEN = "EVOPOLICYGYM_MCP_URL", "EVOPOLICYGYM_MCP_TOKEN"
PATH = "/mcp"
MAX_BODY = 64 * 1024
"""Bytes of a request's body, as of the judge's."""
MAX_REQUESTS = 64
"""Requests that are answered at a time."""


def serve_http(
    workspace: Path,
    addresses: Path,
    listen: str,
    allow_hosts: Collection[str],
    announce: Callable[[str, Path], object],
) -> None:
    """Serve the tools of a workspace at ``HOST:PORT`` until interrupted.

    ``addresses`` is the file with the judge's address while the run is served.
    ``announce`` is called with the address, and the file that holds the token. Raises ``UsageError`` where nothing can
    listen there.
    """
    with OutsideAccess(listen, allow_hosts=allow_hosts).open() as access:
        assert access.tcp is not None  # noqa: S101 - for the type checker; ``listen`` is not empty
        url = f"http://{access.host}:{access.tcp.getsockname()[1]}{PATH}"
        file = addresses.with_name(ENVIRONMENT_FILE)
        token = read_addresses(file).get(TOKEN) or secrets.token_urlsafe(24)
        with open_directory(file.parent) as at:
            address_file(file.name, {URL: url, TOKEN: token}, at)
        tools = judge_tools(workspace, addresses).streamable_http_app(
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
        if not http_server.is_from_program(headers, self._hosts):
            await PlainTextResponse("Requests from elsewhere are not answered.", 403)(scope, receive, send)
        elif scheme.lower() != "bearer" or not http_server.is_secret(given.strip(), self._token):
            refusal = PlainTextResponse("Missing or wrong token.", 401, {"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)
