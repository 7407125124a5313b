"""What is in a report, and ``report.json``, by which a directory is known to be one.

Pages of any kind are made of this: ``index.py`` writes one for people, and whoever writes others, such as a viewer,
reads ``report.json``, whose paths are relative to the directory. Tables and figures are made in ``analysis/``.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from evopolicygym.core.errors import UsageError
from evopolicygym.records.jsontext import dumps

MARK = "report.json"
FORM = "evopolicygym report 1"
INDEX = "README.md"
PAGE = "index.html"
"""Of the viewer's pages, where they are written beside; their files are found and removed by who writes them."""
TABLES, FIGURES = "tables", "figures"
ORDER = (
    "leaderboard", "families", "tasks", "compare", "headroom", "published", "learning_curve", "learning_families",
    "budget", "edits", "lineage", "topologies", "code", "generalisation", "failures", "cost",
)  # fmt: skip
"""In which parts are read; what isn't named here comes after, by name."""
_GROUP = re.compile(r"_([0-9]+)$")
"""What parts' names end with: the number of their group of comparable runs, from the second on."""
_OURS = re.compile(rf"({TABLES}|{FIGURES})/[A-Za-z0-9_]+\.(csv|json|md|tex|svg|png|pdf)|{re.escape(INDEX)}")


@dataclass(frozen=True, slots=True)
class Part:
    """A table or a figure, as files."""

    name: str
    kind: str
    """``figure`` or ``table``."""
    title: str
    says: str
    """What a reader sees in it: a sentence."""
    computed: str
    """How it was computed: a sentence."""
    files: tuple[str, ...]
    """Relative to the report, the one to be shown first."""


@dataclass(frozen=True, slots=True)
class ReportContents:
    """All that a report holds, and what it stands on."""

    parts: tuple[Part, ...]
    """In reading order."""
    command: str
    versions: Mapping[str, str]
    """Of what made it, by name."""
    runs: int
    """Finished ones."""
    entries: tuple[str, ...]
    """That were played, the best first."""
    tasks: tuple[str, ...]
    """Of the runs; a shipped table beside them may have more."""
    shipped: tuple[str, ...]
    """Sources of the shipped tables that stand beside."""
    isolation: Mapping[str, int]
    """Runs by level."""
    fingerprints: Mapping[str, int]
    """Runs by fingerprint, short for protocol and versions of packages."""
    notes: tuple[str, ...]
    page: str | None
    """Where the viewer's pages of these runs begin; None where they are not beside."""
    problems: tuple[Mapping[str, str], ...]
    """Runs that were left out, with the reason."""

    @property
    def names(self) -> list[str]:
        """The names of parts, in reading order; a table and a figure may share one."""
        return list(dict.fromkeys(part.name for part in self.parts))


def in_order(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return parts in reading order, a figure before its table."""
    place = {name: at for at, name in enumerate(ORDER)}

    def reading(one: Part) -> tuple[int, int, str, str]:
        number = _GROUP.search(one.name)
        name = _GROUP.sub("", one.name)
        return int(number[1]) if number else 1, place.get(name, len(ORDER)), name, one.kind

    return tuple(sorted(parts, key=reading))


def document_text(contents: ReportContents) -> str:
    """Return ``report.json``."""
    return dumps({"form": FORM, **asdict(contents)}, indent=2) + "\n"


def files_of_old(directory: Path, *, force: bool) -> list[str]:
    """Return the files of the report that lies in a directory.

    Raises ``UsageError`` where it holds something that is no report, unless forced.
    """
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file; expected a directory to write the report into.")
    try:
        document = json.loads((directory / MARK).read_text(encoding="utf-8"))
        is_report = document["form"] == FORM
        named = [*(file for part in document["parts"] for file in part["files"]), INDEX] if is_report else []
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        is_report, named = False, []
    if not is_report and directory.is_dir() and any(directory.iterdir()) and not force:
        raise UsageError(
            f"{directory} is not empty and holds no report ({MARK}). Name another directory, or write among what is "
            f"there with --force; files of other names stay."
        )
    return [name for name in named if isinstance(name, str) and _OURS.fullmatch(name)]


def make_room(directory: Path, old: Iterable[str]) -> None:
    """Make a directory ready for a report: the files of an old one go, and from now on it is known to be one."""
    for name in old:
        (directory / name).unlink(missing_ok=True)
    for folder in (directory, directory / TABLES, directory / FIGURES):
        folder.mkdir(parents=True, exist_ok=True)
    (directory / MARK).write_text(dumps({"form": FORM, "parts": []}) + "\n", encoding="utf-8")
