"""Names, tags and notes that a reader gives a run: in a file beside its directory, no part of the record."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.strict_json import dumps
from evopolicygym.records import atomic

MOST_BYTES = 64 << 10
MOST_NAME, MOST_TAG, MOST_NOTE = 100, 40, 4000
"""Most characters of each."""
MOST_TAGS = 32


@dataclass(frozen=True, slots=True)
class RunLabels:
    """What a reader calls a run and notes about it."""

    name: str = ""
    tags: tuple[str, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        """Raise ``UsageError`` where a text is too long, or a tag is empty."""
        texts = [("name", self.name, MOST_NAME), ("note", self.note, MOST_NOTE)]
        for what, text, most in [*texts, *(("tag", tag, MOST_TAG) for tag in self.tags)]:
            if len(text) > most or (what == "tag" and not text.strip()):
                least = 1 if what == "tag" else 0
                raise UsageError(f"Invalid {what}: expected {least} to {most} characters, got {len(text)}.")
        if len(self.tags) > MOST_TAGS:
            raise UsageError(f"Invalid tags: expected at most {MOST_TAGS}, got {len(self.tags)}.")


def labels_path(run: Path) -> Path:
    """Return the file beside a run directory."""
    return run.with_name(f"{run.name}.labels.json")


def read_labels(run: Path) -> RunLabels:
    """Return a run's labels; empty ones where there is no such file, or nothing that can be read as one."""
    try:
        document = json.loads(regular_file.read(labels_path(run), MOST_BYTES))
        name, tags, note = document["name"], document["tags"], document["note"]
        if isinstance(tags, list) and all(isinstance(text, str) for text in (name, note, *tags)):
            return RunLabels(name, tuple(dict.fromkeys(tags)), note)
    except (OSError, RecordError, UsageError, ValueError, RecursionError, KeyError, TypeError):
        pass
    return RunLabels()


def write_labels(run: Path, labels: RunLabels) -> None:
    """Replace a run's labels; empty ones remove the file."""
    if labels == RunLabels():
        labels_path(run).unlink(missing_ok=True)
    else:
        atomic.write_text(labels_path(run), dumps(asdict(labels)) + "\n")


def change_labels(
    labels: RunLabels, name: str | None, tags: Sequence[str], without: Sequence[str], note: str | None
) -> RunLabels:
    """Return labels with another name or note where given, and with tags added and removed."""
    kept = [tag for tag in dict.fromkeys([*labels.tags, *tags]) if tag not in without]
    return RunLabels(labels.name if name is None else name, tuple(kept), labels.note if note is None else note)
