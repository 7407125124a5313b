"""Static pages: the viewer as a directory or a single file, for a browser without a server.

The page is ``static/index.html`` with all modules and styles inlined. Pages from a disk can't import or fetch files, so
each module is a data URL in the page's import map. A policy in the page forbids all other scripts and loads.
"""

import base64
import hashlib
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from evopolicygym.core.check_result import ProgressTracker, no_progress
from evopolicygym.core.errors import UsageError
from evopolicygym.core.strict_json import dumps
from evopolicygym.viewer.documents.documents import Documents
from evopolicygym.viewer.documents.overview import RunIndex
from evopolicygym.viewer.documents.suite import settings_bundle
from evopolicygym.viewer.site.document_cache import (
    CachedDocument,
    CachedFilm,
    CacheTally,
    DocumentCache,
    Episodes,
    SuiteDocuments,
)
from evopolicygym.viewer.site.static_files import static_files

PAGE = "index.html"
DATA, FILMS = "data", "film"
MARK = f"{DATA}/pages.json"
"""Marks a directory of pages."""
FORM = "evopolicygym pages 1"
MOST_BYTES = 256 << 20
"""The default size limit of documents and films in a directory."""
MOST_BYTES_SINGLE = 32 << 20
"""The default size limit of documents in a single file."""
_IMPORTED = re.compile(r'(\bfrom ")\./([a-z_]+\.js";)')
_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src {styles}; img-src data: {sources}; media-src {sources}; "
    "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types documents"
)
_OURS = ((DATA, "*.js"), (FILMS, "*.mp4"))


@dataclass(frozen=True, slots=True)
class Pages:
    """The contents of static pages."""

    runs: Sequence[Path]
    """Runs, or directories with runs below."""
    tables: Sequence[str] = ()
    """Names of shipped tables to show; they have the leaderboard with these tables and the one without any."""
    episodes: Episodes = Episodes.SELECTED
    most_bytes: int | None = None
    """None for the default."""
    report: Sequence[Mapping[str, Any]] = ()
    """The parts of the report in the same directory."""


def write_pages(directory: Path, pages: Pages, follow: ProgressTracker = no_progress) -> CacheTally:
    """Write ``index.html`` with documents and films into a directory, and remove those of earlier pages."""
    cache, common, settings = _prepare_documents(pages, MOST_BYTES, follow, films=True)
    clear_pages(directory)
    (directory / DATA).mkdir(parents=True, exist_ok=True)
    (directory / MARK).write_text(dumps({"form": FORM}) + "\n", encoding="utf-8")
    page = directory / PAGE
    page.write_text("".join(shell(settings, single=False)), encoding="utf-8")
    cache.tally.written = page.stat().st_size
    for item in chain(common.documents, common.films, cache.of_runs(common.runs, follow)):
        path = directory / item.address
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(item, CachedFilm):
            shutil.copyfile(item.path, path)
        else:
            path.write_text(document_script(item.name, item.packed), encoding="utf-8")
        cache.tally.written += path.stat().st_size
    return cache.tally


def write_single_file(file: Path, pages: Pages, follow: ProgressTracker = no_progress) -> CacheTally:
    """Write the pages as a single file without films; raise ``UsageError`` if it is a directory."""
    if file.is_dir():
        raise UsageError(f"{file} is a directory; expected a file to write the pages into, such as runs.html.")
    cache, common, settings = _prepare_documents(pages, MOST_BYTES_SINGLE, follow, films=False)
    beginning, end = shell(settings, single=True)
    documents = chain(common.documents, cache.of_runs(common.runs, follow))
    blocks = (block(document.name, document.packed) for document in documents if isinstance(document, CachedDocument))
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f"{file.name}.part")
    try:
        with unfinished.open("w", encoding="utf-8") as page:
            page.writelines(chain([beginning], blocks, [end]))
        unfinished.replace(file)
        cache.tally.written = file.stat().st_size
    finally:
        unfinished.unlink(missing_ok=True)
    return cache.tally


def clear_pages(directory: Path) -> None:
    """Remove the files of pages from a directory; other files are kept."""
    if not (directory / MARK).is_file():
        return
    for folder, pattern in _OURS:
        if (directory / folder).is_symlink():
            continue
        for path in sorted((directory / folder).rglob(pattern)):
            path.unlink()
        _remove_empty(directory / folder)
    for name in (PAGE, MARK):
        (directory / name).unlink(missing_ok=True)
    _remove_empty(directory / DATA)


