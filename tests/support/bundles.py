"""Bundles of files for tests of diagnostics: laid out as text, and the pairs that were labelled by hand."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.analysis.source import Bundle, read_bundle

Files = Mapping[str, str | bytes]
LONG = "0" * 5000


@dataclass(frozen=True, slots=True)
class Pair:
    """Two bundles, and what the change from one to the other is."""

    name: str
    label: str
    """By the paper's rule."""
    ours: str
    """By ours."""
    before: Files
    after: Files


def lay_out(directory: Path, files: Files) -> Path:
    """Write files below a directory."""
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return directory


def bundle(directory: Path, files: Files) -> Bundle:
    """Write files below a new directory and read them as a bundle."""
    found = read_bundle(lay_out(directory, files))
    assert found is not None
    return found


def labelled_pairs() -> list[Pair]:
    """Return the pairs in ``edit_pairs/``; a text alone is the policy's."""
    documents = [tomllib.loads(path.read_text("utf-8")) for path in sorted(Path(__file__).parent.glob("edit_pairs/*"))]
    return [
        Pair(one["name"], one["label"], one.get("ours", one["label"]), _files(one["before"]), _files(one["after"]))
        for document in documents
        for one in document["pair"]
    ]


def _files(told: str | dict[str, str]) -> Files:
    return told if isinstance(told, dict) else {"policy.py": told.replace("{long}", LONG)}
