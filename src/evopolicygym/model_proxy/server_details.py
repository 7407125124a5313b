"""The model that a local server runs, in the server's own words: llama.cpp's, Ollama's and vLLM's.

Hosted services tell nothing of the kind, and are not an error; nor is a server that doesn't answer.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Self
from urllib.parse import urlsplit

from evopolicygym.core.directories import cache_directory
from evopolicygym.core.errors import UsageError
from evopolicygym.core.text import version_line
from evopolicygym.model_proxy.formats import credential_header
from evopolicygym.model_proxy.upstream import ModelUpstream

TIMEOUT_S = 3.0
"""Seconds for all requests together."""
MAX_BYTES = 8 << 20
OK = 200
QUANTIZATION = re.compile(
    r"(?<![a-z0-9])(i?q\d\w*|bf16|f16|f32|fp16|fp8|int4|int8|awq|gptq)(?![a-z0-9])", re.IGNORECASE
)
"""The quantisation in the name of a file or a repository."""
CONTEXT_PARAMETER = re.compile(r"^\s*num_ctx\s+(\d+)\s*$", re.MULTILINE)
LATEST = ":latest"
"""The tag that Ollama adds to a name without one."""
LLAMA_CPP, OLLAMA, VLLM = "llama.cpp", "Ollama", "vLLM"
SEEDED = frozenset({LLAMA_CPP, OLLAMA, VLLM})
"""Servers whose chat requests may have a seed; others may reject it."""
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
WEIGHTS = b"GGUF"
"""The first bytes of a file of weights."""
DIGESTS = "weights.json"
"""The cached digests of files of weights, by path, size and time of change."""

Json = Mapping[str, Any]


def read_server_details(upstream: ModelUpstream, model: str) -> dict[str, str]:
    """Return what a server tells of a model, as far as it does.

    The names are ``server``, ``name``, ``file``, ``digest``, ``quantization``, ``context``, ``slots``,
    ``parameters`` and ``build``. It is empty for an unknown kind of server, for one that doesn't answer in time, and
    for one that is addressed by https, as hosted services are: they are sent nothing, and no key, that an agent didn't
    ask for.
    """
    if not upstream.is_local:
        return {}
    with _Client(upstream) as client:
        details = _llama_cpp(client) or _ollama(client, model) or _vllm(client, model)
    texts = {name: version_line(str(value)) for name, value in details.items() if value not in {None, ""}}
    return {name: text for name, text in texts.items() if text}


class _Client:
    """Asks a server for documents until the time is over."""

    def __init__(self, upstream: ModelUpstream) -> None:
        import httpx2

        from evopolicygym.model_proxy.forward import tls_context

        self._root = upstream.prefix.removesuffix("/v1")
        self.is_here = urlsplit(upstream.base_url).hostname in LOOPBACK
        self._headers = credential_header(upstream.wire, upstream.key(), [])
        self._deadline = time.monotonic() + TIMEOUT_S
        self._client = httpx2.Client(verify=tls_context(), trust_env=False, follow_redirects=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, path: str, body: Json | None = None) -> Json:
        """Return the JSON object at a path; empty if there is none."""
        import httpx2

        with suppress(httpx2.HTTPError, ValueError, RecursionError):
            document = json.loads(self._read(path, body))
            return document if isinstance(document, dict) else {}
        return {}

    def _read(self, path: str, body: Json | None) -> bytes:
        """Return the contents of an answer; raise ``ValueError`` if it is none, too long or too late."""
        method, left_s = "GET" if body is None else "POST", self._deadline - time.monotonic()
        if left_s <= 0:
            raise ValueError("no time is left")
        address, data = self._root + path, bytearray()
        with self._client.stream(method, address, json=body, headers=self._headers, timeout=left_s) as response:
            if response.status_code != OK:
                raise ValueError(f"status {response.status_code}")
            for chunk in response.iter_bytes():
                data += chunk
                if len(data) > MAX_BYTES or time.monotonic() > self._deadline:
                    raise ValueError("the answer is too long, or too late")
        return bytes(data)


def _llama_cpp(client: _Client) -> dict[str, object]:
    properties = client.ask("/props")
    path = properties.get("model_path")
    if not isinstance(path, str) or "default_generation_settings" not in properties:
        return {}
    file = _without_directory(path)
    listed = next(_objects(client.ask("/v1/models"), "data"), {})
    return {
        "server": LLAMA_CPP,
        "name": _without_directory(str(properties.get("model_alias") or listed.get("id") or file)),
        "file": file,
        "digest": _weights_sha256(path, _object(listed, "meta").get("size")) if client.is_here else None,
        "quantization": _quantization(file),
        "context": _object(properties, "default_generation_settings").get("n_ctx"),
        "slots": properties.get("total_slots"),
        "parameters": _object(listed, "meta").get("n_params"),
        "build": properties.get("build_info"),
    }


def _weights_sha256(path: str, n_bytes: object) -> str | None:
    """Return the digest of a file of weights on this machine; None if there is none of at least ``n_bytes`` there."""
    try:
        file = Path(path)
        status = file.stat()
        if not file.is_file() or (isinstance(n_bytes, int) and status.st_size < n_bytes):
            return None
        key = f"{file.resolve()} {status.st_size} {status.st_mtime_ns}"
        cache = cache_directory() / DIGESTS
        known = _read_digests(cache)
        if key not in known:
            with file.open("rb") as content:
                if content.read(len(WEIGHTS)) != WEIGHTS:
                    return None
                content.seek(0)
                known[key] = hashlib.file_digest(content, "sha256").hexdigest()
            with suppress(OSError):
                cache.parent.mkdir(parents=True, exist_ok=True)
                written = cache.with_name(f"{cache.name}.{os.getpid()}")
                written.write_text(json.dumps(known), encoding="utf-8")
                written.replace(cache)
    except (OSError, ValueError, UsageError):
        return None
    return known[key]


def _read_digests(cache: Path) -> dict[str, str]:
    with suppress(OSError, ValueError, RecursionError):
        known = json.loads(cache.read_text(encoding="utf-8"))
        return {str(key): str(digest) for key, digest in known.items()} if isinstance(known, dict) else {}
    return {}


def _ollama(client: _Client, model: str) -> dict[str, object]:
    names = {model, model + LATEST}
    listed = next((entry for entry in _objects(client.ask("/api/tags"), "models") if entry.get("name") in names), None)
    if listed is None:
        return {}
    shown = client.ask("/api/show", {"model": model})
    details = {**_object(listed, "details"), **_object(shown, "details")}
    limit = CONTEXT_PARAMETER.search(str(shown.get("parameters") or ""))
    return {
        "server": OLLAMA,
        "name": listed.get("name"),
        "digest": listed.get("digest"),
        "quantization": details.get("quantization_level"),
        "context": limit[1] if limit else None,  # what it was trained with is not what the server gives it
        "parameters": details.get("parameter_size"),
        "build": client.ask("/api/version").get("version"),
    }


def _vllm(client: _Client, model: str) -> dict[str, object]:
    version = client.ask("/version").get("version")
    if not isinstance(version, str):
        return {}
    served = list(_objects(client.ask("/v1/models"), "data"))
    named = (entry for entry in served if entry.get("id") == model)
    model_card = next(chain(named, served), None)
    if model_card is None or "max_model_len" not in model_card:
        return {}
    weights = _without_directory(str(model_card.get("root") or ""))
    return {
        "server": VLLM,
        "name": _without_directory(str(model_card.get("id") or "")),
        "file": weights,
        "quantization": _quantization(weights),
        "context": model_card.get("max_model_len"),
        "build": version,
    }


def _object(document: Json, name: str) -> Json:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _objects(document: Json, name: str) -> Iterator[Json]:
    values = document.get(name)
    return (value for value in (values if isinstance(values, list) else ()) if isinstance(value, dict))


def _without_directory(name: str) -> str:
    """Return a name as it is, and the last part of a path: no record holds a path of the host."""
    if PureWindowsPath(name).drive:
        return PureWindowsPath(name).name
    is_path = name.startswith(("/", ".", "~")) or name.endswith(".gguf")
    return PurePosixPath(name).name if is_path else name


def _quantization(file: str) -> str:
    matches = QUANTIZATION.findall(file)
    return str(matches[-1]) if matches else ""
