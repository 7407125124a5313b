"""Who may see the site: who holds its token, so that another user of this machine doesn't.

The address that ``view`` prints holds the token. Whoever opens it gets it as a cookie, and is led to the address
without it; a program may send it as ``Authorization: Bearer`` instead. ``app.py`` says which
hosts and origins are answered.
"""

import secrets
from html import escape

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from evopolicygym.serving import http_server

PAGE = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">{head}'
    "<title>EvoPolicyGym</title></head><body><main><h1>EvoPolicyGym</h1><p>{body}</p></main></body></html>\n"
)
ICON = '<link rel="icon" href="/static/icon.svg" type="image/svg+xml">'
"""Without it, a browser asks for one at an address of its own choice, where there is none."""
REFUSED = "These runs are shown to who opens the address that evopolicygym view printed, with the token in it."
MISSING = f'{REFUSED} If this browser opened that already and came here from another site: <a href="/">go on</a>.'


class Access:
    """The token of one site, and how requests show that they have it."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(24)

    def granted(self, scope: Scope) -> bool:
        """Return whether a request has the token, as a cookie or in its header."""
        kind, _, bearer = Headers(scope=scope).get("authorization", "").partition(" ")
        return self._is(Request(scope).cookies.get(_cookie(scope), "")) or (kind == "Bearer" and self._is(bearer))

    def entrance(self, scope: Scope) -> Response | None:
        """Return what hands the token over as a cookie to who opened the printed address; None for other requests.

        A browser that was led there by another page sends no such cookie when it is redirected at once, only when a
        page of this site leads it on.
        """
        request = Request(scope)
        if scope["path"] != "/" or scope["method"] not in {"GET", "HEAD"} or "token" not in request.query_params:
            return None
        if not self._is(request.query_params["token"]):
            return refused()
        led = request.headers.get("sec-fetch-site") == "cross-site"
        answer = HTMLResponse(leading_to("/", ICON)) if led else RedirectResponse("/", 303)
        answer.set_cookie(_cookie(scope), self.token, httponly=True, samesite="strict")
        return answer

    def _is(self, text: str) -> bool:
        return http_server.is_secret(text, self.token)


def refused() -> Response:
    """Return the page for who has no token."""
    return HTMLResponse(PAGE.format(head="", body=MISSING), 403)


def leading_to(address: str, icon: str = "") -> str:
    """Return a page that leads to an address at once; ``icon`` is the element that names its icon."""
    shown = escape(address)
    head = f'{icon}<meta http-equiv="refresh" content="0; url={shown}">'
    return PAGE.format(head=head, body=f'<a href="{shown}">The runs are shown here.</a>')


def _cookie(scope: Scope) -> str:
    """Return the cookie's name: a browser has one jar for all ports of a machine."""
    return f"evopolicygym-{scope['server'][1]}"
