"""Files that an agent left, as untrusted source: read, hashed and parsed, and never imported or run.

A Python file has a fingerprint of its structure, a fingerprint of its literals, and counts. It is parsed if it is small
enough, and its tree is walked without recursion. A *literal* is a constant, a number with its sign, or a list, tuple,
set or dict of literals only. Docstrings, and all other strings that are statements by themselves, are skipped.
"""

import ast
import hashlib
import os
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError
from evopolicygym.records.reader import RunRecord

MOST_BYTES = 1 << 20
"""A larger file is not parsed."""
UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""Errors of the parser: broken syntax, null bytes, unlimited nesting."""
BRANCHES = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LITERAL = "literal"
_PARSING = Lock()
"""Held while parsing: Python 3.11 counts the depth of all threads' trees together and raises ``SystemError`` for it."""


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file."""

    lines: int
    """Lines that are not blank; all lines of a file that is too large to parse."""
    structure: str = ""
    """SHA-256 of the syntax tree without literals and docstrings; empty if the file can't be parsed."""
    literals: str = ""
    """SHA-256 of the values of its literals, in their order."""
    functions: int = 0
    """Methods and lambdas included."""
    classes: int = 0
    branches: int = 0
    """``if``, ``elif``, conditional expressions, loops, ``except``, ``case``, and conditions of comprehensions."""
    imports: frozenset[str] = frozenset()
    """Modules that it names in an import, by the first part of their names; relative ones left out."""

    @property
    def parsed(self) -> bool:
        """Whether it can be parsed."""
        return bool(self.structure)


def read_source(content: bytes, most: int = MOST_BYTES) -> Source:
    """Return the properties of a file; only its lines if it can't be parsed, or has more than ``most`` bytes."""
    if len(content) > min(most, MOST_BYTES):
        return Source(content.count(b"\n"))
    lines = sum(not line.isspace() for line in content.splitlines() if line)
    tree = parse_module(content)
    if tree is None:
        return Source(lines)
    nodes = list(ast.walk(tree))
    structure, literals = _fingerprints(tree, literals_among(nodes))
    kinds = Counter(map(type, nodes))
    conditions = sum(len(node.ifs) for node in nodes if isinstance(node, ast.comprehension))
    return Source(
        lines=lines,
        structure=structure,
        literals=literals,
        functions=sum(kinds[kind] for kind in FUNCTIONS),
        classes=kinds[ast.ClassDef],
        branches=sum(kinds[kind] for kind in BRANCHES) + conditions,
        imports=frozenset(_imports(nodes)),
    )


def parse_module(content: bytes) -> ast.Module | None:
    """Return the tree of a file, which is never imported or run; None if it can't be parsed or is too large."""
    if len(content) > MOST_BYTES:
        return None
    try:
        with _PARSING, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(content)
    except UNPARSABLE:
        return None


def _imports(nodes: Iterable[ast.AST]) -> Iterable[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def literals_among(nodes: list[ast.AST]) -> set[int]:
    """Return the identities of all nodes that are literals; ``nodes`` has parents before their children."""
    literals: set[int] = set()
    for node in reversed(nodes):
        match node:
            case ast.Constant():
                literal = True
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant(value=int() | float() | complex())):
                literal = True
            case ast.List(elts=parts, ctx=ast.Load()) | ast.Tuple(elts=parts, ctx=ast.Load()) | ast.Set(elts=parts):
                literal = all(id(part) in literals for part in parts)
            case ast.Dict(keys=keys, values=values):
                literal = all(id(part) in literals for part in (*keys, *values))
            case _:
                literal = False
        if literal:
            literals.add(id(node))
    return literals


def _fingerprints(tree: ast.AST, literals: set[int]) -> tuple[str, str]:
    """Return the hashes of a tree's structure and of its literals' values."""
    structure: list[str] = []
    values: list[str] = []
    waiting: list[Any] = [tree]
    while waiting:
        item = waiting.pop()
        kind = type(item)
        if kind is list:
            kept = [statement for statement in item if not is_string_statement(statement)]
            structure.append(f"[{len(kept)}")
            waiting += reversed(kept)
        elif not isinstance(item, ast.AST):
            structure.append(repr(item))
        elif isinstance(item, ast.Constant):
            structure.append(LITERAL)
            values.append(constant_text(item.value))
        elif id(item) in literals:
            structure.append(LITERAL)
            values += literal_values(item)
        elif isinstance(item, ast.MatchSingleton):
            structure.append(LITERAL)
            values.append(repr(item.value))
        elif isinstance(item, ast.JoinedStr):
            structure.append(kind.__name__)
            for part in item.values:
                values += literal_values(part) if isinstance(part, ast.Constant) else ["{}"]
            waiting.append([part for part in item.values if not isinstance(part, ast.Constant)])
        elif not isinstance(item, ast.expr_context):
            structure.append(kind.__name__)
            waiting += [getattr(item, name, None) for name in reversed(kind._fields)]
    return hash_of(structure), hash_of(values)


