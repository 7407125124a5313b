"""Static pages: the viewer's, on a disk, for a browser without a server: a directory, or one file."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from evopolicygym.core.errors import UsageError
from evopolicygym.core.follow import Follow, unseen
from evopolicygym.records.jsontext import dumps
from evopolicygym.viewer.documents.documents import Documents
from evopolicygym.viewer.documents.overview import RunIndex
from evopolicygym.viewer.documents.suite import settings_bundle
from evopolicygym.viewer.site.document_cache import CachedFilm, CacheTally, DocumentCache, Episodes, SuiteDocuments
from evopolicygym.viewer.site.shell import block, handed_over, shell

PAGE = "index.html"
DATA, FILMS = "data", "film"
MARK = f"{DATA}/pages.json"
"""By which a directory is known to hold pages."""
FORM = "evopolicygym pages 1"
MOST_BYTES = 256 << 20
"""Of the documents and films in a directory, where nothing else is asked for."""
MOST_BYTES_SINGLE = 32 << 20
"""Of the documents in a single file, likewise."""
_OURS = ((DATA, "*.js"), (FILMS, "*.mp4"))


@dataclass(frozen=True, slots=True)
class Pages:
    """What static pages are to show."""

    runs: Sequence[Path]
    """Runs, or directories with runs below."""
    beside: Sequence[str] = ()
    """Shipped tables that stand beside at first, by name."""
    episodes: Episodes = Episodes.SELECTED
    most_bytes: int | None = None
    """None for what is usual."""
    report: Sequence[Mapping[str, Any]] = ()
    """The parts of the report that lies in the same directory."""


def write_pages(directory: Path, pages: Pages, follow: Follow = unseen) -> CacheTally:
    """Write the pages into a directory: ``index.html``, with documents and films beside it; those of old pages go."""
    keeper, common, kept = _begun(pages, pages.most_bytes or MOST_BYTES, follow, films=True)
    clear_pages(directory)
    (directory / DATA).mkdir(parents=True, exist_ok=True)
    (directory / MARK).write_text(dumps({"form": FORM}) + "\n", encoding="utf-8")
    page = "".join(shell(kept, single=False))
    (directory / PAGE).write_text(page, encoding="utf-8")
    keeper.tally.written = len(page.encode())
    for one in chain(common.documents, common.films, keeper.of_runs(common.runs, follow)):
        path = directory / one.address
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(one, CachedFilm):
            shutil.copyfile(one.path, path)
        else:
            path.write_text(handed_over(one.name, one.packed), encoding="utf-8")
        keeper.tally.written += path.stat().st_size
    return keeper.tally


def write_single_file(file: Path, pages: Pages, follow: Follow = unseen) -> CacheTally:
    """Write the pages as one file, which holds no films; raise ``UsageError`` where it can't stand there."""
    if file.is_dir():
        raise UsageError(f"{file} is a directory; expected a file to write the pages into, such as runs.html.")
    keeper, common, kept = _begun(pages, pages.most_bytes or MOST_BYTES_SINGLE, follow, films=False)
    beginning, end = shell(kept, single=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f"{file.name}.part")
    try:
        with unfinished.open("w", encoding="utf-8") as page:
            page.write(beginning)
            for one in chain(common.documents, common.films, keeper.of_runs(common.runs, follow)):
                if not isinstance(one, CachedFilm):
                    page.write(block(one.name, one.packed))
            page.write(end)
        unfinished.replace(file)
        keeper.tally.written = file.stat().st_size
    finally:
        unfinished.unlink(missing_ok=True)
    return keeper.tally


def clear_pages(directory: Path) -> None:
    """Remove the files of pages that lie in a directory; all others stay."""
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


def _begun(
    pages: Pages, most_bytes: int, follow: Follow, *, films: bool
) -> tuple[DocumentCache, SuiteDocuments, Mapping[str, Any]]:
    settings = settings_bundle(pages.beside)
    keeper = DocumentCache(Documents(RunIndex(pages.runs)), pages.episodes, most_bytes, films=films)
    common = keeper.common([one["name"] for one in settings["shipped"]], follow)
    kept = {
        "settings": {**settings, "report": list(pages.report)},
        "common": {one.name: one.address for one in common.documents},
        "problems": common.problems,
        "runs": common.runs,
        "left_out": _left_out(pages.episodes, most_bytes),
    }
    return keeper, common, kept


def _left_out(episodes: Episodes, most_bytes: int) -> str:
    """Return what a page says of a document that is not there."""
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
