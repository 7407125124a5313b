"""Who is asking: what each header of a request shows, and nothing else."""

import pytest
from starlette.datastructures import Headers

from evopolicygym.serving import guard


def headers(*lines: tuple[str, str]) -> Headers:
    return Headers(raw=[(name.encode(), value.encode("latin-1")) for name, value in lines])


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:8000", True),
        ("localhost:1", True),
        ("localhost.evil.example:8000", False),
        ("127.0.0.1:8000\n", False),
        ("127.0.0.1:123456", False),
        ("", False),
    ],
)
def test_host(host: str, *, is_ours: bool) -> None:
    """Only the two names of this machine's loopback are its own, with a port or without."""
    assert guard.is_for_this_machine(headers(("host", host))) == is_ours


def page(host: str, **more: str) -> bool:
    """Return whether a request to port 80 counts as one of the server's own pages."""
    lines = [("host", host), *((name.replace("_", "-"), value) for name, value in more.items())]
    raw = [(name.encode(), value.encode()) for name, value in lines]
    return guard.is_from_own_page({"type": "http", "path": "/x", "headers": raw, "server": ("127.0.0.1", 80)})


def test_own_pages() -> None:
    """A server with pages answers them at its port alone, and no page of another host or port."""
    assert page("localhost:80", origin="http://localhost:80", sec_fetch_site="same-origin")
    assert not page("localhost:81")
    assert not page("localhost")
    assert not page("localhost:80", origin="http://localhost:81")
    assert not page("localhost:80", sec_fetch_site="cross-site", sec_fetch_mode="navigate")


def test_origin() -> None:
    """A page of the host that is named is no other's; a second origin beside it is."""
    own, other = ("origin", "http://localhost:80"), ("origin", "http://evil.example")
    host = ("host", "localhost:80")

    assert guard.is_from_program(headers(host))
    assert not guard.is_from_program(headers(host, own))
    assert not guard.has_other_origin(headers(host, own))
    assert guard.has_other_origin(headers(host, own, other))


def test_what_led_to_a_request() -> None:
    """A request that says nothing of it is allowed, and one that says two things must be allowed both."""
    assert guard.fetch_site_allowed(headers(), guard.NO_PAGE)
    assert guard.fetch_site_allowed(headers(("sec-fetch-site", "same-origin")), guard.OWN_PAGES)
    assert not guard.fetch_site_allowed(headers(("sec-fetch-site", "same-origin")), guard.NO_PAGE)
    assert not guard.fetch_site_allowed(
        headers(("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")), guard.OWN_PAGES
    )


def test_secret() -> None:
    """A text is the secret or it isn't, whatever characters a client sends."""
    assert guard.is_secret("abc", "abc")
    assert guard.is_secret(b"abc", "abc")
    assert not guard.is_secret("ab\ud800", "abc")
    assert not guard.is_secret("", "abc")
