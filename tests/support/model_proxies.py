"""A model's door before a scripted model server, and the requests that tools make of it.

What must come of them is told in the tests.
"""

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from evopolicygym.agents.kit.scripted_model.server import CACHED, INPUT, OUTPUT, Json, ReceivedRequest, ScriptedModel
from evopolicygym.core.agent import PriceSnapshot, Rates
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.proxy import ModelProxy
from evopolicygym.model_proxy.upstream import ModelAddress, ModelUpstream
from fakes import TIME
from lifeline import PATIENCE_S

REAL_KEY = "sk-real-0123456789-never-to-be-seen"
VARIABLE = "SCRIPTED_MODEL_KEY"
PRICE = PriceSnapshot("scripted", "given", TIME, Rates(input=1000.0, output=10_000.0, cached_input=100.0))
COST = ((INPUT - CACHED) * 1000 + CACHED * 100 + OUTPUT * 10_000) / 1_000_000
"""US dollars of one answer of the scripted model at that price."""
TLS = ssl.create_default_context()
"""Never used, and made once: httpx2 would make one for each request."""
TEXT = [{"role": "user", "content": "How is https://example.org/ today?"}]


@dataclass(frozen=True, slots=True)
class Spoken:
    """How a tool asks for a text in one format."""

    wire: ApiFormat
    path: str
    body: Json
    scheme: str
    """The header that carries the key."""
    stream_path: str = ""
    stream_fields: Json = field(default_factory=lambda: {"stream": True})


SPOKEN = {
    ApiFormat.RESPONSES: Spoken(
        ApiFormat.RESPONSES, "/v1/responses", {"model": "scripted", "input": TEXT}, "authorization"
    ),
    ApiFormat.CHAT: Spoken(
        ApiFormat.CHAT,
        "/v1/chat/completions",
        {"model": "scripted", "messages": TEXT},
        "authorization",
        stream_fields={"stream": True, "stream_options": {"include_usage": True}},
    ),
    ApiFormat.MESSAGES: Spoken(
        ApiFormat.MESSAGES, "/v1/messages", {"model": "scripted", "max_tokens": 9, "messages": TEXT}, "x-api-key"
    ),
    ApiFormat.GEMINI: Spoken(
        ApiFormat.GEMINI,
        "/v1beta/models/scripted:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "How is it?"}]}]},
        "x-goog-api-key",
        "/v1beta/models/scripted:streamGenerateContent?alt=sse",
        {},
    ),
}


@dataclass(frozen=True, slots=True)
class OpenDoor:
    """A door that is served, with what is before and behind it."""

    door: ModelProxy
    endpoint: ModelAddress
    model: ScriptedModel
    log: Path

    def request(self, method: str, path: str, body: object = None, **changes: Any) -> httpx2.Response:
        """Ask with the dummy key, unless ``headers`` say otherwise; a body that is no bytes is sent as JSON."""
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = changes.pop("headers", {"authorization": f"Bearer {self.endpoint.key}"})
        address = self.endpoint.address + path
        return httpx2.request(
            method,
            address,
            content=content,
            headers=headers,
            timeout=PATIENCE_S,
            trust_env=False,
            verify=TLS,
            **changes,
        )

    def ask(self, wire: ApiFormat = ApiFormat.CHAT, **fields: Any) -> httpx2.Response:
        """Ask for a text, whole; ``fields`` are added to the body."""
        spoken = SPOKEN[wire]
        return self.request("POST", spoken.path, spoken.body | fields, headers=self.key_header(wire))

    def stream(self, wire: ApiFormat) -> httpx2.Response:
        """Ask for a text as a stream of events, and read it to its end."""
        spoken = SPOKEN[wire]
        path = spoken.stream_path or spoken.path
        return self.request("POST", path, spoken.body | spoken.stream_fields, headers=self.key_header(wire))

    def key_header(self, wire: ApiFormat) -> dict[str, str]:
        """Return the header by which a format's tools present the dummy key."""
        scheme = SPOKEN[wire].scheme
        return {scheme: f"Bearer {self.endpoint.key}" if scheme == "authorization" else self.endpoint.key}

    def lines(self) -> list[Json]:
        """Return the log."""
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]

    def connect(self) -> socket.socket:
        """Return a connection to the door, for what no client library would send."""
        address = httpx2.URL(self.endpoint.address)
        return socket.create_connection((address.host, address.port or 0), timeout=PATIENCE_S)

    def say(self, head: str) -> bytes:
        """Send a request to the letter, lines apart, with the dummy key; return what comes back until the end."""
        text = f"{head}\nAuthorization: Bearer {self.endpoint.key}\nConnection: close\n\n".replace("\n", "\r\n")
        with self.connect() as connection:
            connection.sendall(text.encode())
            return b"".join(iter(lambda: connection.recv(1 << 16), b""))

    def only(self) -> ReceivedRequest:
        """Return the one request that came to the model server."""
        (asked,) = self.model.asked
        return asked


def wait_for_requests(model: ScriptedModel, count: int) -> None:
    """Return once so many requests have come to a model server."""
    while True:
        model.came.clear()
        if len(model.asked) >= count:
            return
        assert model.came.wait(PATIENCE_S), f"{len(model.asked)} of {count} requests have come"


@contextmanager
def open_door(directory: Path, prefix: str = "", **changes: Any) -> Iterator[OpenDoor]:
    """Open a door before a scripted model server; the real key must stand in its variable."""
    log = directory / "model.jsonl"
    with ScriptedModel() as model:
        upstream = ModelUpstream(base_url=model.url + prefix, **({"key_variable": VARIABLE} | changes))
        with ModelProxy(upstream, log) as door:
            yield OpenDoor(door, door.serve(socket.create_server(("127.0.0.1", 0))), model, log)
