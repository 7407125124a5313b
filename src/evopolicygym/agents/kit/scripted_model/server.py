"""A model server on loopback with scripted answers, for testing an agent without a model and without a key.

It answers in the four API formats of the model proxy, as a whole or streamed. Tokens are not counted: every answer
reports the same usage. ``conversation.py`` makes a tool run shell commands.
"""

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Json = dict[str, Any]
INPUT, CACHED, OUTPUT, REASONING = 1000, 400, 50, 10
"""Tokens that every generation reports."""
ABOUT_ITSELF = frozenset({"/props", "/version", "/api/tags", "/api/show", "/api/version"})
"""Paths at which some local servers tell what they run; 404 unless a page is given."""
GENERATING = ("/responses", "/chat/completions", "/messages", ":generateContent", ":streamGenerateContent")
"""How the paths of requests for an answer end."""
DEADLINE_S = 60.0
"""Maximum time for which the server hangs."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to a request; by default a complete text."""

    text: str = "All is well."
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    """Raw bytes to send instead of an answer in the request's format."""
    tell_usage: bool = True
    identity: str = "1"
    """An id that is unique in the conversation."""
    hang: str = ""
    """When the server hangs until it is released or the client leaves: ``before`` the answer, or ``between`` pieces."""
    cut: bool = False
    """Whether the connection is dropped halfway through the answer."""


def answer_pieces(path: str, body: Json, reply: Reply) -> Iterator[bytes]:
    """Yield an answer in the path's API format: the events of a stream, or the whole as one piece."""
    model, text = str(body.get("model", "scripted")), reply.text
    if path.endswith("/responses"):
        documents = _responses(model, text, reply, streamed=bool(body.get("stream")))
    elif path.endswith("/chat/completions"):
        documents = _chat(model, text, reply, body)
    elif path.endswith("/messages"):
        documents = _messages(model, text, reply, streamed=bool(body.get("stream")))
    elif path.endswith("Content"):
        documents = _gemini(text, reply, streamed=":stream" in path)
    elif path.endswith(("count_tokens", "input_tokens")):
        documents = [{"input_tokens": INPUT}]
    elif path.endswith(":countTokens"):
        documents = [{"totalTokens": INPUT}]
    else:
        documents = [{"object": "list", "data": [{"id": "scripted", "object": "model"}]}]
    yield from encode_answer(path, body, documents)


def encode_answer(path: str, body: Json, documents: Sequence[Json]) -> Iterator[bytes]:
    """Yield the bytes of an answer: its documents as events if the request is streamed, else the last one."""
    if not is_streamed(path, body):
        yield json.dumps(documents[-1]).encode()
        return
    for document in documents:
        event = f"event: {document['type']}\n" if "type" in document else ""
        yield f"{event}data: {json.dumps(document)}\n\n".encode()
    if path.endswith("/chat/completions"):
        yield b"data: [DONE]\n\n"


def is_streamed(path: str, body: Json) -> bool:
    """Return whether a request is answered with events."""
    return bool(body.get("stream")) or ":streamGenerateContent" in path


