"""A project's normal form: the same for programs that differ only in names, order, annotations, comments and notes.

A project is split into *units* whose order doesn't matter: functions, classes, imports, constants. The statements of a
file or a class that are not definitions stay one unit in order, its *body*, with all statements that bind a name which
is bound there more than once; so do the fields of a class with decorators or bases, as of a dataclass. The *outline* of
a unit is the unit without the names that the project chose, and these names in order. Outlines of a file hold for every
version of a project with the same file and the same own names, so that only changed files are read again.

A project's own names are identified by their places: each begins with the same colour, and in each of a few rounds gets
a new colour from the units that it is in and its places there (colour refinement, as for graphs). Programs that differ
only in their own names and in the order of units always have the same form; others share one only if their units are
alike in all their surroundings. The form without literals is the *topology*.
"""

import ast
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

from evopolicygym.analysis.lineage.scopes import (
    Attribute,
    Bound,
    Literal,
    Name,
    Token,
    Tokenizer,
    bound_names,
    has_effect,
    parameters,
)
from evopolicygym.analysis.source import LITERAL, hash_of, literals_among

PUBLIC = frozenset({"Policy", "reset", "act", "policy"})
"""Names that the contract of policies gives; no project may rename them."""
TYPING = frozenset({"__future__", "typing", "typing_extensions", "collections.abc", "types"})
"""Modules for annotations: their otherwise unused imports are skipped."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class UnitKind(StrEnum):
    """The kind of a unit."""

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
    """The names of a file, by their use."""

    bound: frozenset[str]
    """The names that the file, its classes and assignments to attributes bind, or that are declared global."""
    passed: frozenset[str]
    """The names of arguments that are passed by name."""
    parameters: frozenset[str]


@dataclass(frozen=True, slots=True)
class ProjectNames:
    """The names of a project."""

    own: frozenset[str]
    """The names that the project chose, local names excluded."""
    passed_by_name: frozenset[str]
    """Its parameters that are passed by name."""
    modules: frozenset[str]
    """Its files, by their dotted names."""


@dataclass(frozen=True, slots=True)
class _Context:
    """The context of statements."""

    parts: tuple[Any, ...]
    """The first tokens of each unit there."""
    keeps_fields: bool = False


def names_in(tree: ast.Module) -> FileNames:
    """Return the names of a file, by their use."""
    bound, passed, parameter_names = set(bound_names(tree.body)), set[str](), set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name, body=body):
                bound |= bound_names(body) | {name}
            case ast.Attribute(attr=name, ctx=ast.Store()):
                bound.add(name)
            case ast.Global(names=names):
                bound.update(names)
            case ast.keyword(arg=str(name)):
                passed.add(name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                parameter_names.update(argument.arg for argument in parameters(node))
    return FileNames(frozenset(bound), frozenset(passed), frozenset(parameter_names))


def names_of_project(files: Mapping[str, FileNames]) -> ProjectNames:
    """Return the names of a project, from its files' names by path."""
    none = frozenset[str]()
    by_name = none.union(*(names.passed for names in files.values())) & none.union(
        *(names.parameters for names in files.values())
    )
    modules = frozenset(_module(path) for path in files)
    chosen = none.union(
        by_name, (name.rpartition(".")[2] for name in modules), *(names.bound for names in files.values())
    )
    own = frozenset(name for name in chosen - PUBLIC if not (name.startswith("__") and name.endswith("__")))
    return ProjectNames(own, by_name, modules)


def units_in(path: str, tree: ast.Module, project: ProjectNames) -> tuple[ProgramUnit, ...]:
    """Return the units of a file of a project."""
    literals = literals_among(list(ast.walk(tree)))
    context = _Context((*PurePosixPath(path).parts[:-1], Attribute(PurePosixPath(path).stem)))
    return tuple(_units(tree.body, context, Tokenizer(literals, project.passed_by_name, project.modules), literals))


def _units(
    statements: Sequence[ast.stmt], context: _Context, tokenizer: Tokenizer, literals: set[int]
) -> Iterable[ProgramUnit]:
    """Yield the units of a file's or a class's statements."""
    often = Counter(name for statement in statements for name in bound_names([statement]))
    body: list[Any] = []
    for statement in statements:
        if context.keeps_fields and isinstance(statement, ast.AnnAssign):
            body.append(["field", statement.target, statement.value])
        elif not has_effect(statement):
            continue
        elif any(often[name] > 1 for name in bound_names([statement])):
            body.append(statement)
        elif isinstance(statement, FUNCTIONS):
            yield ProgramUnit(UnitKind.FUNCTION, tokenizer.tokens(*context.parts, statement))
        elif isinstance(statement, ast.ClassDef):
            yield from _class(statement, context, tokenizer, literals)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            for alias in statement.names:
                yield ProgramUnit(
                    UnitKind.IMPORT, tokenizer.tokens(*context.parts, *tokenizer.imported(statement, alias))
                )
        elif isinstance(statement, ast.Assign | ast.AnnAssign) and id(statement.value) in literals:
            yield ProgramUnit(UnitKind.CONSTANT, tokenizer.tokens(*context.parts, statement))
        else:
            body.append(statement)
    if body:
        yield ProgramUnit(UnitKind.BODY, tokenizer.tokens(*context.parts, body))


