"""Build the docs as a site and check it: ``python docs/build_site.py``, or ``make site``.

The pages are those of the repository. Links that leave ``docs/`` lead to copies, headings keep the anchors that a code
host gives them, and the API reference is made from docstrings. The build fails at a broken link, and at anything
that a browser would load from elsewhere. It needs the extra ``docs``.
"""

import argparse
import json
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import evopolicygym
from evopolicygym import errors

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SITE = ROOT / ".site"
SETTINGS = DOCS / "zensical.toml"
HOME = "index.md"
API = "reference/api.md"
ELSEWHERE = {
    "README.md": HOME,
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "results/README.md": "project/records.md",
    "skills/evopolicygym/SKILL.md": "project/skill.md",
    "examples/README.md": "examples/index.md",
}
"""Pages outside of ``docs/``, by their places in the site. README.md is for a code host; links to it lead home."""
SECTIONS = {
    "Use": ("index.md", "gallery.md", "compare.md", "use"),
    "Measure": ("measure",),
    "Extend": ("extend", "architecture.md"),
    "Reference": ("reference",),
    "Examples": ("examples",),
    "Project": ("project", "decisions"),
}
"""The tabs of the site, and the pages and folders below each."""
FOLDERS = {"environments": "Catalogue of environments", "decisions": "Decision records"}
"""Folders whose pages have a heading of their own in the navigation."""

FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
FETCHED = {
    **dict.fromkeys(("script", "img", "source", "video", "audio", "iframe", "embed", "track"), "src"),
    "link": "href",
    "object": "data",
    "use": "href",
    "image": "href",
}
"""The attribute of each element by which a browser loads something."""
FETCHED_BY_STYLES = re.compile(r"(?:url\(|@import\s+)\s*[\"']?((?:https?:)?//[^\"')\s]+)")
NOT_FETCHED = {"canonical", "next", "prev", "alternate"}
"""Relations of a ``link`` that a browser doesn't load."""
REMOTE_COMPONENTS = {"mermaid", "glightbox", "pyodide"}
"""Classes of elements for which the theme's script would load a library from elsewhere."""


class Page(NamedTuple):
    """A page of the built site: what it links to, what it loads, its anchors, and the classes of its elements."""

    links: list[str]
    fetched: list[str]
    anchors: set[str]
    classes: set[str]


class PageParser(HTMLParser):
    """Collects what a page links to and loads."""

    def __init__(self) -> None:
        super().__init__()
        self.page = Page([], [], set(), set())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element's links, loads, anchors and classes."""
        held = {name: value or "" for name, value in attrs}
        self.page.anchors.update(held[name] for name in ("id", "name") if name in held)
        self.page.classes.update(held.get("class", "").split())
        if tag == "a" and "href" in held:
            self.page.links.append(held["href"])
        address = held.get(FETCHED.get(tag, ""), "")
        if address and not (tag == "link" and set(held.get("rel", "").split()) & NOT_FETCHED):
            self.page.fetched.append(address)
        self.page.fetched.extend(part.split()[0] for part in held.get("srcset", "").split(",") if part.strip())