def is_string_statement(item: object) -> bool:
    """Return whether a statement is a string and nothing else, as docstrings are."""
    return isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant) and isinstance(item.value.value, str)


def literal_values(literal: ast.AST) -> Iterable[str]:
    """Yield the values of a literal, in order, with the shapes of its containers."""
    waiting: list[ast.AST | None] = [literal]
    while waiting:
        match waiting.pop():
            case ast.Constant(value=value):
                yield constant_text(value)
            case ast.UnaryOp(op=sign, operand=ast.Constant(value=int() | float() | complex() as value)):
                yield constant_text(-value if isinstance(sign, ast.USub) else +value)
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts) as display:
                yield f"{type(display).__name__}[{len(parts)}"
                waiting.extend(reversed(parts))
            case ast.Dict(keys=keys, values=values):
                yield f"Dict[{len(keys)}"
                waiting.extend(reversed([*keys, *values]))


def constant_text(value: object) -> str:
    """Return a constant as text; integers in hexadecimal, as Python won't spell very long ones in decimal."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"int {value:x}"
    return f"{type(value).__name__} {value!r}"


def hash_of(parts: Iterable[str]) -> str:
    """Return one hash of texts, each with its length before it, so that none runs into the next."""
    return hashlib.sha256(
        "".join([f"{len(part)}:{part}" for part in parts]).encode("utf-8", "surrogatepass")
    ).hexdigest()


MOST_PARSED_BYTES = 4 * MOST_BYTES
"""Limit on the parsed bytes of a bundle; Python files beyond, in the order of their paths, count as unparsable."""
OTHER_CODE = frozenset({".c", ".cpp", ".h", ".pth", ".pyx", ".sh", ".so"})
"""Suffixes of files that are code but no Python."""
MOST_KNOWN = 100_000
"""Limit on the cached files."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of a bundle."""

    sha256: str
    size: int
    is_code: bool
    source: Source | None = None
    """None if it is not Python."""


Bundle = Mapping[str, File]
"""Files by POSIX path."""

_known: dict[str, Source] = {}
"""Python files by their hash: most submissions repeat most files."""


def read_bundle(directory: Path, root: Path | None = None, ignored: Collection[str] = ()) -> Bundle | None:
    """Return the files below a directory without ignored ones; None if it is missing, or is not a checkpoint.

    A checkpoint has only files and directories, and no link below ``root`` leads to it.
    """
    try:
        paths = sorted(path for path, _ in regular_file.below(directory, root))
    except (FileNotFoundError, RecordError):
        return None
    files: dict[str, File] = {}
    parsed = 0
    for path in paths:
        if path.parent == directory and path.name in ignored:
            continue
        file, read = _read(path, directory, MOST_PARSED_BYTES - parsed)
        parsed += read
        files[path.relative_to(directory).as_posix()] = file
    return files


_last: list[tuple[RunRecord, dict[str, Bundle | None]]] = []
"""The record that was read last, with its bundles: several diagnostics need them one after the other."""


def bundle_of(record: RunRecord, checkpoint: str) -> Bundle | None:
    """Return the files of a run's checkpoint; None if it is missing; raise ``RecordError`` for an invalid name.

    They are read once for a record: of one that is read anew, its checkpoints are too.
    """
    known = next((bundles for last, bundles in _last[:1] if last is record), None)
    if known is None:
        known = {}
        _last[:] = [(record, known)]
    if checkpoint not in known:
        known[checkpoint] = read_bundle(record.paths.checkpoint(checkpoint), record.paths.root, record.ignored)
    return known[checkpoint]


def changed_paths(before: Bundle, after: Bundle) -> list[str]:
    """Return the paths that came, went or differ in any byte."""
    hashes = [{path: file.sha256 for path, file in bundle.items()} for bundle in (before, after)]
    return sorted({path for path, _ in hashes[0].items() ^ hashes[1].items()})


def _read(path: Path, directory: Path, most: int) -> tuple[File, int]:
    """Return a file and how many bytes of it count as parsed."""
    with regular_file.reader(path, directory) as file:
        size = os.fstat(file.fileno()).st_size
        if path.suffix != ".py":
            return File(hashlib.file_digest(file, "sha256").hexdigest(), size, path.suffix in OTHER_CODE), 0
        content = file.read(most + 1)
        if len(content) > most:
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return File(digest, size, is_code=True, source=read_source(content, most)), 0
    digest = hashlib.sha256(content).hexdigest()
    return File(digest, size, is_code=True, source=_source(digest, content)), len(content)


def _source(digest: str, content: bytes) -> Source:
    if digest not in _known:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        _known[digest] = read_source(content)
    return _known[digest]