def _class(node: ast.ClassDef, context: _Context, tokenizer: Tokenizer, literals: set[int]) -> Iterable[ProgramUnit]:
    parts = (*context.parts, "class", Bound(node.name))
    yield ProgramUnit(UnitKind.CLASS, tokenizer.tokens(*parts, node.decorator_list, node.bases, node.keywords))
    keeps_fields = bool(node.decorator_list or node.bases or node.keywords)
    yield from _units(node.body, _Context(parts, keeps_fields), tokenizer, literals)


def serves_annotations(unit: ProgramUnit) -> bool:
    """Return whether a unit imports something for annotations."""
    return unit.kind is UnitKind.IMPORT and any(repr(name) in unit.tokens for name in TYPING)


def _module(path: str) -> str:
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


OWN = "own"
"""Stands for a name that the project chose."""


@dataclass(frozen=True, slots=True)
class Outline:
    """One unit."""

    kind: UnitKind
    topology: str
    """The hash of its tokens without own names and literals."""
    content: str
    """The hash of its tokens without own names."""
    names: tuple[str, ...]
    """The own names in it, in order, with repetitions."""
    spelled: str
    """The hash of its tokens with all names and literals."""
    serves_annotations: bool


def outline(unit: ProgramUnit, own: Collection[str]) -> Outline:
    """Return a unit in outline, where these names are the project's own."""
    names = tuple(token.text for token in unit.tokens if isinstance(token, Name) and token.text in own)
    return Outline(
        kind=unit.kind,
        topology=hash_of([unit.kind.value, *_texts(unit.tokens, own, literals=False)]),
        content=hash_of([unit.kind.value, *_texts(unit.tokens, own, literals=True)]),
        names=names,
        spelled=hash_of(_texts(unit.tokens, (), literals=True)),
        serves_annotations=serves_annotations(unit),
    )


def _texts(tokens: Sequence[Token], own: Collection[str], *, literals: bool) -> list[str]:
    texts: list[str] = []
    for token in tokens:
        if isinstance(token, str):
            texts.append(token)
        elif isinstance(token, Literal):
            texts.append(LITERAL)
            if literals:
                texts += token.values
        else:
            texts.append(OWN if token.text in own else f"name {token.text}")
    return texts


ROUNDS = 3
"""Limit on the rounds of colour refinement."""


@dataclass(frozen=True, slots=True)
class NormalForm:
    """The normal form of a project's programs, independent of its names and its order."""

    topology: str
    """The hash of the programs without literals."""
    content: str
    """The hash of the programs with literals."""
    functions: tuple[str, ...]
    """The hash of each function and method, with its literals and names in order."""


def normal_form(units: Sequence[Outline]) -> NormalForm:
    """Return the normal form of a project's programs."""
    occurrences = Counter(name for unit in units for name in unit.names)
    kept = [unit for unit in units if not (unit.serves_annotations and occurrences[unit.names[-1]] == 1)]
    return NormalForm(
        topology=_form(kept, [unit.topology for unit in kept]),
        content=_form(kept, [unit.content for unit in kept]),
        functions=tuple(sorted(unit.spelled for unit in kept if unit.kind is UnitKind.FUNCTION)),
    )


def _form(units: Sequence[Outline], outlines: Sequence[str]) -> str:
    colours = dict.fromkeys((name for unit in units for name in unit.names), OWN)
    hashes = _hashes(units, outlines, colours)
    for _ in range(ROUNDS):
        before, colours = colours, _refine_colours(units, hashes, colours)
        hashes = _hashes(units, outlines, colours)
        if len(set(colours.values())) == len(set(before.values())):
            break  # what a further round would see, this one saw
    return hash_of(sorted(hashes))


def _refine_colours(units: Sequence[Outline], hashes: Sequence[str], colours: Mapping[str, str]) -> dict[str, str]:
    """Return a new colour for each name, from the units that it is in and its places among the names there."""
    occurrences: dict[str, list[str]] = defaultdict(list)
    for unit, its_hash in zip(units, hashes, strict=True):
        name_positions: dict[str, list[int]] = defaultdict(list)
        for position, name in enumerate(unit.names):
            name_positions[name].append(position)
        for name, positions in name_positions.items():
            occurrences[name].append(f"{its_hash} {positions}")
    return {name: hash_of([colour, *sorted(occurrences[name])]) for name, colour in colours.items()}


def _hashes(units: Sequence[Outline], outlines: Sequence[str], colours: Mapping[str, str]) -> list[str]:
    """Return a hash for each unit: its outline, and its names as their colours.

    Names of one colour are distinguished by which of them is met first.
    """
    hashes = []
    for unit, its_outline in zip(units, outlines, strict=True):
        numbers: dict[str, dict[str, int]] = defaultdict(dict)
        texts = [its_outline]
        for name in unit.names:
            own = numbers[colours[name]]
            texts.append(f"{colours[name]} {own.setdefault(name, len(own))}")
        hashes.append(hash_of(texts))
    return hashes
