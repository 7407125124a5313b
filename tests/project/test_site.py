"""The site that `make site` builds has the repository's pages, its links work, and it loads nothing from elsewhere."""

import runpy
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from markdown_it import MarkdownIt

from browsers import browser, met
from places import ROOT

pytestmark = pytest.mark.nightly

COUNTED = {"ul", "ol", "li", "table", "tr", "pre", "img", "h2", "h3", "blockquote"}
PLANTED = """
[to no page](nowhere.md), [to no heading](index.md#nowhere)

<img src="https://example.com/picture.png"> <a href="nowhere.html">to no file</a>
"""


class ElementCounter(HTMLParser):
    """Counts elements, of a whole site's page inside its article alone."""

    def __init__(self, *, is_article: bool = False) -> None:
        super().__init__()
        self.counts = Counter[str]()
        self.is_article = is_article

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - the parser's
        self.is_article |= tag == "article"
        if self.is_article and tag in COUNTED:
            self.counts[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        self.is_article &= tag != "article"


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is Python's
        pass


@pytest.fixture(scope="module")
def builder() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "build_site.py"))


def build(site: Path) -> "subprocess.CompletedProcess[str]":
    pytest.importorskip("zensical", reason="Zensical isn't installed; `make site` installs it")
    line = [sys.executable, str(ROOT / "docs" / "build_site.py"), "--output", str(site)]
    return subprocess.run(line, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("docs") / "site"
    done = build(site)

    assert done.returncode == 0, done.stdout + done.stderr
    return site


def counts_of_pages(builder: dict[str, Any], site: Path) -> Iterator[tuple[str, Counter[str], Counter[str]]]:
    markdown = MarkdownIt("commonmark").enable("table")
    for source, place in builder["places"]().items():
        if source.suffix == ".md" and (source.name, place) != ("README.md", "index.md"):
            text = source.read_text(encoding="utf-8")
            code_host, page = ElementCounter(is_article=True), ElementCounter()
            code_host.feed(markdown.render(text.split("---\n", 2)[2] if text.startswith("---\n") else text))
            page.feed((site / "html" / place).with_suffix(".html").read_text(encoding="utf-8"))
            yield place, code_host.counts, page.counts


def test_each_page_has_the_lists_and_tables_that_a_code_host_shows(builder: dict[str, Any], site: Path) -> None:
    """The same markdown has the same lists, tables, pictures and blocks of code on a code host and in the site."""
    pages = list(counts_of_pages(builder, site))

    assert len(pages) > 70
    assert [(place, on_host - in_site) for place, on_host, in_site in pages if on_host != in_site] == []


def test_broken_links_and_remote_pictures_are_found(builder: dict[str, Any], site: Path, tmp_path: Path) -> None:
    """A link to no file or no anchor, and a picture from elsewhere, are problems of a built site."""
    shutil.copytree(site / "html", tmp_path / "html")
    page = tmp_path / "html" / "gallery.html"
    text = page.read_text(encoding="utf-8").replace("</article>", PLANTED + '<a href="#nowhere">there</a></article>')
    page.write_text(text, encoding="utf-8")
    found = list(builder["problems"](tmp_path / "html"))

    assert len(found) == 3, found
    assert sum("example.com" in problem for problem in found) == 1
    assert sum("nowhere" in problem for problem in found) == 2


def test_a_link_to_no_page_stops_the_build(tmp_path: Path) -> None:
    """Zensical's strict mode stops at links of Markdown that lead to no page and to no heading."""
    pytest.importorskip("zensical", reason="Zensical isn't installed; `make site` installs it")
    (tmp_path / "pages").mkdir()
    shutil.copyfile(ROOT / "docs" / "zensical.toml", tmp_path / "zensical.toml")
    line = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", str(tmp_path / "zensical.toml")]
    codes = []
    for text in ("# Home\n", "# Home\n\n[to no page](nowhere.md)\n", "# Home\n\n[to no heading](index.md#nowhere)\n"):
        (tmp_path / "pages" / "index.md").write_text(text, encoding="utf-8")
        codes.append(subprocess.run(line, capture_output=True, check=False).returncode)

    assert [code == 0 for code in codes] == [True, False, False]


@pytest.mark.parametrize("width", [1440, 390])
def test_a_browser_loads_nothing_from_elsewhere(site: Path, width: int) -> None:
    """A browser stays inside the site, no script fails, no page is wider than the screen, and a table is sorted."""
    handler = partial(QuietHandler, directory=site / "html")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, browser() as running:
        Thread(target=server.serve_forever, daemon=True).start()
        with met(running, f"http://127.0.0.1:{server.server_port}", width) as found:
            for page in ("index", "gallery", "reference/api", "architecture", "measure/results"):
                found.open(f"{page}.html", "article")
                assert found.page.evaluate("document.documentElement.scrollWidth") <= width, page
            found.page.click("th.sortable >> nth=1")
            scores = found.page.locator("article tbody >> nth=0").locator("tr td:nth-child(2)").all_inner_texts()
        server.shutdown()

    assert scores[0].startswith("5,367")
    assert scores[-1].startswith("-59.5")
    assert found.said == []
    assert found.left == []
