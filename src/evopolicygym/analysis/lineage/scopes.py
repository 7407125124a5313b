"""The names that a part of a program binds, and a part of a program as a row of tokens.

A name that a function binds is *local*: its token is its place among the function's names. All other names are their
own tokens, and literals are too, so that the reader of a row decides which of them count. Comments, docstrings,
annotations and ``pass`` have no tokens. The tree is walked without recursion: programs are untrusted.
"""

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from evopolicygym.analysis.source import stands_alone, values_of

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Name:
    """A name that stands for itself: of a module, a class, an attribute, an argument that is passed by its name."""

    text: str


@dataclass(slots=True)
class Scope:
    """The names of one function, comprehension or class body."""

    bound: frozenset[str]
    is_class: bool = False
    """Whose names are attributes, and not seen by the functions in it."""
    numbers: dict[str, str] = field(default_factory=dict)
    """What local names stand for, as far as they were met."""


class Scopes:
    """The scopes that are open at some place of a program, the innermost last."""

    def __init__(self) -> None:
        self._open: list[Scope] = []
        self._met = 0

    def enter(self, scope: Scope) -> None:
        """Open a scope."""
        self._open.append(scope)

    def leave(self) -> None:
        """Close the innermost scope."""
        self._open.pop()

    def meaning(self, name: str) -> str | Name:
        """Return what a name stands for: its number among the local names that were met, or itself."""
        for depth, scope in enumerate(reversed(self._open)):
            if name not in scope.bound or (scope.is_class and depth):
                continue
            if scope.is_class:
                break
            if name not in scope.numbers:
                scope.numbers[name] = f"local {self._met}"
                self._met += 1
            return scope.numbers[name]
        return Name(name)


def parameters(function: Function) -> list[ast.arg]:
    """Return a function's parameters, in their order."""
    taken = function.args
    several = [*taken.posonlyargs, *taken.args, taken.vararg, *taken.kwonlyargs, taken.kwarg]
    return [argument for argument in several if argument is not None]


def scope_of(node: Function | Comprehension | ast.ClassDef, passed_by_name: frozenset[str]) -> Scope:
    """Return the scope that a node opens; parameters that the project passes by their names are not local."""
    if isinstance(node, ast.ClassDef):
        return Scope(bound_by(node.body), is_class=True)
    if isinstance(node, COMPREHENSIONS):
        return Scope(frozenset(_stored(generator.target for generator in node.generators)))
    own = frozenset(argument.arg for argument in parameters(node))
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    return Scope((own - passed_by_name) | (bound_by(body) - own))


