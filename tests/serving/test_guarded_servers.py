"""Each server answers who has its token and names its host, and refuses the same things: one table for all."""

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from evopolicygym.judge.server import MAX_BODY, JudgeConnection
from evopolicygym.model_proxy.proxy import ProxyConnection
from evopolicygym.serving.connection import Connection
from evopolicygym.serving.http_server import Server as HttpServer
from evopolicygym.viewer.site.serving import ServedViewer
from fakes import open_run
from libraries import needs_library
from lifeline import PATIENCE_S
from model_proxies import REAL_KEY, VARIABLE, open_door

PROXY_BODY = 1000


@dataclass(frozen=True)
class Served:
    """A server, and a request that it answers with 200."""

    address: str
    call: str
    path: str
    wrong_path: str
    """The same with a wrong token, where the path has it."""
    token: dict[str, str] = field(default_factory=dict)
    """The header with the token, where that has it."""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def ask(self, headers: dict[str, str], *, token: bool = True, body: "bytes | None" = None) -> int:
        """Return the status of the answer."""
        parts = urlsplit(self.address)
        client = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)
        sent = {**self.headers, **(self.token if token else {}), **headers}
        path, content = self.path if token else self.wrong_path, self.body if body is None else body
        try:
            client.request(self.call, path, content or None, sent)
            return client.getresponse().status
        finally:
            client.close()

    def begin(self, head: str, body: bytes) -> bytes:
        """Send the head of a request with the token, and a body as it is; return the beginning of the answer."""
        words = {**self.headers, **self.token}
        lines = [f"{self.call} {self.path} HTTP/1.1", "Host: localhost", *(f"{k}: {v}" for k, v in words.items()), head]
        with self.connect() as client:
            client.sendall("\r\n".join([*lines, "", ""]).replace("localhost", self.host, 1).encode() + body)
            return client.recv(12)

    @property
    def host(self) -> str:
        """The host header of a good request."""
        return urlsplit(self.address).netloc

    def connect(self) -> socket.socket:
        """Return a connection that says nothing."""
        parts = urlsplit(self.address)
        return socket.create_connection((parts.hostname, parts.port or 0), timeout=PATIENCE_S)


@contextmanager
def judge(place: Path) -> Iterator[Served]:
    with open_run(place / "run", {}) as run:
        parts = urlsplit(run.door.address.base_url)
        yield Served(f"http://{parts.netloc}", "GET", f"{parts.path}/info", "/guessed/info")


@contextmanager
def proxy(place: Path) -> Iterator[Served]:
    with open_door(place, max_body_bytes=PROXY_BODY) as door:
        key = {"Authorization": f"Bearer {door.endpoint.key}"}
        body = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "?"}]}).encode()
        path = "/v1/chat/completions"
        yield Served(door.endpoint.address, "POST", path, path, key, {"Content-Type": "application/json"}, body)


@contextmanager
def viewer(place: Path) -> Iterator[Served]:
    with ServedViewer([place]) as site:
        token = {"Authorization": f"Bearer {site.access.token}"}
        yield Served(site.address, "GET", "/data/settings.json", "/data/settings.json", token)


@contextmanager
def mcp(place: Path) -> Iterator[Served]:
    from evopolicygym.agents.kit.mcp_http import TOKEN, serve_tools
    from evopolicygym.agents.kit.outside_agent import read_address_file

    with serve_tools(place, place / "judge.env", "127.0.0.1:0", ()) as tools:
        token = {"Authorization": f"Bearer {read_address_file(tools.token_file)[TOKEN]}"}
        accepted = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}).encode()
        parts = urlsplit(tools.url)
        yield Served(f"http://{parts.netloc}", "POST", parts.path, parts.path, token, accepted, body)


@dataclass(frozen=True)
class Server:
    """How a server is served, and what it answers."""

    serve: Callable[[Path], AbstractContextManager[Served]]
    without_token: int
    most: int
    """The most bytes of a body."""
    connection: type[Connection] = Connection


SERVERS = {
    "judge": Server(judge, 404, MAX_BODY, JudgeConnection),
    "proxy": Server(proxy, 401, PROXY_BODY, ProxyConnection),
    "viewer": Server(viewer, 403, 0),
    "mcp": Server(mcp, 401, 64 * 1024),
}
NEEDED = {"mcp": needs_library("mcp")}
TABLE = [pytest.param(row, id=name, marks=NEEDED.get(name, ())) for name, row in SERVERS.items()]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, REAL_KEY)


@pytest.mark.parametrize("row", TABLE)
def test_what_is_refused(row: Server, tmp_path: Path) -> None:
    """Another host, a page, a wrong token and a body too large, with its length or without, are refused by each."""
    with row.serve(tmp_path) as server:
        answers = [
            server.ask({}),
            server.ask({"Host": "elsewhere.example"}),
            server.ask({"Host": f"elsewhere.example@{server.host}"}),
            server.ask({"Origin": "http://elsewhere.example"}),
            server.ask({"Origin": "null"}),
            server.ask({"Sec-Fetch-Site": "cross-site"}),
            server.ask({}, token=False),
        ]
        declared = server.begin(f"Content-Length: {row.most + 1}", b"")
        unsaid = server.begin("Transfer-Encoding: chunked", b"%x\r\n%s\r\n" % (row.most + 1, b" " * (row.most + 1)))
        again = server.ask({})

    assert answers == [200, 403, 403, 403, 403, 403, row.without_token]
    assert declared == b"HTTP/1.1 413"
    assert unsaid == (b"HTTP/1.1 413" if server.call == "POST" else b"HTTP/1.1 200")  # a body that is not read
    assert again == 200


@pytest.mark.parametrize("row", TABLE)
def test_too_many_connections(row: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many connections to a server, the one that has been silent longest makes room for who asks."""
    monkeypatch.setattr(row.connection, "max_connections", 3)
    with row.serve(tmp_path) as server, ExitStack() as stack:
        silent = [stack.enter_context(server.connect()) for _ in range(3)]
        assert server.ask({}) == 200
        with suppress(ConnectionResetError):
            assert silent[0].recv(1) == b""


def test_a_burst_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of connections that come while the server is busy, all but the newest make room, too."""
    monkeypatch.setattr(Connection, "max_connections", 3)
    monkeypatch.setattr(Connection, "request_s", 10 * PATIENCE_S)
    begun, leave = threading.Event(), threading.Event()

    async def busy(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        leave.wait(PATIENCE_S)  # no other connection is looked at meanwhile
        await PlainTextResponse("done")(scope, receive, send)

    with socket.create_server(("127.0.0.1", 0)) as listener, HttpServer(busy, "busy") as server, ExitStack() as stack:
        served = Served(server.serve(listener), "GET", "/", "/")
        asking = stack.enter_context(served.connect())
        asking.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        assert begun.wait(PATIENCE_S)
        silent = [stack.enter_context(served.connect()) for _ in range(20)]
        leave.set()
        assert asking.recv(12) == b"HTTP/1.1 200"
        for one in silent[:-3]:
            with suppress(ConnectionResetError):
                assert one.recv(1) == b""
        silent[-1].sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        assert silent[-1].recv(12) == b"HTTP/1.1 200"