def _remove_empty(folder: Path) -> None:
    for path in sorted([folder, *folder.rglob("*")], reverse=True):
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()


def _prepare_documents(
    pages: Pages, usual_bytes: int, follow: ProgressTracker, *, films: bool
) -> tuple[DocumentCache, SuiteDocuments, Mapping[str, Any]]:
    """Return the cache, the documents of all runs, and the page's index of documents."""
    most_bytes = pages.most_bytes or usual_bytes
    index = RunIndex(pages.runs)
    settings = settings_bundle(pages.tables, are_kept=True)
    cache = DocumentCache(Documents(index), pages.episodes, most_bytes, films=films)
    common = cache.common(settings["tables"], follow)
    shown = {
        "settings": {**settings, "paths": index.without_roots(index.words()), "report": list(pages.report)},
        "common": {document.name: document.address for document in common.documents},
        "problems": common.problems,
        "runs": common.runs,
        "left_out": _left_out_message(pages.episodes, most_bytes),
    }
    return cache, common, shown


def _left_out_message(episodes: Episodes, most_bytes: int) -> str:
    """Return the page's message for a document that was left out."""
    which = {
        Episodes.NONE: "the steps of no episode",
        Episodes.SELECTED: "the steps of the selected checkpoint's episodes",
        Episodes.ALL: "the steps of all episodes",
    }[episodes]
    return (
        f"This was left out when these pages were written. They hold {which}, comparisons of the best runs of a task, "
        f"and {most_bytes / (1 << 20):g} MB at most. More is written with evopolicygym report --episodes all and a "
        f"larger --most-mb; evopolicygym view shows all."
    )


def shell(kept: Mapping[str, Any], *, single: bool) -> tuple[str, str]:
    """Return the page's text before and after its documents.

    ``kept`` is the index of documents for the modules. With ``single``, all documents are in the page, so that its
    policy forbids loading files.
    """
    files = {name: content.decode() for name, content in static_files().items()}
    modules = {name: _address("text/javascript", _bare(text)) for name, text in files.items() if name.endswith(".js")}
    imports = _as_script_text({"imports": modules})
    begin = 'import "main.js";'
    style = files["style.css"]
    sources = "" if single else " 'self' file:"  # not every browser accepts 'self' for a page on a disk
    policy = _POLICY.format(
        scripts=f"data: {_hash(imports)} {_hash(begin)}{sources}", styles=_hash(style), sources=sources
    )
    text = files["index.html"]
    for before, after in (
        (
            '<meta charset="utf-8">',
            f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">',
        ),
        ('href="static/icon.svg"', f'href="{_address("image/svg+xml", files["icon.svg"])}"'),
        ('<link rel="stylesheet" href="static/style.css">', f"<style>{style}</style>"),
        (
            '<script type="module" src="static/main.js"></script>',
            f'<script type="importmap">{imports}</script>\n<script type="module">{begin}</script>',
        ),
    ):
        text = _replace_once(text, before, after)
    beginning, end = text.split("</body>")
    data = f'<script type="application/json" id="kept">{_as_script_text(kept)}</script>\n'
    return beginning + data, f"</body>{end}"


def block(name: str, packed: str) -> str:
    """Return an element with a document, whose name is escaped because it can be untrusted."""
    return f'<script type="text/plain" id="kept/{_attribute(name)}">{packed}</script>\n'


def document_script(name: str, packed: str) -> str:
    """Return a script that passes a document to the page."""
    return f"evopolicygymDocument({_as_script_text(name)},{_as_script_text(packed)});\n"


def _as_script_text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return JSON that is safe inside a script element and valid JavaScript."""
    text = dumps(value)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _attribute(text: str) -> str:
    return "".join(
        char if char.isascii() and (char.isalnum() or char in "/-._,") else f"&#{ord(char)};" for char in text
    )


def _bare(module: str) -> str:
    """Return a module whose imports use the names of the import map."""
    return _IMPORTED.sub(r"\1\2", module)


def _address(kind: str, text: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(text.encode()).decode('ascii')}"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"


def _replace_once(text: str, before: str, after: str) -> str:
    if text.count(before) != 1:
        raise AssertionError(f"static/index.html has not exactly one {before!r}")
    return text.replace(before, after)
