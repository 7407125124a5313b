"""A checkpoint as a program: its normal form, its lines, its data; read from its files, and never run.

Each file of code is read once. Files that can't be parsed, or are too large, count by their bytes. A policy *acts by
episode* if the first argument of its ``reset``, or an attribute that keeps it, decides something: in a condition, a
comparison, a remainder or an index. Such a checkpoint can be several programs in one: a comparison on train cases that
is worth little on hidden ones. Values passed on to other functions are not followed.
"""

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path, PurePosixPath
from typing import Any

from evopolicygym.analysis.lineage.normal_form import (
    FileNames,
    NormalForm,
    Outline,
    ProgramUnit,
    ProjectNames,
    UnitKind,
    names_in,
    names_of_project,
    normal_form,
    outline,
    units_in,
)
from evopolicygym.analysis.source import (
    MOST_BYTES,
    MOST_PARSED_BYTES,
    Bundle,
    File,
    bundle_of,
    hash_of,
    parse_module,
    read_bundle,
)
from evopolicygym.core import regular_file
from evopolicygym.records.reader import RunRecord


def acts_by_episode(policy: ast.Module | None) -> bool:
    """Return whether ``policy.py`` may act differently by the episode's number; False if it can't be parsed."""
    if policy is None:
        return False
    classes = (node for node in policy.body if isinstance(node, ast.ClassDef) and node.name == "Policy")
    return any(_decides(definition) for definition in classes)


def _decides(policy: ast.ClassDef) -> bool:
    resets = [node for node in policy.body if isinstance(node, ast.FunctionDef) and node.name == "reset"]
    for reset in resets:
        parameters = [*reset.args.posonlyargs, *reset.args.args]
        if len(parameters) < 2:  # noqa: PLR2004 - itself and the number
            continue
        names, attributes = _index_names(reset, parameters[1].arg)
        inside = any(_holds_index(node, names, attributes) for part in _decisions(reset) for node in ast.walk(part))
        if inside or any(
            _holds_index(node, set(), attributes) for part in _decisions(policy) for node in ast.walk(part)
        ):
            return True
    return False


def _index_names(reset: ast.FunctionDef, name: str) -> tuple[set[str], set[str]]:
    """Return the names and the attributes that the number is directly assigned to."""
    names, attributes = {name}, set[str]()
    for node in ast.walk(reset):
        if not isinstance(node, ast.Assign):
            continue
        for target, value in _assignments(node):
            if not _holds_index(value, names, attributes):
                continue
            if isinstance(target, ast.Name):
                names.add(target.id)
            elif isinstance(target, ast.Attribute):
                attributes.add(target.attr)
    return names, attributes


def _assignments(node: ast.Assign) -> Iterable[tuple[ast.expr, ast.expr]]:
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        else:
            yield target, node.value


def _decisions(part: ast.AST) -> Iterable[ast.AST]:
    """Yield the expressions that decide something in a part of a program."""
    for node in ast.walk(part):
        match node:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.Match(subject=test):
                yield test
            case ast.Compare():
                yield node
            case ast.BinOp(op=ast.Mod() | ast.FloorDiv()):
                yield node
            case ast.Subscript(slice=index):
                yield index


def _holds_index(node: ast.AST, names: set[str], attributes: set[str]) -> bool:
    return (isinstance(node, ast.Name) and node.id in names) or (
        isinstance(node, ast.Attribute)
        and node.attr in attributes
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )


MOST_KNOWN = 1000
"""Codes, files and outlines of files that are remembered, each."""


@dataclass(frozen=True, slots=True)
class ProgramCode:
    """The files of a program that are code."""

    form: NormalForm
    lines: Counter[bytes]
    """The count of each line, with blanks around words removed; empty lines and comments are left out."""
    is_parsed: bool
    """Whether every Python file can be parsed."""
    acts_by_episode: bool
    """Whether the policy may act differently from episode to episode."""


@dataclass(frozen=True, slots=True)
class CodeFile:
    """The lines and names of a Python file."""

    lines: Counter[bytes]
    names: FileNames | None
    """None if it can't be parsed."""
    acts_by_episode: bool = False
    """If it is ``policy.py``."""


Reader = Callable[[str, int], bytes]
"""Returns the content of a file of a bundle, up to a number of bytes."""
_codes: dict[frozenset[tuple[str, str]], ProgramCode] = {}
_files: dict[str, CodeFile] = {}
_outlines: dict[tuple[str, str, ProjectNames], tuple[Outline, ...]] = {}


def read_code(bundle: Bundle, content: Reader) -> ProgramCode:
    """Return the code of a bundle; ``content`` reads one of its files."""
    files = {path: file for path, file in bundle.items() if file.is_code}
    key = frozenset((path, file.sha256) for path, file in files.items())
    if key not in _codes:
        _evict(_codes)
        _codes[key] = _CodeReader(files, content).code()
    return _codes[key]