def _responses(model: str, text: str, reply: Reply, *, streamed: bool) -> list[Json]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {
        "type": "message",
        "id": f"msg_{reply.identity}",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }
    whole: Json = {
        "id": f"resp_{reply.identity}",
        "object": "response",
        "model": model,
        "status": "completed",
        "output": [item],
    }
    if reply.tell_usage:
        whole["usage"] = {
            "input_tokens": INPUT,
            "input_tokens_details": {"cached_tokens": CACHED},
            "output_tokens": OUTPUT,
            "output_tokens_details": {"reasoning_tokens": REASONING},
            "total_tokens": INPUT + OUTPUT,
        }
    if not streamed:
        return [whole]
    return [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.output_text.delta", "item_id": item["id"], "output_index": 0, "delta": text},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]


def _chat(model: str, text: str, reply: Reply, body: Json) -> list[Json]:
    usage = {
        "prompt_tokens": INPUT,
        "prompt_tokens_details": {"cached_tokens": CACHED},
        "completion_tokens": OUTPUT,
        "completion_tokens_details": {"reasoning_tokens": REASONING},
    }
    head = {"id": f"chatcmpl-{reply.identity}", "created": 1, "object": "chat.completion", "model": model}
    if not body.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return [{**head, "choices": [choice], **({"usage": usage} if reply.tell_usage else {})}]
    head["object"] = "chat.completion.chunk"
    delta = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    chunks: list[Json] = [{**head, "choices": [delta]}, {**head, "choices": [end]}]
    asked = (body.get("stream_options") or {}).get("include_usage")
    return [*chunks, {**head, "choices": [], "usage": usage}] if asked and reply.tell_usage else chunks


def _messages(model: str, text: str, reply: Reply, *, streamed: bool) -> list[Json]:
    usage = {
        "input_tokens": INPUT - CACHED - 100,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": CACHED,
    }
    whole: Json = {"id": f"msg_{reply.identity}", "type": "message", "role": "assistant", "model": model}
    whole |= {"stop_reason": "end_turn", "stop_sequence": None, "content": [{"type": "text", "text": text}]}
    if not streamed:
        return [whole | ({"usage": usage | {"output_tokens": OUTPUT}} if reply.tell_usage else {})]
    begun = whole | {"content": [], "stop_reason": None}
    begun |= {"usage": usage | {"output_tokens": 1}} if reply.tell_usage else {}
    end: Json = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    end |= {"usage": {"output_tokens": OUTPUT}} if reply.tell_usage else {}
    return [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        end,
        {"type": "message_stop"},
    ]


def _gemini(text: str, reply: Reply, *, streamed: bool) -> list[Json]:
    def chunk(part: str, n_tokens: int, **end: str) -> Json:
        candidate = {"index": 0, "content": {"role": "model", "parts": [{"text": part}]}, **end}
        usage = {
            "promptTokenCount": INPUT,
            "cachedContentTokenCount": CACHED,
            "candidatesTokenCount": n_tokens,
            "thoughtsTokenCount": REASONING,
        }
        reported = {"usageMetadata": usage} if reply.tell_usage else {}
        return {"candidates": [candidate], "modelVersion": "scripted", **reported}

    middle = len(text) // 2
    end = OUTPUT - REASONING
    if not streamed:
        return [chunk(text, end, finishReason="STOP")]
    return [chunk(text[:middle], 1), chunk(text[middle:], end, finishReason="STOP")]


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A received request."""

    method: str
    target: str
    headers: Mapping[str, str]
    """By name in lower case."""
    body: Json


class ScriptedModel:
    """Serves on loopback until it is closed."""

    def __init__(self, answer: "Callable[[str, Json, Reply], Iterator[bytes]] | None" = None) -> None:
        self.answer = answer or answer_pieces
        """Called with a path, a body and a reply; yields the bytes to send."""
        self.asked: list[ReceivedRequest] = []
        """The requests so far."""
        self.pages: dict[str, Json] = {}
        """What it tells of itself, by path, as local servers do; requests for these take no reply."""
        self.replies: list[Reply] = []
        """Replies to the next requests; later requests get a default one."""
        self.released = threading.Event()
        """Set it to release a hanging answer."""
        self.came = threading.Event()
        """Set once a request has arrived."""
        self.left = threading.Event()
        """Set once a client has disconnected from a hanging answer."""
        self._scheme = "http"
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

    def secure(self, context: ssl.SSLContext) -> None:
        """Serve https from now on."""
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._scheme = "https"

    @property
    def generations(self) -> list[ReceivedRequest]:
        """The requests for an answer so far."""
        return [request for request in self.asked if request.target.partition("?")[0].endswith(GENERATING)]

    @property
    def url(self) -> str:
        """Its address, without a trailing slash."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    def next_reply(self) -> Reply:
        """Return how the next request is answered."""
        return self.replies.pop(0) if self.replies else Reply()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self._is_about_itself:
            self._send_page()
        else:
            self._answer({})

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        if self._is_about_itself:
            self._send_page()
        else:
            self._answer(body)

    @property
    def _is_about_itself(self) -> bool:
        return self.path in self._model.pages or self.path in ABOUT_ITSELF

    def _send_page(self) -> None:
        page = self._model.pages.get(self.path)
        data = json.dumps(page or {}).encode()
        self.send_response(HTTPStatus.NOT_FOUND if page is None else HTTPStatus.OK)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

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
        for index, part in enumerate(parts):
            if index == 1 and reply.hang == "between":
                self._hang()
            if index == len(parts) - 1 and reply.cut:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if part:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        self.wfile.write(b"0\r\n\r\n")

    def _hang(self) -> None:
        """Wait until released or until the client disconnects."""
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
