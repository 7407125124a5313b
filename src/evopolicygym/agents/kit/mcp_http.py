"""MCP tools over streamable HTTP: one address, and a token that every request carries in its ``Authorization`` header.

The token is kept with the run, so that an editor's configuration stays valid when the server is started again.
"""

import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import Scope

from evopolicygym.agents.kit.mcp_server import judge_tools
from evopolicygym.agents.kit.outside_agent import OutsideAccess, read_address_file, write_address_file
from evopolicygym.core.beneath import open_directory
from evopolicygym.serving.guard import Guard, Refusal, bearer, is_secret
from evopolicygym.serving.http_server import Server, disable_uvicorn_logs

ENVIRONMENT_FILE = "mcp.env"
"""Lies next to the file with the judge's address; it contains the address of the tools and the token."""
URL, TOKEN = "EVOPOLICYGYM_MCP_URL", "EVOPOLICYGYM_MCP_TOKEN"
PATH = "/mcp"
MAX_BODY = 64 * 1024
"""Bytes of a request's body, as of the judge's."""


@dataclass(frozen=True, slots=True)
class ServedTools:
    """Tools that are served over HTTP."""

    url: str
    token_file: Path
    """Contains the address and the token."""
    server: Server


@contextmanager
def serve_tools(workspace: Path, addresses: Path, listen: str, allow_hosts: Collection[str]) -> Iterator[ServedTools]:
    """Serve the tools of a workspace at ``HOST:PORT``.

    ``addresses`` is the file with the judge's address while the run is served. Raises ``UsageError`` where nothing can
    listen there.
    """
    with OutsideAccess(listen, allow_hosts=allow_hosts).open() as access:
        assert access.tcp is not None  # noqa: S101 - for the type checker; ``listen`` is not empty
        url = f"http://{access.host}:{access.tcp.getsockname()[1]}{PATH}"
        file = addresses.with_name(ENVIRONMENT_FILE)
        token = read_address_file(file).get(TOKEN) or secrets.token_urlsafe(24)
        with open_directory(file.parent) as at:
            write_address_file(file.name, {URL: url, TOKEN: token}, at)
        tools = judge_tools(workspace, addresses).streamable_http_app(
            streamable_http_path=PATH,
            stateless_http=True,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the guard's task
        )
        disable_uvicorn_logs()
        guard = Guard(tools, lambda scope: _admit(scope, token), _refused, MAX_BODY, access.hosts)
        with Server(guard, "MCP", has_lifespan=True) as server:
            server.serve(access.tcp)
            yield ServedTools(url, file, server)


def _admit(scope: Scope, token: str) -> Scope | None:
    """Return a request that has the token in its header; None for another."""
    return scope if is_secret(bearer(Headers(scope=scope)), token) else None


def _refused(_: Scope, refusal: Refusal) -> PlainTextResponse:
    """Return the answer to a request that the guard refuses."""
    headers = {"WWW-Authenticate": "Bearer"} if refusal.reason == "token" else None
    return PlainTextResponse(refusal.message, refusal.http_status, headers)
