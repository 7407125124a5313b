"""The model server behind a proxy with its limits, and the proxy's own address."""

import os
import ssl
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from evopolicygym.core.agent import PriceSnapshot, Workspace
from evopolicygym.core.errors import UsageError
from evopolicygym.model_proxy.formats import ApiFormat


@dataclass(frozen=True, slots=True)
class ModelUpstream:
    """The one model server behind a proxy; holds the name of the key's variable, never the key."""

    base_url: str
    """The server's address, with or without ``/v1``, such as ``https://api.openai.com/v1``."""
    key_variable: str = ""
    """The environment variable that holds the real key; empty for a server without keys."""
    wire: ApiFormat = ApiFormat.AUTO
    models: tuple[str, ...] = ()
    """The models that requests may name; empty for any."""
    max_requests: int | None = None
    """Most forwarded requests, of every kind."""
    max_tokens: int | None = None
    """Most tokens, input plus output; checked before a request, so requests in flight may exceed it."""
    max_cost: float | None = None
    """Most US dollars; each request's worst case is reserved first. Needs a ``price``."""
    whole_cost: float | None = None
    """The whole limit in US dollars, of which ``max_cost`` is left; None if that is all of it."""
    price: PriceSnapshot | None = None
    """The model's price; None: no cost is counted."""
    max_body_bytes: int = 16 << 20
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 600.0
    """Longest silence of the server, before its answer or within it; one on http is then asked whether it is there."""
    most_silence_s: float = 3600.0
    """Longest silence of a server on http that answers other requests meanwhile."""

    def __post_init__(self) -> None:
        # Messages quote no part of the address: it may hold a password.
        try:
            parts = urlsplit(self.base_url)
            is_complete = bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_complete = False
        if not is_complete or parts.scheme not in {"http", "https"}:
            raise UsageError("Invalid base_url of a model: expected a complete URL such as https://api.example.com/v1.")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise UsageError(
                "Invalid base_url of a model: expected no user, password, query or fragment. Put the key in the "
                "environment variable that model_key (--model-key) names."
            )
        if not self.base_url.isascii() or not self.base_url.isprintable() or {"%", "\\", " "} & set(self.base_url):
            raise UsageError("Invalid base_url of a model: expected printable ASCII without spaces and escapes.")
        if {".", ".."} & set(parts.path.split("/")) or "//" in parts.path:
            raise UsageError("Invalid base_url of a model: its path holds an empty part, '.' or '..'.")

    @property
    def is_local(self) -> bool:
        """Whether it is taken for the user's own server, as one on http is; hosted services are on https."""
        return urlsplit(self.base_url).scheme == "http"

    @property
    def prefix(self) -> str:
        """The address that the paths of requests are appended to, without a trailing slash.

        Tools of OpenAI's formats append theirs below ``/v1``; in the others, and with ``auto``, it is in the path.
        """
        address = self.base_url.rstrip("/")
        if self.wire in {ApiFormat.CHAT, ApiFormat.RESPONSES}:
            return address if urlsplit(address).path else f"{address}/v1"
        return address.removesuffix("/v1")

    def within(self, workspace: Workspace) -> "ModelUpstream":
        """Return a copy with the price and the remaining limits of an agent's turn."""
        return replace(
            self,
            max_tokens=workspace.left.tokens,
            max_cost=workspace.left.cost,
            whole_cost=workspace.allowance.cost,
            price=workspace.price,
        )

    def check_certificates(self) -> None:
        """Raise ``UsageError`` if certificates of one's own are named and can't be read."""
        file, directory = (os.environ.get(name, "") for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"))
        if urlsplit(self.base_url).scheme != "https" or not (file or directory):
            return
        if not file and not Path(directory).is_dir():
            raise UsageError(f"Invalid SSL_CERT_DIR: expected a directory of certificates, got {directory!r}.")
        try:
            ssl.create_default_context(cafile=file or None, capath=None if file else directory)
        except OSError as error:
            raise UsageError(
                f"Invalid SSL_CERT_FILE: expected a file of certificates in PEM, got {file!r} "
                f"({error.strerror or error}). Name the file of the model server's certificate authority, or unset it."
            ) from error

    def key(self) -> str:
        """Return the real key; raise ``UsageError`` if its variable isn't set."""
        if not self.key_variable:
            return ""
        key = os.environ.get(self.key_variable, "").strip()
        if not key:
            raise UsageError(
                f"Missing environment variable {self.key_variable}: expected the model's key. "
                f"Set it, or name another one: --model-key VARIABLE, or model_key in a file."
            )
        if not key.isascii() or not key.isprintable():
            raise UsageError(f"Invalid key in {self.key_variable}: expected printable ASCII.")
        return key


@dataclass(frozen=True, slots=True)
class ModelAddress:
    """The address of a model proxy, and its agent's key."""

    address: str
    """Without a trailing slash."""
    key: str
    """A random key that is valid for this proxy only."""
    wire: ApiFormat

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables from which tools read a model's address and key."""
        version = "/v1" if self.wire is ApiFormat.AUTO else ""
        openai = {"OPENAI_BASE_URL": self.address + version, "OPENAI_API_KEY": self.key}
        anthropic = {"ANTHROPIC_BASE_URL": self.address, "ANTHROPIC_API_KEY": self.key}
        gemini = {"GOOGLE_GEMINI_BASE_URL": self.address, "GEMINI_API_KEY": self.key}
        match self.wire:
            case ApiFormat.RESPONSES | ApiFormat.CHAT:
                return openai
            case ApiFormat.MESSAGES:
                return anthropic
            case ApiFormat.GEMINI:
                return gemini
            case _:
                return openai | anthropic | gemini
