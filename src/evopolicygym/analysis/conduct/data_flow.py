"""How values flow through the loops of a Python program, and which functions the program reaches.

A *name* is a variable or ``self.x``; the name of ``a.b`` and of ``a[i]`` is ``a``. Calls are opaque: a result depends
on the arguments and on the object of the call.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from evopolicygym.analysis.conduct.python_program import Function, PythonModule, PythonProgram

STEPPING = frozenset({"step", "Step", "mj_step", "step_simulation", "stepSimulation", "tick", "advance", "update"})
"""Methods that change their object, whatever they return."""
Loop = ast.For | ast.AsyncFor | ast.While
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
MOST_STATEMENTS = 400
"""Of one loop; a longer one is not looked at."""
MOST_READS = 5_000
"""Of all statements of one loop together."""


@dataclass(slots=True)
class LoopWrite:
    """One statement that gives a name a value."""

    target: str
    reads: frozenset[str]
    """What the value is made of."""
    control: frozenset[str]
    """What decides whether it is done: names in conditions around it, inside of the loop."""
    value: ast.expr | None
    statement: ast.stmt
    is_added: bool = False
    """Whether it is an augmented assignment."""


@dataclass(slots=True)
class LoopFlow:
    """What flows through a loop."""

    loop: Loop
    targets: frozenset[str] = frozenset()
    """What the loop's head gives a value."""
    source: frozenset[str] = frozenset()
    """What its head reads."""
    writes: list[LoopWrite] = field(default_factory=list)
    carried: frozenset[str] = frozenset()
    """Names whose value of the turn before is read."""
    ends_on: frozenset[str] = frozenset()
    """Names that decide whether the loop ends early: those of its condition, and of what leads to ``break``."""
    calls: list[ast.Call] = field(default_factory=list)
    _made_of: dict[str, frozenset[str]] = field(default_factory=dict)
    """What each name that is written is made of, or decided by, directly."""

    def add(self, writes: Iterable[LoopWrite]) -> None:
        """Add what a statement writes."""
        for write in writes:
            self.writes.append(write)
            self._made_of[write.target] = self._made_of.get(write.target, frozenset()) | write.reads | write.control

    @property
    def written(self) -> frozenset[str]:
        """Names that its body gives a value."""
        return frozenset(write.target for write in self.writes)

    def origins(self, name: str, without: frozenset[str] = frozenset()) -> frozenset[str]:
        """Return all names of the loop, or read by it, that a value is made of, itself included where it is carried."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            new = self._made_of.get(waiting.pop(), frozenset()) - found - without
            found |= new
            waiting += new
        return frozenset(found)

    def feeds(self, name: str) -> frozenset[str]:
        """Return the other names that a name's value is used for, directly."""
        return frozenset(write.target for write in self.writes if name in write.reads and write.target != name)


def loop_flow(loop: Loop) -> LoopFlow | None:
    """Return what flows through a loop; None where it is too long."""
    flow = LoopFlow(loop)
    exposed: set[str] = set()
    written: set[str] = set()
    read = 0
    if isinstance(loop, ast.While):
        exposed |= names_in(loop.test)
        flow.ends_on |= names_in(loop.test)
    else:
        flow.targets, flow.source = frozenset(written_names(loop.target)), names_in(loop.iter)
        written |= flow.targets
    for number, (statement, control) in enumerate(statements(loop.body)):
        if number > MOST_STATEMENTS or read > MOST_READS:
            return None
        reads, writes = _effects(statement, control)
        exposed |= reads - written
        written |= {write.target for write in writes}
        flow.add(writes)
        read += sum(len(write.reads) + len(write.control) for write in writes)
        flow.calls += _calls(statement)
        if isinstance(statement, ast.Break | ast.Return):
            flow.ends_on |= control
    flow.carried = frozenset(exposed & flow.written)
    return flow


def statements(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, frozenset[str]]]:
    """Yield all statements of a body in their order, each with the names in the conditions around it.

    Bodies of functions and classes that are defined there are left out.
    """
    waiting: list[tuple[ast.stmt, frozenset[str]]] = [(statement, frozenset()) for statement in reversed(body)]
    while waiting:
        statement, control = waiting.pop()
        yield statement, control
        blocks: list[list[ast.stmt]] = []
        match statement:
            case ast.If(test=test, body=first, orelse=second) | ast.While(test=test, body=first, orelse=second):
                control, blocks = control | names_in(test), [first, second]
            case ast.For(body=first, orelse=second) | ast.AsyncFor(body=first, orelse=second):
                blocks = [first, second]
            case ast.With(body=first) | ast.AsyncWith(body=first):
                blocks = [first]
            case ast.Try(body=first, handlers=handlers, orelse=second, finalbody=last):
                blocks = [first, *(handler.body for handler in handlers), second, last]
            case ast.Match(subject=subject, cases=cases):
                control, blocks = control | names_in(subject), [case.body for case in cases]
        waiting += [(statement, control) for statement in reversed([part for block in blocks for part in block])]


def name_of(node: ast.expr) -> str:
    """Return the name that an expression stands for or is part of; empty where it is something else."""
    while True:
        match node:
            case ast.Name(id=name):
                return name
            case ast.Attribute(value=ast.Name(id="self"), attr=attr):
                return f"self.{attr}"
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Starred(value=inner):
                node = inner
            case _:
                return ""


def names_in(node: ast.AST) -> frozenset[str]:
    """Return all names that an expression reads."""
    found: set[str] = set()
    waiting: list[ast.AST] = [node]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == "self":
            found.add(f"self.{inner.attr}")
        elif isinstance(inner, ast.Name):
            found.add(inner.id)
        else:
            waiting += ast.iter_child_nodes(inner)
    return frozenset(found)


