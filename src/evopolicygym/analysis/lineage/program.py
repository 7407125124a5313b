"""A checkpoint as a program: its normal form, its lines, its data; read from its files, and never run.

Programs are compared by these alone: ``edit_kind.py`` says what kind of change lies between two, ``difference.py`` how
large it is.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from evopolicygym.analysis.lineage.code_files import ProgramCode, Reader, read_code
from evopolicygym.analysis.policy_files import Bundle, read_bundle
from evopolicygym.analysis.syntax import hash_of
from evopolicygym.core import regular_file

MOST_COMPARED = 1 << 18
"""A data file with more bytes is compared as a whole."""
NOTES = frozenset({".md", ".rst"})
"""Suffixes of files that are notes: nothing that a policy does hangs on them."""
NOTED = re.compile(r"(notes?|readme|changelog|todo)[^/]*\.txt", re.IGNORECASE)
WORD = re.compile(rb"[^\s,:;\[\](){}\"']+")


@dataclass(frozen=True, slots=True)
class PolicyProgram:
    """One checkpoint."""

    files: frozenset[tuple[str, str]]
    """Paths with their hashes: two programs with the same are the same in every byte."""
    code: ProgramCode
    data: Mapping[str, Counter[bytes]]
    """Data files by path, with how often each word stands in them; notes are left out."""
    content: str
    """The same for programs that differ in nothing but names, order, annotations, comments and notes."""

    @property
    def topology(self) -> str:
        """The same for programs that differ in literals and data besides."""
        return self.code.form.topology


def read_program(directory: Path, root: Path | None = None) -> PolicyProgram | None:
    """Return the program in a directory; None where there is none, or it is no checkpoint."""
    bundle = read_bundle(directory, root)
    if bundle is None:
        return None
    return program_of(bundle, lambda path, most: regular_file.read(directory / path, most, directory))


def program_of(bundle: Bundle, content: Reader) -> PolicyProgram:
    """Return the program of a bundle; ``content`` reads one of its files."""
    hashes = {path: file.sha256 for path, file in bundle.items()}
    code = read_code(bundle, content)
    data: dict[str, Counter[bytes]] = {}
    parts = [code.form.content]
    for path, file in sorted(bundle.items()):
        if not file.is_code and not is_note(path):
            text = content(path, file.size) if file.size <= MOST_COMPARED else b""
            data[path] = Counter(WORD.findall(text))
            parts.append(f"{path} {_values(path, text) or file.sha256}")
    return PolicyProgram(frozenset(hashes.items()), code, data, hash_of(parts))


def is_note(path: str) -> bool:
    """Return whether a file is there to be read by people."""
    name = PurePosixPath(path).name
    return PurePosixPath(name).suffix.lower() in NOTES or NOTED.fullmatch(name) is not None


def _values(path: str, text: bytes) -> str:
    """Return what a JSON file holds, however it is spelled; empty where it is none, or can't be read."""
    if not path.endswith(".json"):
        return ""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return ""