class _CodeReader:
    """Reads the code of a bundle."""

    def __init__(self, files: Bundle, content: Reader) -> None:
        self._files = files
        self._content = content
        self._trees: dict[str, ast.Module] = {}
        """The trees of the files that this object has parsed."""

    def code(self) -> ProgramCode:
        """Return the code of the bundle."""
        python: dict[str, CodeFile] = {}
        left = MOST_PARSED_BYTES
        for path, file in sorted(self._files.items()):
            if path.endswith(".py") and file.size <= min(MOST_BYTES, left):
                python[path] = self._file(path, file)
                left -= file.size
        names = {path: file.names for path, file in python.items() if file.names}
        project = names_of_project(names)
        units = [unit for path in names for unit in self._outlines(path, project)]
        units += [
            outline(ProgramUnit(UnitKind.TEXT, (path, file.sha256)), ())
            for path, file in sorted(self._files.items())
            if path not in names
        ]
        return ProgramCode(
            form=normal_form(units),
            lines=sum((file.lines for file in python.values()), Counter()),
            is_parsed=all(path in names for path in self._files if path.endswith(".py")),
            acts_by_episode="policy.py" in python and python["policy.py"].acts_by_episode,
        )

    def _file(self, path: str, file: File) -> CodeFile:
        """Return the lines and names of a file."""
        if file.sha256 not in _files:
            text = self._content(path, file.size)
            tree = parse_module(text)
            if tree is not None:
                self._trees[path] = tree
            _evict(_files)
            lines = Counter(_lines(text))
            names = None if tree is None else names_in(tree)
            _files[file.sha256] = CodeFile(lines, names, acts_by_episode(tree))
        return _files[file.sha256]

    def _outlines(self, path: str, project: ProjectNames) -> tuple[Outline, ...]:
        """Return the units of a file that can be parsed."""
        file = self._files[path]
        key = (path, file.sha256, project)
        if key not in _outlines:
            tree = self._trees.get(path) or parse_module(self._content(path, file.size))
            units = units_in(path, tree, project) if tree else ()
            _evict(_outlines)
            _outlines[key] = tuple(outline(unit, project.own) for unit in units)
        return _outlines[key]


def _evict(known: dict[Any, Any]) -> None:
    """Clear a cache that is full."""
    if len(known) >= MOST_KNOWN:
        known.clear()


def _lines(text: bytes) -> Iterable[bytes]:
    for line in text.splitlines():
        words = line.split()
        if words and not words[0].startswith(b"#"):
            yield b" ".join(words)


MOST_COMPARED = 1 << 18
"""A data file with more bytes is compared as a whole."""
NOTES = frozenset({".md", ".rst"})
"""Suffixes of notes, on which no policy depends."""
NOTED = re.compile(r"(notes?|readme|changelog|todo)[^/]*\.txt", re.IGNORECASE)
WORD = re.compile(rb"[^\s,:;\[\](){}\"']+")


@dataclass(frozen=True, slots=True)
class PolicyProgram:
    """One checkpoint."""

    files: frozenset[tuple[str, str]]
    """Paths with their hashes: two programs with the same are the same in every byte."""
    code: ProgramCode
    data: Mapping[str, Counter[bytes]]
    """The count of each word in data files, by path; notes are left out."""
    content: str
    """Equal for programs that differ only in names, order, annotations, comments and notes."""

    @property
    def topology(self) -> str:
        """Equal for programs that also differ in literals and data."""
        return self.code.form.topology


def read_program(directory: Path, root: Path | None = None) -> PolicyProgram | None:
    """Return the program in a directory; None if it is missing, or it is not a checkpoint."""
    return _program_in(directory, read_bundle(directory, root))


def checkpoint_program(record: RunRecord, checkpoint: str) -> PolicyProgram | None:
    """Return the program of a run's checkpoint, as ``read_program`` does; raise ``RecordError`` for an invalid name."""
    return _program_in(record.paths.checkpoint(checkpoint), bundle_of(record, checkpoint))


def _program_in(directory: Path, bundle: Bundle | None) -> PolicyProgram | None:
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
    """Return the content of a JSON file, independent of its spelling; empty if it is not JSON or can't be read."""
    if not path.endswith(".json"):
        return ""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return ""


PLACE = ("runs", "workspace_template", "system")
"""The path of the starter policy in the package."""


@cache
def starter_files() -> Mapping[str, bytes]:
    """Return the files of the starter policy, by path."""
    with as_file(files("evopolicygym").joinpath(*PLACE)) as directory:
        paths = read_bundle(directory) or {}
        return {path: (directory / path).read_bytes() for path in paths}


@cache
def starter() -> PolicyProgram:
    """Return the starter policy."""
    with as_file(files("evopolicygym").joinpath(*PLACE)) as directory:
        program = read_program(directory)
    if program is None:
        raise FileNotFoundError(f"The starter policy is not among the package's files, in {'/'.join(PLACE)}.")
    return program
