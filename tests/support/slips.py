"""Small slips that a programmer could make in a module, found by its syntax tree.

A slip changes one comparison, sign, index, condition or default, drops one term or call, or swaps two statements.
Some changes break no promise, or break everything at once, and say nothing about tests. They are left out by rule:

- messages, which of two sentences one is, log lines, annotations, docstrings, ``__repr__``, and constants of modules;
- two statements that change places without touching the same thing, and those of which one then reads a name that
  nothing has bound yet; fields and members of classes in another order;
- a time limit that is reached a moment later, a random number that hits its bound exactly, and a term of 0.
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
LOGS = {"log", "logger", "logging", "warnings"}
"""Names and attributes whose calls only tell something."""
MEASURED = {"random", "monotonic", "perf_counter", "time"}
"""Calls that return a number which no bound meets exactly."""


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
        """Return the slip of two statements that change places, or of a node that is replaced by a text.

        A second node has the lines that use the first, as a function does its defaults.
        """
        spans = [self._span(node) for node in (nodes if after is None else nodes[:1])]
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
        if isinstance(statements, list) and not isinstance(node, ast.ClassDef):
            yield from _of_statements(statements)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        for name, default in _defaults(node.args):
            if not _is_seconds(name):
                yield from (("default", [default, node], text) for text in _other_constant(default))
    elif isinstance(node, ast.AnnAssign) and node.value is not None and not _is_seconds(ast.unparse(node.target)):
        yield from (("default", [node.value], text) for text in _other_constant(node.value))
    elif isinstance(node, ast.expr):
        yield from ((kind, [node], f"({ast.unparse(new)})") for kind, new in _of_expression(node))
    if isinstance(node, ast.Subscript):
        yield from (("index", [place], text) for place in _places(node.slice) for text in _other_constant(place))
    for child in _children(node):
        yield from _below(child)


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    """Yield the arguments that have a default, by name."""
    places = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(reversed(places), reversed(arguments.defaults), strict=False)]
    pairs += [
        (name, default) for name, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default
    ]
    yield from ((name.arg, default) for name, default in pairs)


def _is_seconds(name: str) -> bool:
    """Return whether a name is that of a time limit."""
    return name.lower().endswith(("_s", "deadline", "timeout"))


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
        if child not in left_out and not isinstance(child, NO_PROMISE) and not _only_tells(child):
            yield child


def _only_tells(node: ast.AST) -> bool:
    """Return whether a node is a log line, or a function that shows an object to a programmer."""
    match node:
        case ast.FunctionDef(name="__repr__"):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name))):
            return name.lower() in LOGS
        case ast.Expr(value=ast.Call() as call):
            return _only_tells(call)
    return False


def _of_statements(statements: list[ast.stmt]) -> Iterator[tuple[str, list[ast.AST], str | None]]:
    """Yield calls that are dropped, and neighbours that change places."""
    plain = (ast.Assign, ast.AugAssign, ast.Expr, ast.Delete)
    for place, statement in enumerate(statements):
        if not isinstance(statement, plain) or _is_text(statement) or _only_tells(statement):
            continue
        if isinstance(statement, ast.Expr):
            yield "dropped call", [statement], "pass"
        following = statements[place + 1] if place + 1 < len(statements) else None
        if isinstance(following, plain) and not _is_text(following) and _order_matters(statement, following):
            yield "order", [statement, following], None


def _order_matters(first: ast.stmt, second: ast.stmt) -> bool:
    """Return whether two neighbours may do something else in the other order, other than to raise at once."""
    if isinstance(first, ast.Assign) and _bound(first) & _loaded(second):
        return False
    written, read = (_written(first), _written(second)), (_loaded(first), _loaded(second))
    if written[0] & (written[1] | read[1]) or written[1] & read[0]:
        return True
    calls = [any(isinstance(part, ast.Call | ast.Await) for part in ast.walk(each)) for each in (first, second)]
    return all(calls) and any(isinstance(each, ast.Expr) for each in (first, second))


def _bound(statement: ast.stmt) -> set[str]:
    """Return the plain names that a statement binds."""
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _written(statement: ast.stmt) -> set[str]:
    """Return the names, attributes and items that a statement changes; a container where the item is not named."""
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    parts = [part for each in targets if each for part in (each.elts if isinstance(each, ast.Tuple) else [each])]
    named = [not isinstance(part, ast.Subscript) or isinstance(part.slice, ast.Constant) for part in parts]
    return {ast.unparse(part if is_named else part.value) for part, is_named in zip(parts, named, strict=True)}  # type: ignore[attr-defined]


def _loaded(statement: ast.stmt) -> set[str]:
    """Return the names and attributes that a statement reads, without those of a container that it changes."""
    read = [statement] if isinstance(statement, ast.AugAssign) else [getattr(statement, "value", statement)]
    return {
        ast.unparse(node)
        for each in read
        for node in ast.walk(each)
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _of_expression(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Yield what an expression could have been by a slip."""
    match node:
        case ast.Compare(ops=ops) if not _is_of_time_or_chance(node):
            for place, operator in enumerate(ops):
                new = copy.deepcopy(node)
                new.ops[place] = COMPARISONS[type(operator)]()
                yield "comparison", new
        case ast.BinOp(right=ast.Constant(value=0)):
            pass
        case ast.BinOp(op=operator) if type(operator) in OPERATORS and not _is_text_sum(node):
            new = copy.deepcopy(node)
            new.op = OPERATORS[type(operator)]()
            yield "sign", new
            yield "dropped term", node.left
        case ast.BoolOp(values=values) if not _is_sentence(values[-1]):
            for place in range(len(values)):
                new_bool = copy.deepcopy(node)
                del new_bool.values[place]
                yield "dropped term", new_bool if len(values) > 2 else new_bool.values[0]
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            yield "sign", node.operand
        case ast.IfExp() if not (_is_sentence(node.body) and _is_sentence(node.orelse)):
            yield "dropped condition", node.body
        case ast.Call(func=ast.Name(id="min" | "max" as name)):
            called = copy.deepcopy(node)
            called.func = ast.Name({"min": "max", "max": "min"}[name], ast.Load())
            yield "sign", called


def _is_of_time_or_chance(node: ast.Compare) -> bool:
    """Return whether a bound is that of a time or a random number: whether it is one itself, nobody sees."""
    if not all(isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for operator in node.ops):
        return False
    for part in ast.walk(node):
        name = part.attr if isinstance(part, ast.Attribute) else part.id if isinstance(part, ast.Name) else ""
        if name in MEASURED or _is_seconds(name):
            return True
    return False


def _is_text_sum(node: ast.BinOp) -> bool:
    """Return whether texts or lists are added: another sign raises at once."""
    return any(
        isinstance(part, ast.JoinedStr | ast.List | ast.Tuple) or _is_text_constant(part) for part in ast.walk(node)
    )


def _is_sentence(node: ast.expr) -> bool:
    """Return whether an expression is a text of several words."""
    texts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return any(isinstance(text, ast.Constant) and isinstance(text.value, str) and " " in text.value for text in texts)


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
