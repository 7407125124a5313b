"""A model server on loopback that says what it is given to say: for trying an agent without a model and without a key.

Nothing of it is a mock: it is a server of its own. What its answers look like is described in ``answers.py``,
and what it has a tool do in ``conversation.py``.
"""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from evopolicygym.agents.kit.scripted_model.answers import Json, Reply, is_streamed, pieces

DEADLINE_S = 60.0
"""The longest that the server hangs."""


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request as it came."""

    method: str
    target: str
    headers: Mapping[str, str]
    """By name in lower case."""
    body: Json


class ScriptedModel:
    """Serves on loopback until it is closed."""

    def __init__(self, answer: "Callable[[str, Json, Reply], Iterator[bytes]] | None" = None) -> None:
        self.answer = answer or pieces
        """Says what is sent to whom asks at a path, with a body, as a reply has it."""
        self.asked: list[ReceivedRequest] = []
        self.replies: list[Reply] = []
        """One for each request to come; afterwards every request gets a plain one."""
        self.released = threading.Event()
        """Set it to let a hanging answer go on."""
        self.came = threading.Event()
        """Set once a request has come."""
        self.left = threading.Event()
        """Set once a client has left a hanging answer."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.model = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Where it answers, without a slash at the end."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def next_reply(self) -> Reply:
        """Return how the next request is answered."""
        return self.replies.pop(0) if self.replies else Reply()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        self._answer(json.loads(self.rfile.read(length) or b"{}"))

    @property
    def _model(self) -> ScriptedModel:
        return self.server.model  # type: ignore[attr-defined, no-any-return]

    def _answer(self, body: Json) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self._model.next_reply()
        self._model.asked.append(ReceivedRequest(self.command, self.path, headers, body))
        self._model.came.set()
        if reply.hang == "before":
            self._hang()
        path = self.path.partition("?")[0]
        if reply.raw is not None or reply.status != HTTPStatus.OK:
            parts = [json.dumps({"error": {"message": reply.text}}).encode() if reply.raw is None else reply.raw]
        else:
            parts = list(self._model.answer(path, body, reply))
        streamed = is_streamed(path, body) and reply.status == HTTPStatus.OK
        kind = "text/event-stream" if streamed else "application/json"
        self.send_response(reply.status)
        for name, value in ({"content-type": kind, "transfer-encoding": "chunked"} | dict(reply.headers)).items():
            self.send_header(name, value)
        self.end_headers()
        self._send(parts, reply)

    def _send(self, parts: list[bytes], reply: Reply) -> None:
        if reply.cut and len(parts) == 1:
            parts = [parts[0][: len(parts[0]) // 2], b"never sent"]
        for place, part in enumerate(parts):
            if place == 1 and reply.hang == "between":
                self._hang()
            if place == len(parts) - 1 and reply.cut:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if part:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        self.wfile.write(b"0\r\n\r\n")

    def _hang(self) -> None:
        """Wait until released; what ends the wait early is that the client has left."""
        self.connection.settimeout(0.02)
        for _ in range(int(DEADLINE_S / 0.02)):
            if self._model.released.is_set():
                break
            try:
                if not self.connection.recv(1, socket.MSG_PEEK):
                    self._model.left.set()
                    break
            except TimeoutError:
                continue
            except OSError:
                self._model.left.set()
                break
        self.connection.settimeout(None)

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            self.close_connection = True
