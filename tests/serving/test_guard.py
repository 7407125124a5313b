"""Who is asking: what each header of a request shows, and nothing else."""

import pytest
from starlette.datastructures import Headers

from evopolicygym.serving import http_server


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
    assert http_server.is_for_this_machine(headers(("host", host))) == is_ours


def test_host_at_a_port() -> None:
    """Where a port is asked for, it must be named, and no host at all is none of ours."""
    assert http_server.is_for(headers(("host", "localhost:80")), 80)
    assert not http_server.is_for(headers(("host", "localhost:81")), 80)
    assert not http_server.is_for(headers(("host", "localhost")), 80)
    assert not http_server.is_for(headers(), None)


def test_origin() -> None:
    """A page of the host that is named is no other's; a second origin beside it is."""
    own, other = ("origin", "http://localhost:80"), ("origin", "http://evil.example")
    host = ("host", "localhost:80")

    assert not http_server.has_origin(headers(host))
    assert http_server.has_origin(headers(host, own))
    assert not http_server.has_other_origin(headers(host, own))
    assert http_server.has_other_origin(headers(host, own, other))


def test_what_led_to_a_request() -> None:
    """A request that says nothing of it is allowed, and one that says two things must be allowed both."""
    assert http_server.fetch_site_allowed(headers(), http_server.NO_PAGE)
    assert http_server.fetch_site_allowed(headers(("sec-fetch-site", "same-origin")), http_server.OWN_PAGES)
    assert not http_server.fetch_site_allowed(headers(("sec-fetch-site", "same-origin")), http_server.NO_PAGE)
    assert not http_server.fetch_site_allowed(
        headers(("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")), http_server.OWN_PAGES
    )


def test_secret() -> None:
    """A text is the secret or it isn't, whatever characters a client sends."""
    assert http_server.is_secret("abc", "abc")
    assert http_server.is_secret(b"abc", "abc")
    assert not http_server.is_secret("ab\ud800", "abc")
    assert not http_server.is_secret("", "abc")