def written_names(node: ast.expr) -> Iterator[str]:
    """Yield the names that a target writes, those within tuples and lists too."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.Tuple | ast.List):
            waiting += part.elts
        elif name := name_of(part):
            yield name


def _effects(statement: ast.stmt, control: frozenset[str]) -> tuple[frozenset[str], list[LoopWrite]]:
    """Return what a statement reads, that of its head where it has blocks, and what it writes."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            reads = names_in(value) | _indices(targets)
            return reads, [
                write for target in targets for write in _assigned(target, value, control, statement)
            ] + _moved(statement, control)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            return names_in(value), [*_assigned(target, value, control, statement), *_moved(statement, control)]
        case ast.AugAssign(target=target, value=value):
            name, reads = name_of(target), names_in(value) | _indices([target])
            write = LoopWrite(name, reads | {name}, control, value, statement, is_added=True)
            return reads | {name}, [write, *_moved(statement, control)]
        case ast.If(test=test) | ast.While(test=test):
            return names_in(test), []
        case ast.For(target=target, iter=source) | ast.AsyncFor(target=target, iter=source):
            reads = names_in(source)
            return reads, [LoopWrite(name, reads, control, None, statement) for name in written_names(target)]
        case ast.With(items=items) | ast.AsyncWith(items=items):
            return frozenset().union(*(names_in(item.context_expr) for item in items)), []
        case ast.Expr(value=value):
            return names_in(value), _moved(statement, control)
        case ast.Return(value=ast.expr() as value):
            return names_in(value), []
        case ast.Match(subject=subject):
            return names_in(subject), []
        case ast.Assert(test=test):
            return names_in(test), []
    return frozenset(), []


def _indices(targets: list[ast.expr]) -> frozenset[str]:
    """Return what the indices of targets read."""
    return frozenset().union(*(names_in(target.slice) for target in targets if isinstance(target, ast.Subscript)))


def _assigned(target: ast.expr, value: ast.expr, control: frozenset[str], statement: ast.stmt) -> Iterator[LoopWrite]:
    sequences = ast.Tuple | ast.List
    if isinstance(target, sequences) and isinstance(value, sequences) and len(target.elts) == len(value.elts):
        for element, part in zip(target.elts, value.elts, strict=True):
            yield from (LoopWrite(name, names_in(part), control, part, statement) for name in written_names(element))
        return
    for name in written_names(target):
        old = frozenset({name}) if isinstance(target, ast.Subscript) else frozenset()
        yield LoopWrite(name, names_in(value) | old, control, value, statement)


def _moved(statement: ast.stmt, control: frozenset[str]) -> list[LoopWrite]:
    """Return what calls of a statement change besides: an object that is stepped, what a statement alone hands over."""
    found: list[LoopWrite] = []
    for call in _calls(statement):
        match call.func:
            case ast.Attribute(value=inner, attr=attr) if attr in STEPPING:
                name = name_of(inner)
            case ast.Name(id=called) if isinstance(statement, ast.Expr) and _steps(called) and call.args:
                name = name_of(call.args[0])
            case _:
                continue
        if name:
            found.append(LoopWrite(name, names_in(call) | {name}, control, call, statement))
    return found


def _steps(called: str) -> bool:
    return called in STEPPING or called.startswith(("step_", "advance_", "simulate_")) or called.endswith("_step")


def _calls(statement: ast.stmt) -> list[ast.Call]:
    """Return the calls in a statement; in the head alone of one that has blocks."""
    match statement:
        case ast.If(test=head) | ast.While(test=head) | ast.For(iter=head) | ast.AsyncFor(iter=head):
            heads: list[ast.AST] = [head]
        case ast.With(items=items) | ast.AsyncWith(items=items):
            heads = [item.context_expr for item in items]
        case ast.Try() | ast.Match() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            heads = []
        case _:
            heads = [statement]
    return [node for head in heads for node in ast.walk(head) if isinstance(node, ast.Call)]


MOST_FUNCTIONS = 400
"""That are followed from one program."""


def reached(program: PythonProgram, body: list[ast.stmt]) -> Iterator[tuple[PythonModule, list[ast.stmt]]]:
    """Yield the bodies that run: the given one, and those of all functions that it calls or hands on.

    Policies are not gone into: how they plan is their own.
    """
    yield program.main, body
    seen: set[int] = set()
    waiting: list[tuple[PythonModule, list[ast.stmt]]] = [(program.main, body)]
    while waiting and len(seen) < MOST_FUNCTIONS:
        module, part = waiting.pop()
        for where, function in _called(program, module, part):
            if id(function) not in seen:
                seen.add(id(function))
                yield where, function.body
                waiting.append((where, function.body))


def _called(
    program: PythonProgram, module: PythonModule, body: list[ast.stmt]
) -> Iterator[tuple[PythonModule, Function]]:
    for node in nodes(body):
        if isinstance(node, ast.Call):
            yield from program.function(module, node.func)
            for argument in node.args:  # a function that is handed on, as to an optimiser
                if isinstance(argument, ast.Name):
                    yield from program.function(module, argument)


def nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield all nodes of a body, without those of functions and classes that are defined in it; lambdas included."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, SCOPES) or isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def loops(body: list[ast.stmt]) -> Iterator[Loop]:
    """Yield all loops of a body, those within others included."""
    for statement, _ in statements(body):
        if isinstance(statement, Loop):
            yield statement


def main_block(tree: ast.Module) -> list[ast.stmt]:
    """Return the statements that run only where a file is started by itself."""
    found: list[ast.stmt] = []
    for statement in tree.body:
        if isinstance(statement, ast.If) and "__name__" in {
            node.id for node in ast.walk(statement.test) if isinstance(node, ast.Name)
        }:
            found += statement.body
    return found
