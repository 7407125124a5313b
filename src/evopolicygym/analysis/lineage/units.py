"""A project's programs in units whose order doesn't matter: functions, classes, imports, constants.

What a file or a class does in order stays one unit, its *body*: statements that are no definition, and all that bind a
name which is bound there more than once. The fields of a class that is decorated or has bases stay in order too, as a
dataclass's do.
"""

import ast
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

from evopolicygym.analysis.lineage.scopes import bound_by, parameters
from evopolicygym.analysis.lineage.tokens import Attribute, Bound, Token, Tokenizer, counts
from evopolicygym.analysis.syntax import literals_among

PUBLIC = frozenset({"Policy", "reset", "act", "policy"})
"""Names that the contract of policies gives; no project may rename them."""
TYPING = frozenset({"__future__", "typing", "typing_extensions", "collections.abc", "types"})
"""Modules that serve annotations: what is imported of them and not used otherwise is passed over."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class UnitKind(StrEnum):
    """What a unit is."""

    FUNCTION = "function"
    """A method too."""
    CLASS = "class"
    """Its header."""
    IMPORT = "import"
    CONSTANT = "constant"
    BODY = "body"
    TEXT = "text"
    """A file that can't be parsed."""


@dataclass(frozen=True, slots=True)
class ProgramUnit:
    """One part of a project."""

    kind: UnitKind
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class FileNames:
    """What one file does with names."""

    bound: frozenset[str]
    """By the file, its classes and assignments to attributes, and those declared global."""
    passed: frozenset[str]
    """Of arguments that are passed by name."""
    parameters: frozenset[str]


@dataclass(frozen=True, slots=True)
class ProjectNames:
    """What a project's files together make of names."""

    own: frozenset[str]
    """Those that the project may choose, local ones aside."""
    passed_by_name: frozenset[str]
    """Its parameters that are passed by name."""
    modules: frozenset[str]
    """Its files, by their dotted names."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where statements stand."""

    parts: tuple[Any, ...]
    """What begins the tokens of each unit there."""
    keeps_fields: bool = False


def names_in(tree: ast.Module) -> FileNames:
    """Return what a file does with names."""
    bound, passed, taken = set(bound_by(tree.body)), set[str](), set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name, body=body):
                bound |= bound_by(body) | {name}
            case ast.Attribute(attr=name, ctx=ast.Store()):
                bound.add(name)
            case ast.Global(names=names):
                bound.update(names)
            case ast.keyword(arg=str(name)):
                passed.add(name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                taken.update(one.arg for one in parameters(node))
    return FileNames(frozenset(bound), frozenset(passed), frozenset(taken))


def names_of_project(files: Mapping[str, FileNames]) -> ProjectNames:
    """Return what the files of a project make of names, by their paths."""
    none = frozenset[str]()
    by_name = none.union(*(one.passed for one in files.values())) & none.union(
        *(one.parameters for one in files.values())
    )
    modules = frozenset(_module(path) for path in files)
    chosen = none.union(by_name, (name.rpartition(".")[2] for name in modules), *(one.bound for one in files.values()))
    own = frozenset(name for name in chosen - PUBLIC if not (name.startswith("__") and name.endswith("__")))
    return ProjectNames(own, by_name, modules)


def units_in(path: str, tree: ast.Module, project: ProjectNames) -> tuple[ProgramUnit, ...]:
    """Return the units of a file of a project."""
    literals = literals_among(list(ast.walk(tree)))
    place = _Place((*PurePosixPath(path).parts[:-1], Attribute(PurePosixPath(path).stem)))
    return tuple(_units(tree.body, place, Tokenizer(literals, project.passed_by_name, project.modules), literals))


def _units(
    statements: Sequence[ast.stmt], place: _Place, tokenizer: Tokenizer, literals: set[int]
) -> Iterable[ProgramUnit]:
    """Yield the units of a file's or a class's statements."""
    often = Counter(name for one in statements for name in bound_by([one]))
    body: list[Any] = []
    for one in statements:
        if place.keeps_fields and isinstance(one, ast.AnnAssign):
            body.append(["field", one.target, one.value])
        elif not counts(one):
            continue
        elif any(often[name] > 1 for name in bound_by([one])):
            body.append(one)
        elif isinstance(one, FUNCTIONS):
            yield ProgramUnit(UnitKind.FUNCTION, tokenizer.tokens(*place.parts, one))
        elif isinstance(one, ast.ClassDef):
            yield from _class(one, place, tokenizer, literals)
        elif isinstance(one, ast.Import | ast.ImportFrom):
            for alias in one.names:
                yield ProgramUnit(UnitKind.IMPORT, tokenizer.tokens(*place.parts, *tokenizer.imported(one, alias)))
        elif isinstance(one, ast.Assign | ast.AnnAssign) and id(one.value) in literals:
            yield ProgramUnit(UnitKind.CONSTANT, tokenizer.tokens(*place.parts, one))
        else:
            body.append(one)
    if body:
        yield ProgramUnit(UnitKind.BODY, tokenizer.tokens(*place.parts, body))


def _class(node: ast.ClassDef, place: _Place, tokenizer: Tokenizer, literals: set[int]) -> Iterable[ProgramUnit]:
    parts = (*place.parts, "class", Bound(node.name))
    yield ProgramUnit(UnitKind.CLASS, tokenizer.tokens(*parts, node.decorator_list, node.bases, node.keywords))
    keeps_fields = bool(node.decorator_list or node.bases or node.keywords)
    yield from _units(node.body, _Place(parts, keeps_fields), tokenizer, literals)


def serves_annotations(unit: ProgramUnit) -> bool:
    """Return whether a unit imports something that annotations are made of."""
    return unit.kind is UnitKind.IMPORT and any(repr(name) in unit.tokens for name in TYPING)


def _module(path: str) -> str:
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
