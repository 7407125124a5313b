"""The files of a program that are code, read once each: their names, their units in outline, their lines.

Files that no parser reads, or that are too large for it, count as they are, in every byte.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from evopolicygym.analysis.lineage.episode_index import acts_by_episode
from evopolicygym.analysis.lineage.normal_form import NormalForm, normal_form
from evopolicygym.analysis.lineage.outline import Outline, outline
from evopolicygym.analysis.lineage.units import (
    FileNames,
    ProgramUnit,
    ProjectNames,
    UnitKind,
    names_in,
    names_of_project,
    units_in,
)
from evopolicygym.analysis.policy_files import MOST_PARSED_BYTES, Bundle, File
from evopolicygym.analysis.syntax import MOST_BYTES, parsed

MOST_KNOWN = 1000
"""Codes, files and outlines of files that are remembered, each."""


@dataclass(frozen=True, slots=True)
class ProgramCode:
    """The files of a program that are code."""

    form: NormalForm
    lines: Counter[bytes]
    """How often each line stands in them, without blanks around words; empty lines and comments are left out."""
    is_parsed: bool
    """Whether every Python file can be parsed."""
    acts_by_episode: bool
    """Whether what it does may hang on which episode it plays (``episode_index.py``)."""


@dataclass(frozen=True, slots=True)
class CodeFile:
    """What is known of a Python file by itself."""

    lines: Counter[bytes]
    names: FileNames | None
    """None where it can't be parsed."""
    acts_by_episode: bool = False
    """If it is ``policy.py``."""


Reader = Callable[[str, int], bytes]
"""Returns the content of a file of a bundle, which has at most so many bytes."""
_codes: dict[frozenset[tuple[str, str]], ProgramCode] = {}
_files: dict[str, CodeFile] = {}
_outlines: dict[tuple[str, str, ProjectNames], tuple[Outline, ...]] = {}


def read_code(bundle: Bundle, content: Reader) -> ProgramCode:
    """Return what a bundle's code is like; ``content`` reads one of its files."""
    files = {path: file for path, file in bundle.items() if file.is_code}
    key = frozenset((path, file.sha256) for path, file in files.items())
    if key not in _codes:
        _make_room(_codes)
        _codes[key] = _Reading(files, content).code()
    return _codes[key]


class _Reading:
    """Reads the code of one bundle."""

    def __init__(self, files: Bundle, content: Reader) -> None:
        self._files = files
        self._content = content
        self._trees: dict[str, ast.Module] = {}
        """Of the files that had to be parsed now."""

    def code(self) -> ProgramCode:
        """Return what the code is like."""
        python: dict[str, CodeFile] = {}
        left = MOST_PARSED_BYTES
        for path, file in sorted(self._files.items()):
            if path.endswith(".py") and file.size <= min(MOST_BYTES, left):
                python[path] = self._file(path, file)
                left -= file.size
        names = {path: one.names for path, one in python.items() if one.names}
        project = names_of_project(names)
        units = [unit for path in names for unit in self._outlines(path, project)]
        units += [
            outline(ProgramUnit(UnitKind.TEXT, (path, file.sha256)), ())
            for path, file in sorted(self._files.items())
            if path not in names
        ]
        return ProgramCode(
            form=normal_form(units),
            lines=sum((one.lines for one in python.values()), Counter()),
            is_parsed=all(path in names for path in self._files if path.endswith(".py")),
            acts_by_episode="policy.py" in python and python["policy.py"].acts_by_episode,
        )

    def _file(self, path: str, file: File) -> CodeFile:
        """Return what is known of a file by itself."""
        if file.sha256 not in _files:
            text = self._content(path, file.size)
            tree = parsed(text)
            if tree is not None:
                self._trees[path] = tree
            _make_room(_files)
            lines = Counter(_lines(text))
            names = None if tree is None else names_in(tree)
            _files[file.sha256] = CodeFile(lines, names, acts_by_episode(tree))
        return _files[file.sha256]

    def _outlines(self, path: str, project: ProjectNames) -> tuple[Outline, ...]:
        """Return the units of a file that can be parsed."""
        file = self._files[path]
        key = (path, file.sha256, project)
        if key not in _outlines:
            tree = self._trees.get(path) or parsed(self._content(path, file.size))
            units = units_in(path, tree, project) if tree else ()
            _make_room(_outlines)
            _outlines[key] = tuple(outline(unit, project.own) for unit in units)
        return _outlines[key]


def _make_room(known: dict[Any, Any]) -> None:
    """Forget what is known where it is too much."""
    if len(known) >= MOST_KNOWN:
        known.clear()


def _lines(text: bytes) -> Iterable[bytes]:
    for line in text.splitlines():
        words = line.split()
        if words and not words[0].startswith(b"#"):
            yield b" ".join(words)
