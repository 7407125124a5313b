"""The guard of all servers: which requests are answered, by their host, origin, token and size.

Every user of the machine can reach a server on loopback, and so can every web page in their browsers, whose host name
may resolve to this machine. How many connections a server has is bounded by ``serving/connection.py``.
"""

import hmac
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evopolicygym.core.errors import EvoPolicyGymError

HOST = re.compile(r"(?:127\.0\.0\.1|localhost)(?::[0-9]{1,5})?")
"""``Host`` headers that name this machine."""
PORT = re.compile(r":[0-9]{1,5}\Z")
NO_PAGE = {"none"}
"""Allowed ``Sec-Fetch-Site`` for requests that no page sent; only browsers send this header."""
OWN_PAGES = {"none", "same-origin"}
"""Allowed ``Sec-Fetch-Site`` if the server's own pages may send requests too."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request isn't answered."""

    reason: str
    """``host``, ``token`` or ``body``."""
    http_status: int
    message: str


FROM_ELSEWHERE = Refusal("host", 403, "Requests from elsewhere, or from browsers' pages, are not answered.")
WRONG_TOKEN = Refusal("token", 401, "Missing or wrong token.")
Admit = Callable[[Scope], Scope | None]
"""Returns the request to pass on, without its token if that is in its path; None if it doesn't have the token."""


class Guard:
    """Passes on requests that name this machine or an allowed host, have the token, and a body that isn't too large."""

    def __init__(
        self,
        app: ASGIApp,
        admit: Admit,
        refuse: Callable[[Scope, Refusal], ASGIApp],
        max_body: int,
        hosts: Collection[str] = (),
        *,
        has_pages: bool = False,
    ) -> None:
        """``refuse`` returns the answer to a refused request; ``hosts`` are further allowed host names, and may grow.

        With ``has_pages``, pages of this server may send requests; otherwise only programs may.
        """
        self._app, self._admit, self._refuse = app, admit, refuse
        self._max_body, self._hosts, self._has_pages = max_body, hosts, has_pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] not in {"http", "websocket"}:
            return
        checked = self._checked(scope)
        if scope["type"] == "websocket":  # the server bounds its messages
            if isinstance(checked, Refusal):
                await send({"type": "websocket.close", "code": 1008, "reason": checked.message})
            else:
                await self._app(checked, receive, send)
            return
        refusal = checked if isinstance(checked, Refusal) else await self._pass_on(checked, receive, send)
        if refusal is not None:
            await self._refuse(scope, refusal)(scope, receive, send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> Refusal | None:
        """Have a request answered; return a refusal if its body is too large, and nothing of an answer was sent."""
        n_bytes, has_answered = 0, False

        async def bounded() -> Message:
            nonlocal n_bytes
            message = await receive()
            n_bytes += len(message.get("body", b""))
            if n_bytes > self._max_body:
                raise _BodyTooLarge
            return message

        async def send_unless_refused(message: Message) -> None:
            nonlocal has_answered
            if has_answered or n_bytes <= self._max_body:
                has_answered = True
                await send(message)

        try:
            await self._app(scope, bounded, send_unless_refused)
        except Exception:
            if n_bytes <= self._max_body:
                raise
        return None if has_answered or n_bytes <= self._max_body else self._too_large()

    def _checked(self, scope: Scope) -> Scope | Refusal:
        headers = Headers(scope=scope)
        if not (is_from_own_page(scope) if self._has_pages else is_from_program(headers, self._hosts)):
            return FROM_ELSEWHERE
        if (admitted := self._admit(scope)) is None:
            return WRONG_TOKEN
        declared = headers.get("content-length", "0")
        if not declared.isdigit() or int(declared) > self._max_body:
            return self._too_large()
        return admitted

    def _too_large(self) -> Refusal:
        return Refusal("body", 413, f"Invalid body: expected at most {self._max_body} bytes.")


class _BodyTooLarge(EvoPolicyGymError):
    """Ends the reading of a body; the guard answers."""


def is_for_this_machine(headers: Headers, others: Collection[str] = ()) -> bool:
    """Return whether a request's host is this machine or one of ``others``, with any port."""
    host = headers.get("host", "")
    return HOST.fullmatch(host) is not None or PORT.sub("", host) in others


def is_from_program(headers: Headers, hosts: Collection[str] = ()) -> bool:
    """Return whether a request names this machine, or one of ``hosts``, and no web page sent it."""
    return is_for_this_machine(headers, hosts) and "origin" not in headers and fetch_site_allowed(headers, NO_PAGE)


def is_from_own_page(scope: Scope) -> bool:
    """Return whether a request names this server with its port, and one of its pages sent it, or no page.

    Any page may lead a browser to the first page.
    """
    headers, port = Headers(scope=scope), scope["server"][1] if scope.get("server") else None
    if headers.get("host", "") not in {f"127.0.0.1:{port}", f"localhost:{port}"} or has_other_origin(headers):
        return False
    is_entrance = scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate"
    return is_entrance or fetch_site_allowed(headers, OWN_PAGES)


def has_other_origin(headers: Headers) -> bool:
    """Return whether a request's origin is a page of another host."""
    own = f"http://{headers.get('host', '')}"
    return any(origin != own for origin in headers.getlist("origin"))


def fetch_site_allowed(headers: Headers, allowed: set[str]) -> bool:
    """Return whether ``Sec-Fetch-Site`` is absent or allowed: ``NO_PAGE`` or ``OWN_PAGES``."""
    return set(headers.getlist("sec-fetch-site")) <= allowed


def bearer(headers: Headers) -> str:
    """Return the token in the ``Authorization`` header; empty if there is none."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def is_secret(text: str | bytes, secret: str) -> bool:
    """Return whether a client's text equals the secret, in constant time."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    return hmac.compare_digest(data, secret.encode())
