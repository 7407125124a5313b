"""Where a model proxy leads, and how much may go through it.

What is refused whatever the limits is described in ``inspection.py``.
"""

import os
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from evopolicygym.core.agent import PriceSnapshot, Workspace
from evopolicygym.core.errors import UsageError
from evopolicygym.model_proxy.wire import Wire


@dataclass(frozen=True, slots=True)
class ModelUpstream:
    """The one model server behind a proxy. No key is ever in here, only the name of the variable that holds it."""

    base_url: str
    """With a named wire, what the tool itself would be given (``https://api.openai.com/v1``); with ``auto``, the
    server's root, below which ``/v1`` and ``/v1beta`` are."""
    key_variable: str = ""
    """The environment variable that holds the real key; empty for a server that wants none."""
    wire: Wire = Wire.AUTO
    models: tuple[str, ...] = ()
    """The models that may be asked for; empty for any."""
    max_requests: int | None = None
    """Requests passed on, of every kind."""
    max_tokens: int | None = None
    """Input and output together. Checked before a request, so requests under way may go over it."""
    max_cost: float | None = None
    """US dollars; checked as ``max_tokens`` is, and only where there is a price."""
    price: PriceSnapshot | None = None
    """What the model costs; None: no cost is counted."""
    max_body_bytes: int = 16 << 20
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 600.0
    """The longest silence of the server, before its answer or within it."""

    def __post_init__(self) -> None:
        # A message names no part of the address: there might be a password in it.
        try:
            parts = urlsplit(self.base_url)
            whole = bool(parts.hostname) and parts.port != 0
        except ValueError:
            whole = False
        if not whole or parts.scheme not in {"http", "https"}:
            raise UsageError("A model's base_url must be a whole address, such as https://api.example.com/v1.")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise UsageError(
                "A model's base_url holds a user, a password, a query or a fragment; give the address alone, and the "
                "key in the environment variable that model_key (--model-key) names."
            )
        if not self.base_url.isascii() or not self.base_url.isprintable() or {"%", "\\", " "} & set(self.base_url):
            raise UsageError("A model's base_url may hold plain characters only: no spaces, no escapes.")
        if {".", ".."} & set(parts.path.split("/")) or "//" in parts.path:
            raise UsageError("A model's base_url may hold no empty step, no '.' and no '..' in its path.")

    @property
    def prefix(self) -> str:
        """The address without a slash at its end."""
        return self.base_url.rstrip("/")

    def within(self, workspace: Workspace) -> "ModelUpstream":
        """Return it with the price and the limits that a turn of an agent has."""
        return replace(self, max_tokens=workspace.left.tokens, max_cost=workspace.left.cost, price=workspace.price)

    def key(self) -> str:
        """Return the real key; raise ``UsageError`` where its variable isn't set."""
        if not self.key_variable:
            return ""
        key = os.environ.get(self.key_variable, "").strip()
        if not key:
            raise UsageError(
                f"The model's key is to come from the environment variable {self.key_variable}, which is not set. "
                f"Set it, or name another one: --model-key VARIABLE, or model_key in a file."
            )
        if not key.isascii() or not key.isprintable():
            raise UsageError(f"The environment variable {self.key_variable} holds characters that no key has.")
        return key


@dataclass(frozen=True, slots=True)
class ModelAddress:
    """Where a model proxy answers, and the key by which it knows its agent."""

    address: str
    """Without a slash at the end."""
    key: str
    """Drawn for one proxy and worth nothing elsewhere."""
    wire: Wire

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables by which tools find a model and its key."""
        version = "/v1" if self.wire is Wire.AUTO else ""
        openai = {"OPENAI_BASE_URL": self.address + version, "OPENAI_API_KEY": self.key}
        anthropic = {"ANTHROPIC_BASE_URL": self.address, "ANTHROPIC_API_KEY": self.key}
        gemini = {"GOOGLE_GEMINI_BASE_URL": self.address, "GEMINI_API_KEY": self.key}
        match self.wire:
            case Wire.RESPONSES | Wire.CHAT:
                return openai
            case Wire.MESSAGES:
                return anthropic
            case Wire.GEMINI:
                return gemini
            case _:
                return openai | anthropic | gemini
