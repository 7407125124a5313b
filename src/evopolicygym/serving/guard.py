"""What a request shows of who sends it: the host that it names, the page that it comes from, the secret that it holds.

Servers on this machine's loopback can be reached by every user of the machine, and by every page that one of them opens
in a browser, which may have any name lead here. Which requests an endpoint answers, in which order it looks and what it
says to the others are not decided here but by each endpoint.
"""

import hmac
import re
from collections.abc import Collection

from starlette.datastructures import Headers

HOST = re.compile(r"(?:127\.0\.0\.1|localhost)(?::[0-9]{1,5})?")
"""This machine, as a request names it."""
PORT = re.compile(r":[0-9]{1,5}\Z")
UNLED = {"none"}
"""``Sec-Fetch-Site`` of a request that no page led to; programs that are no browser send no such header."""
OWN = {"none", "same-origin"}
"""The same, of requests by an endpoint's own pages too."""


def is_for_this_machine(headers: Headers, others: Collection[str] = ()) -> bool:
    """Return whether a request names this machine, or one of some other hosts, as its host, at any port."""
    named = headers.get("host", "")
    return HOST.fullmatch(named) is not None or PORT.sub("", named) in others


def is_for(headers: Headers, port: int | None) -> bool:
    """Return whether a request names this machine's ``port`` as its host."""
    return headers.get("host", "") in {f"127.0.0.1:{port}", f"localhost:{port}"}


def has_origin(headers: Headers) -> bool:
    """Return whether a request says from which page it comes, as browsers have it say."""
    return "origin" in headers


def has_other_origin(headers: Headers) -> bool:
    """Return whether a request comes from a page of another host than the one that it names."""
    own = f"http://{headers.get('host', '')}"
    return any(origin != own for origin in headers.getlist("origin"))


def is_led_by(headers: Headers, allowed: set[str]) -> bool:
    """Return whether a request says nothing of what led to it, or only what is allowed: ``UNLED`` or ``OWN``."""
    return set(headers.getlist("sec-fetch-site")) <= allowed


def is_secret(given: str | bytes, secret: str) -> bool:
    """Return whether a text that a client sent is the secret, in a time that doesn't tell how much of it is right."""
    sent = given.encode("utf-8", "replace") if isinstance(given, str) else given
    return hmac.compare_digest(sent, secret.encode())
