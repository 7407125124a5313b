"""Access to the site by a token, so that other users of this machine have none.

``view`` prints an address with the token. Opening it sets the token as a cookie and redirects to the address without
it; a program can send ``Authorization: Bearer`` instead.
"""

import secrets
from html import escape

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from evopolicygym.serving.guard import bearer, is_secret

PAGE = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">{head}'
    "<title>EvoPolicyGym</title></head><body><main><h1>EvoPolicyGym</h1><p>{body}</p></main></body></html>\n"
)
ICON = '<link rel="icon" href="/static/icon.svg" type="image/svg+xml">'
"""Without it, a browser requests /favicon.ico, which doesn't exist."""
REFUSED = "These runs are shown to who opens the address that evopolicygym view printed, with the token in it."
TOKEN = "token"  # noqa: S105 - the name of the parameter in the printed address
MISSING = f'{REFUSED} If this browser opened that already and came here from another site: <a href="/">go on</a>.'


class Access:
    """The token of a site, and its check in requests."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(24)

    def admit(self, scope: Scope) -> Scope | None:
        """Return a request that has the token: as a cookie, in its header, or in the printed address."""
        request = Request(scope)
        is_printed = scope["path"] == "/" and TOKEN in request.query_params
        given = [request.query_params[TOKEN]] if is_printed else [request.cookies.get(_cookie(scope), "")]
        return scope if any(map(self._matches, [*given, bearer(request.headers)])) else None

    def entrance(self, request: Request) -> Response | None:
        """Return the response to the printed address, which sets the cookie; None for another request.

        A browser that comes from another site would not send a strict cookie after a redirect, so it gets a page that
        leads on.
        """
        if TOKEN not in request.query_params:
            return None
        is_cross_site = request.headers.get("sec-fetch-site") == "cross-site"
        answer = HTMLResponse(redirect_page("/", ICON)) if is_cross_site else RedirectResponse("/", 303)
        answer.set_cookie(_cookie(request.scope), self.token, httponly=True, samesite="strict")
        return answer

    def _matches(self, text: str) -> bool:
        return is_secret(text, self.token)


def refused_page() -> Response:
    """Return the page for requests without a token."""
    return HTMLResponse(PAGE.format(head="", body=MISSING), 403)


def redirect_page(address: str, icon: str = "") -> str:
    """Return a page that redirects to an address; ``icon`` is the link element of its icon."""
    target = escape(address)
    head = f'{icon}<meta http-equiv="refresh" content="0; url={target}">'
    return PAGE.format(head=head, body=f'<a href="{target}">The runs are shown here.</a>')


def _cookie(scope: Scope) -> str:
    """Return the cookie's name, with the port because browsers share cookies between ports."""
    return f"evopolicygym-{scope['server'][1]}"
