"""A real browser for tests of pages, and what it met: words on the console, requests that left the page's origin."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from places import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip
PATIENCE_MS = 120_000
PAUSE_MS = 50
AXE = ROOT / ".tools" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
"""The script of axe-core, as `make axe` installs it."""


@dataclass(slots=True)
class Met:
    """A page, and what it said and asked for that it should not have."""

    page: "Page"
    address: str
    said: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def open(self, route: str, until: str) -> None:
        """Go to a page of the viewer and wait for an element of it."""
        self.page.goto(f"{self.address}{'' if self.address.endswith('.html') else '/'}{route}")
        self.page.wait_for_selector(until)

    def until(self, holds: str) -> None:
        """Wait until an expression holds in the page; its own policy forbids what the driver would do it with."""
        for _ in range(PATIENCE_MS // PAUSE_MS):
            if self.page.evaluate(holds):
                return
            self.page.wait_for_timeout(PAUSE_MS)
        pytest.fail(f"It never came to hold: {holds}")


def browser_path() -> str:
    """Return where the browser is; skip the test where there is none."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no chromium on this machine: apt-get install chromium, or name one in CHROMIUM")
    return found


@contextmanager
def browser() -> "Iterator[Browser]":
    """Start a browser; skip the test where it or what drives it is not there."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = browser_path()
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=path, args=list(ARGUMENTS), timeout=PATIENCE_MS)
        try:
            yield running
        finally:
            running.close()


@contextmanager
def met(running: "Browser", address: str, width: int = 1280, scheme: str = "light") -> Iterator[Met]:
    """Open a page, and demand at the end that it said nothing on the console and asked nobody else for anything.

    The address of a site that wants a token holds it.
    """
    context = running.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    address, _, token = address.partition("/?token=")
    if token:
        assert context.request.get(f"{address}/?token={token}", timeout=PATIENCE_MS).ok
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    found = Met(page, address)
    page.on("console", lambda message: found.said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: found.said.append(str(error)))
    page.on("request", lambda request: _check(found, request.url))
    try:
        yield found
    finally:
        context.close()

    assert found.said == [], found.said
    assert found.left == [], found.left


def axe() -> str:
    """Return the script of axe-core; skip the test where it isn't installed."""
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: make axe")
    return AXE.read_text(encoding="utf-8")


def _check(found: Met, url: str) -> None:
    """Note what a served page asks of another origin, and what a page on a disk asks outside of its directory."""
    place = urlsplit(found.address)
    inside = found.address.rpartition("/")[0] + "/" if place.scheme == "file" else f"{place.scheme}://{place.netloc}/"
    if not url.startswith(("data:", inside)):
        found.left.append(url)