def slugs(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each heading of a page with the anchor that GitHub gives it."""
    found = dict[str, int]()
    for heading in HEADING.finditer(without_fences(text)):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[2]).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        yield heading, f"{slug}-{found[slug]}" if slug in found else slug
        found[slug] = found.get(slug, 0) + 1


def without_fences(text: str) -> str:
    """Return the text of a page with spaces for what stands in fences, so that offsets stay."""
    return FENCE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def places() -> dict[Path, str]:
    """Return the files of the repository that the site has, each with its place in it."""
    pages = {file: file.relative_to(DOCS).as_posix() for file in sorted(DOCS.rglob("*.md"))}
    folders = sorted({DOCS / "assets", *DOCS.rglob("pictures")})
    shown = [*sorted(DOCS.rglob("*.json")), *(file for folder in folders for file in sorted(folder.rglob("*")))]
    files = {file: file.relative_to(DOCS).as_posix() for file in shown if file.is_file()}
    scripts = {file: f"examples/{file.stem}.md" for file in sorted((ROOT / "examples").glob("[0-9]*.py"))}
    return {**pages, **files, **{ROOT / file: place for file, place in ELSEWHERE.items()}, **scripts}


def page_text(source: Path, known: dict[Path, str]) -> str:
    """Return a page's text for the site: an anchor for each heading, and links to the places of the site."""
    text = source.read_text(encoding="utf-8")
    if source.suffix == ".py":
        return f"# {source.name}\n\n```python\n{text}```\n"
    edits = [(heading.end(), heading.end(), f" {{#{slug}}}") for heading, slug in slugs(text)]
    for link in LINK.finditer(without_fences(text)):
        path, mark, anchor = link[1].partition("#")
        target = (source.parent / path).resolve()
        if path and ":" not in path and target in known:
            edits.append((*link.span(1), f"{relative(known[target], known[source])}{mark}{anchor}"))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def relative(target: str, page: str) -> str:
    """Return the address of a place of the site from a page of it."""
    return posixpath.relpath(target, posixpath.dirname(page) or ".")


def api_page() -> str:
    """Return the page of the API reference: an entry for each public name, filled from its docstring."""
    head = "Made from docstrings; [Python](python.md) explains the same names with examples."
    names = sorted(set(evopolicygym.__all__) - {"__version__", "errors"}, key=str.lower)
    entries = [f"::: {getattr(evopolicygym, name).__module__}.{name}" for name in names]
    raised = [
        f"::: {getattr(errors, name).__module__}.{name}\n    options: {{heading_level: 3}}"
        for name in sorted(errors.__all__)
    ]
    of_errors = "::: evopolicygym.errors\n    options: {members: false}"
    return "\n\n".join(["# Python API, all names", head, *entries, of_errors, *raised]) + "\n"


def navigation(pages: dict[str, str]) -> list[dict[str, object]]:
    """Return the navigation: tabs, and below each its pages by the order of README.md, then by name."""
    order = {place: number for number, place in enumerate(_linked_from_readme())}
    ranked = sorted(pages, key=lambda place: (order.get(place, len(order)), place))
    tabs: list[dict[str, object]] = []
    for title, tops in SECTIONS.items():
        entries: list[object] = []
        for top in tops:
            inside = [place for place in ranked if place == top or place.startswith(f"{top}/")]
            folded = dict[str, list[dict[str, str]]]()
            for place in inside:
                folder = next((name for name in FOLDERS if f"/{name}/" in f"/{place}"), None)
                if folder:
                    folded.setdefault(FOLDERS[folder], []).append({pages[place]: place})
                else:
                    entries.append({pages[place]: place})
            entries += [{name: below} for name, below in folded.items()]
        tabs.append({title: entries})
    return tabs


def stage(site: Path) -> None:
    """Write the pages, and the builder's settings with the navigation, into ``site``."""
    shutil.rmtree(site, ignore_errors=True)
    known = places()
    titles = dict[str, str]()
    for source, place in known.items():
        if source.name == "README.md" and place == HOME:
            continue
        target = site / "pages" / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if place.endswith(".md"):
            target.write_text(page_text(source, known), encoding="utf-8")
            titles[place] = title_of(target)
        else:
            shutil.copyfile(source, target)
    (site / "pages" / API).write_text(api_page(), encoding="utf-8")
    titles[API] = title_of(site / "pages" / API)
    settings = SETTINGS.read_text(encoding="utf-8")
    nav = f"[project]\nnav = {in_toml(navigation(titles))}"
    (site / "zensical.toml").write_text(settings.replace("[project]", nav, 1), encoding="utf-8")


def title_of(page: Path) -> str:
    """Return the title of a page."""
    heading = HEADING.search(without_fences(page.read_text(encoding="utf-8")))
    return re.sub(r" \{#[^}]*\}$|[`\\]", "", heading[2]) if heading else page.stem


def in_toml(value: object) -> str:
    """Return lists, tables and texts as TOML."""
    match value:
        case dict():
            return f"{{ {', '.join(f'{json.dumps(name)} = {in_toml(part)}' for name, part in value.items())} }}"
        case list():
            return f"[{', '.join(map(in_toml, value))}]"
        case _:
            return json.dumps(value)


def problems(html: Path) -> Iterator[str]:
    """Yield each link of a built site that leads nowhere, and each thing that a browser would load from elsewhere."""
    for file in sorted(html.rglob("*.html")):
        page = read_page(file)
        place = file.relative_to(html).as_posix()
        for address in page.fetched:
            if urlsplit(address).netloc:
                yield f"{place}: a browser would load {address}"
        for name in sorted(page.classes & REMOTE_COMPONENTS):
            yield f"{place}: the theme would load a library from elsewhere for {name}"
        for address in [*page.links, *page.fetched]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            path = unquote(parts.path)
            target = file if not path else html / path.lstrip("/") if path.startswith("/") else (file.parent / path)
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                yield f"{place}: the link {address} leads to no file"
            elif parts.fragment and target.suffix == ".html":
                anchors = read_page(target.resolve()).anchors
                if unquote(parts.fragment) not in anchors | {"__top"}:
                    yield f"{place}: the link {address} leads to no anchor"
    for file in sorted(html.rglob("*.css")):
        for address in FETCHED_BY_STYLES.findall(file.read_text(encoding="utf-8")):
            yield f"{file.relative_to(html).as_posix()}: a browser would load {address}"


@cache
def read_page(file: Path) -> Page:
    """Return what a built page links to and loads."""
    parser = PageParser()
    parser.feed(file.read_text(encoding="utf-8"))
    return parser.page


def _linked_from_readme() -> Iterator[str]:
    known = places()
    for link in LINK.finditer((ROOT / "README.md").read_text(encoding="utf-8")):
        target = (ROOT / link[1].partition("#")[0]).resolve()
        if target in known:
            yield known[target]


def main() -> int:
    """Build the site, print its problems, and return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=SITE, metavar="DIR", help="default: .site")
    site = parser.parse_args().output.resolve()
    stage(site)
    line = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", str(site / "zensical.toml")]
    if code := subprocess.run(line, check=False).returncode:
        return code
    found = list(problems(site / "html"))
    sys.stdout.writelines(f"{problem}\n" for problem in found)
    pages = len(list((site / "html").rglob("*.html")))
    print(f"{pages} pages in {site / 'html'}, problems: {len(found)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
