"""Which names of a Python program hold what it has read from files, such as an agent's own feedback."""

import ast
from collections.abc import Iterator

from evopolicygym.analysis.conduct.loop_flow import LoopFlow, name_of, names_in, statements, written_names
from evopolicygym.analysis.conduct.python_program import PythonModule, PythonProgram, called_name

READERS = frozenset(
    {"open", "load", "loads", "loadtxt", "genfromtxt", "read_csv", "read_json", "read_text", "read_bytes", "glob"}
    | {"fromfile", "read", "readlines", "iglob", "rglob", "listdir", "DictReader", "urlopen"}
)
"""Functions and methods that return what is in files."""
ADDING = frozenset({"append", "extend", "update", "add", "insert", "setdefault"})
MOST_ROUNDS = 12


def names_from_files(program: PythonProgram) -> frozenset[str]:
    """Return the names, of whatever function, that hold what comes from files."""
    flows = [flow for module in program.modules.values() for flow in _flows(program, module)]
    found: set[str] = set()
    for _ in range(MOST_ROUNDS):
        size = len(found)
        found |= {target for target, reads, is_read in flows if is_read or not reads.isdisjoint(found)}
        if len(found) == size:
            break
    return frozenset(found)


def recorded_names(flow: LoopFlow, from_files: frozenset[str]) -> frozenset[str]:
    """Return the names that hold another piece of recorded data in each turn of a loop.

    Those are what its head takes from recorded data, and what its body takes from there by a number that it counts.
    """
    found: set[str] = set()
    head = getattr(flow.loop, "iter", None)
    is_range = isinstance(head, ast.Call) and called_name(head) == "range"
    if head is not None and not is_range and (flow.source & from_files or _has_reader(head)):
        found |= flow.targets
    for write in flow.writes:
        if write.value is None and not write.reads.isdisjoint(from_files):
            found.add(write.target)
        for node in ast.walk(write.value) if write.value else ():
            if isinstance(node, ast.Subscript) and name_of(node) in from_files and _is_counted(node, flow):
                found.add(write.target)
    return frozenset(found)


def _is_counted(node: ast.Subscript, flow: LoopFlow) -> bool:
    return not names_in(node.slice).isdisjoint(flow.targets | flow.carried)


def _has_reader(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Call) and called_name(one) in READERS for one in ast.walk(node))


def _flows(program: PythonProgram, module: PythonModule) -> Iterator[tuple[str, frozenset[str], bool]]:
    """Yield what flows where: a name, what it is made of, and whether something is read from a file for it."""
    bodies = [module.tree.body, *(one.body for one in _functions(module))]
    for body in bodies:
        for statement, _ in statements(body):
            yield from _of(statement)
    for node in ast.walk(module.tree):
        match node:
            case ast.comprehension(target=target, iter=source):
                yield from ((one, names_in(source), _has_reader(source)) for one in names_in(target))
            case ast.Call(func=ast.Attribute(value=inner, attr=attr), args=args) if attr in ADDING:
                yield name_of(inner), frozenset().union(*map(names_in, args)), any(map(_has_reader, args))
            case ast.Call(func=func, args=args):
                for _, function in program.function(module, func):
                    names = [one.arg for one in function.args.args if one.arg != "self"]
                    yield from ((name, names_in(part), False) for name, part in zip(names, args, strict=False))


def _functions(module: PythonModule) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _of(statement: ast.stmt) -> Iterator[tuple[str, frozenset[str], bool]]:
    match statement:
        case ast.Assign(targets=targets, value=value):
            yield from (
                (one, names_in(value), _has_reader(value)) for target in targets for one in written_names(target)
            )
        case ast.AugAssign(target=target, value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
            yield from ((one, names_in(value), _has_reader(value)) for one in written_names(target))
        case ast.For(target=target, iter=source) | ast.AsyncFor(target=target, iter=source):
            yield from ((one, names_in(source), _has_reader(source)) for one in written_names(target))
        case ast.With(items=items):
            for item in items:
                if item.optional_vars is not None:
                    reads, is_read = names_in(item.context_expr), _has_reader(item.context_expr)
                    yield from ((one, reads, is_read) for one in written_names(item.optional_vars))