def bound_by(statements: Iterable[ast.AST]) -> frozenset[str]:
    """Return the names that statements bind in the scope that they stand in."""
    bound: set[str] = set()
    foreign: set[str] = set()
    waiting: list[ast.AST] = list(statements)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                bound.add(node.name)
                continue
            case ast.Lambda():
                continue
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                bound |= {part.target.id for part in ast.walk(node) if isinstance(part, ast.NamedExpr)}
                continue
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                bound.add(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                foreign.update(names)
            case ast.alias():
                bound.add(imported_as(node))
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bound.add(name)
            case ast.MatchMapping(rest=str(name)):
                bound.add(name)
        waiting.extend(ast.iter_child_nodes(node))
    return frozenset(bound - foreign)


def imported_as(alias: ast.alias) -> str:
    """Return the name that an import binds."""
    return alias.asname or alias.name.partition(".")[0]


def names_of(node: ast.AST) -> Mapping[str, Any]:
    """Return the fields of a node that hold names as texts."""
    match node:
        case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
            return {"name": node.name}
        case ast.MatchMapping():
            return {"rest": node.rest}
        case ast.Global() | ast.Nonlocal():
            return {"names": node.names}
    return {}


def _stored(nodes: Iterable[ast.AST]) -> Iterable[str]:
    for node in nodes:
        yield from (
            part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        )


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant, or a list, tuple, set or dict of literals only."""

    values: tuple[str, ...]


Token = str | Name | Literal


@dataclass(frozen=True, slots=True)
class Bound:
    """A name where it is bound or met; what it stands for hangs on the scopes that are open there."""

    name: str


@dataclass(frozen=True, slots=True)
class Attribute:
    """A name that stands for itself wherever it is met."""

    name: str


_LEAVE = object()
"""Stands where a scope is left."""


class Tokenizer:
    """Makes rows of tokens of one project's parts."""

    def __init__(self, literals: Collection[int], passed_by_name: frozenset[str], modules: frozenset[str]) -> None:
        self._literals = literals
        """The identities of nodes that are literals."""
        self._passed_by_name = passed_by_name
        self._modules = modules
        """Of the project itself, by their dotted names."""

    def tokens(self, *parts: object) -> tuple[Token, ...]:
        """Return the tokens of some parts: nodes, lists of them, ``Bound``, ``Attribute``, texts that stay as is."""
        return tuple(self._walk(list(parts)))

    def _walk(self, parts: list[Any]) -> Iterator[Token]:
        scopes = Scopes()
        waiting = list(reversed(parts))
        while waiting:
            item = waiting.pop()
            if item is _LEAVE:
                scopes.leave()
            elif isinstance(item, Scope):
                scopes.enter(item)
            elif isinstance(item, Bound):
                yield scopes.meaning(item.name)
            elif isinstance(item, list):
                kept = [statement for statement in item if counts(statement)]
                yield f"[{len(kept)}"
                waiting += reversed(kept)
            elif (leaf := self._leaf(item)) is not None:
                yield leaf
            elif isinstance(item, ast.Import | ast.ImportFrom):
                waiting += reversed([name for alias in item.names for name in self.imported(item, alias)])
            elif not isinstance(item, ast.expr_context):
                yield "Assign" if isinstance(item, ast.AnnAssign) else type(item).__name__
                waiting += reversed(self._parts(item))

    def _leaf(self, item: object) -> Token | None:
        """Return the token of what is one by itself; None of anything else."""
        match item:
            case Attribute(name=name):
                return Name(name)
            case Literal():
                return item
            case ast.MatchSingleton(value=value):
                return Literal((repr(value),))
            case ast.AST():
                return Literal(tuple(values_of(item))) if id(item) in self._literals else None
        return repr(item)

    def imported(self, statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> list[Any]:
        """Return the parts of one import."""
        if isinstance(statement, ast.Import):
            module = self._module(alias.name)
            return ["import", *module, Bound(imported_as(alias))]
        source = "." * statement.level + (statement.module or "")
        is_ours = bool(statement.level) or source in self._modules or f"{source}.{alias.name}" in self._modules
        what = Attribute(alias.name) if is_ours else alias.name
        return ["from", *self._module(source), what, Bound(imported_as(alias))]

    def _module(self, dotted: str) -> list[Any]:
        """Return a module's name: its last word may be the project's own."""
        before, _, last = dotted.rpartition(".")
        return [before, Attribute(last)] if dotted.lstrip(".") in self._modules else [dotted]

    def _parts(self, node: ast.AST) -> list[Any]:
        """Return what is in a node, in the order in which it is walked."""
        match node:
            case ast.Name(id=name):
                return [Bound(name)]
            case ast.Attribute(value=value, attr=name):
                return [value, Attribute(name)]
            case ast.keyword(arg=name, value=value):
                return [None if name is None else Attribute(name), value]
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return [Bound(node.name), node.decorator_list, *self._called(node)]
            case ast.Lambda():
                return self._called(node)
            case ast.ClassDef():
                scope = scope_of(node, self._passed_by_name)
                return [Bound(node.name), node.decorator_list, node.bases, node.keywords, scope, node.body, _LEAVE]
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                return self._comprehension(node)
            case ast.AnnAssign(target=target, value=value):
                return [[target], value]
            case ast.JoinedStr(values=values):
                return [self._text(values), [part for part in values if not isinstance(part, ast.Constant)]]
            case ast.MatchClass():
                attributes = [Attribute(name) for name in node.kwd_attrs]
                return [node.cls, node.patterns, attributes, node.kwd_patterns]
        names = names_of(node)
        return [
            _bound(names[field]) if field in names else getattr(node, field, None)
            for field in node._fields
            if field not in {"type_comment", "type_ignores", "type_params"}
        ]

    def _called(self, node: Function) -> list[Any]:
        """Return a function's defaults, its parameters and its body, which have a scope of their own."""
        taken = node.args
        kinds = [len(taken.posonlyargs), len(taken.args), taken.vararg is not None, len(taken.kwonlyargs)]
        body = node.body if isinstance(node.body, list) else [node.body]
        scope = scope_of(node, self._passed_by_name)
        own = [Bound(argument.arg) for argument in parameters(node)]
        return [taken.defaults, taken.kw_defaults, str(kinds), scope, *own, body, _LEAVE]

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> list[Any]:
        made = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        return [scope_of(node, self._passed_by_name), node.generators, *made, _LEAVE]

    @staticmethod
    def _text(values: list[ast.expr]) -> Literal:
        """Return the text of an f-string, with its values left out."""
        return Literal(tuple(repr(part.value) if isinstance(part, ast.Constant) else "{}" for part in values))


def counts(item: object) -> bool:
    """Return whether a statement does anything; a text by itself, ``pass`` and an annotation alone don't."""
    return not (
        stands_alone(item) or isinstance(item, ast.Pass) or (isinstance(item, ast.AnnAssign) and item.value is None)
    )


def _bound(value: str | list[str] | None) -> Bound | list[Bound] | None:
    return [Bound(name) for name in value] if isinstance(value, list) else None if value is None else Bound(value)
