"""Small slips that a programmer could make in a module, found by its syntax tree.

A slip changes one comparison, sign, index, condition or default, drops one term or call, or swaps two statements.
Messages, annotations, docstrings and constants of modules are left alone: a changed one breaks no promise.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div,
}  # fmt: skip
NO_PROMISE = (ast.JoinedStr, ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)
"""Nodes below which nothing is changed: messages, and what stops every module from being loaded."""


@dataclass(frozen=True, slots=True)
class Slip:
    """One changed place of a module."""

    kind: str
    line: int
    last_line: int
    before: str
    after: str
    text: str
    """The whole module, changed."""


def slips_of(text: str) -> list[Slip]:
    """Return all slips of a module, in the order of their places."""
    source = _Source(text)
    found = [source.slip(kind, node, after) for kind, node, after in _changes(ast.parse(text))]
    return sorted((slip for slip in found if slip.before != slip.after), key=lambda slip: (slip.line, slip.kind))


class _Source:
    """A module's text, addressed as its syntax tree does: by lines, and bytes of a line."""

    def __init__(self, text: str) -> None:
        self._bytes = text.encode()
        self._starts = [0]
        for line in self._bytes.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def slip(self, kind: str, nodes: list[ast.AST], after: str | None) -> Slip:
        """Return the slip of nodes that are replaced by a text, or else of two statements that change places."""
        spans = [self._span(node) for node in nodes]
        (start, middle), (other, end) = spans[0], spans[-1]
        before = self._bytes[start:end]
        if after is None:
            new = self._bytes[other:end] + self._bytes[middle:other] + self._bytes[start:middle]
        else:
            new = after.encode()
        text = (self._bytes[:start] + new + self._bytes[end:]).decode()
        first, last = nodes[0], nodes[-1]
        return Slip(kind, first.lineno, last.end_lineno or 0, before.decode(), new.decode(), text)  # type: ignore[attr-defined]

    def _span(self, node: ast.AST) -> tuple[int, int]:
        first = self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        return first, self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]


def _changes(tree: ast.Module) -> Iterator[tuple[str, list[ast.AST], str | None]]:
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _below(statement)


def _below(node: ast.AST) -> Iterator[tuple[str, list[ast.AST], str | None]]:
    """Yield the changes of a node and of all below it: a kind, the nodes, and the text that replaces them."""
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(node, name, None)
        if isinstance(statements, list):
            yield from _of_statements(statements)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            yield from (("default", [default], text) for text in _other_constant(default))
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        yield from (("default", [node.value], text) for text in _other_constant(node.value))
    elif isinstance(node, ast.expr):
        yield from ((kind, [node], f"({ast.unparse(new)})") for kind, new in _of_expression(node))
    if isinstance(node, ast.Subscript):
        yield from (("index", [place], text) for place in _places(node.slice) for text in _other_constant(place))
    for child in _children(node):
        yield from _below(child)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children that may be changed: no annotations, decorators, messages or texts."""
    left_out: list[ast.AST | None] = []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        left_out = [node.returns, node.args, *node.decorator_list]
    elif isinstance(node, ast.ClassDef):
        left_out = [*node.decorator_list, *node.bases, *node.keywords]
    elif isinstance(node, ast.AnnAssign):
        left_out = [node.annotation]
    for child in ast.iter_child_nodes(node):
        if child not in left_out and not isinstance(child, NO_PROMISE):
            yield child


def _of_statements(statements: list[ast.stmt]) -> Iterator[tuple[str, list[ast.AST], str | None]]:
    """Yield calls that are dropped, and neighbours that change places."""
    plain = (ast.Assign, ast.AugAssign, ast.Expr, ast.Delete)
    for place, statement in enumerate(statements):
        if not isinstance(statement, plain) or _is_text(statement):
            continue
        if isinstance(statement, ast.Expr):
            yield "dropped call", [statement], "pass"
        following = statements[place + 1] if place + 1 < len(statements) else None
        if isinstance(following, plain) and not _is_text(following):
            yield "order", [statement, following], None


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _of_expression(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Yield what an expression could have been by a slip."""
    match node:
        case ast.Compare(ops=ops):
            for place, operator in enumerate(ops):
                new = copy.deepcopy(node)
                new.ops[place] = COMPARISONS[type(operator)]()
                yield "comparison", new
        case ast.BinOp(op=operator) if type(operator) in OPERATORS and not _is_text_sum(node):
            new = copy.deepcopy(node)
            new.op = OPERATORS[type(operator)]()
            yield "sign", new
            yield "dropped term", node.left
        case ast.BoolOp(values=values):
            for place in range(len(values)):
                new_bool = copy.deepcopy(node)
                del new_bool.values[place]
                yield "dropped term", new_bool if len(values) > 2 else new_bool.values[0]
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            yield "sign", node.operand
        case ast.IfExp():
            yield "dropped condition", node.body
        case ast.Call(func=ast.Name(id="min" | "max" as name)):
            called = copy.deepcopy(node)
            called.func = ast.Name({"min": "max", "max": "min"}[name], ast.Load())
            yield "sign", called


def _is_text_sum(node: ast.BinOp) -> bool:
    """Return whether texts or lists are added: another sign raises at once."""
    return any(
        isinstance(part, ast.JoinedStr | ast.List | ast.Tuple) or _is_text_constant(part) for part in ast.walk(node)
    )


def _is_text_constant(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _places(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the constants of an index or a slice."""
    parts = [node.lower, node.upper] if isinstance(node, ast.Slice) else [node]
    yield from (part for part in parts if isinstance(part, ast.Constant | ast.UnaryOp))


def _other_constant(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(value=bool(value)):
            yield str(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield str(value + 1)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            yield str(-value - 1)
