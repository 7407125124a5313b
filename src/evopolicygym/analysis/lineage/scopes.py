"""Which names a part of a program binds, and what each name stands for where it is met.

A name that a function binds is *local*: it stands for its place among the function's names. All others stand for
themselves here; which of them a project may rename is described in ``normal_form.py``. Nothing is walked by recursion:
programs are untrusted.
"""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

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
    return [one for one in several if one is not None]


def scope_of(node: Function | Comprehension | ast.ClassDef, passed_by_name: frozenset[str]) -> Scope:
    """Return the scope that a node opens; parameters that the project passes by their names are not local."""
    if isinstance(node, ast.ClassDef):
        return Scope(bound_by(node.body), is_class=True)
    if isinstance(node, COMPREHENSIONS):
        return Scope(frozenset(_stored(one.target for one in node.generators)))
    own = frozenset(one.arg for one in parameters(node))
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
                bound |= {one.target.id for one in ast.walk(node) if isinstance(one, ast.NamedExpr)}
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
        yield from (one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
