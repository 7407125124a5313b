"""How values flow through the loops of a Python program, and which functions the program reaches.

A *name* is a variable or ``self.x``; the name of ``a.b`` and of ``a[i]`` is ``a``. Calls are opaque: a result depends
on the arguments and on the object of the call.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from evopolicygym.analysis.conduct.python_program import Function, PythonModule, PythonProgram

STEPPING = frozenset({"step", "Step", "mj_step", "step_simulation", "stepSimulation", "tick", "advance", "update"})
"""Methods that change their object."""
Loop = ast.For | ast.AsyncFor | ast.While
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
MOST_STATEMENTS = 400
"""Limit on the statements of a loop; a longer loop is skipped."""
MOST_READS = 5_000
"""Limit on the names that the statements of a loop read."""


@dataclass(slots=True)
class LoopWrite:
    """One statement that gives a name a value."""

    target: str
    reads: frozenset[str]
    """The names in the value."""
    control: frozenset[str]
    """The names in the conditions around the statement, inside the loop."""
    value: ast.expr | None
    statement: ast.stmt
    is_added: bool = False
    """Whether it is an augmented assignment."""


@dataclass(slots=True)
class LoopFlow:
    """The flow of values through a loop."""

    loop: Loop
    targets: frozenset[str] = frozenset()
    """The names that the head of the loop assigns."""
    source: frozenset[str] = frozenset()
    """The names that the head reads."""
    writes: list[LoopWrite] = field(default_factory=list)
    carried: frozenset[str] = frozenset()
    """Names whose value of the turn before is read."""
    ends_on: frozenset[str] = frozenset()
    """The names that decide whether the loop ends early: those of its condition and of conditions around ``break``."""
    calls: list[ast.Call] = field(default_factory=list)
    _made_of: dict[str, frozenset[str]] = field(default_factory=dict)
    """The names that each assigned name directly depends on, by value or by control."""

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
        """Return all names that a value depends on, itself included if the loop carries it."""
        names: set[str] = set()
        waiting = [name]
        while waiting:
            new = self._made_of.get(waiting.pop(), frozenset()) - names - without
            names |= new
            waiting += new
        return frozenset(names)

    def feeds(self, name: str) -> frozenset[str]:
        """Return the other names that a name's value is used for, directly."""
        return frozenset(write.target for write in self.writes if name in write.reads and write.target != name)


def loop_flow(loop: Loop) -> LoopFlow | None:
    """Return the flow of a loop; None if the loop is too long."""
    flow = LoopFlow(loop)
    exposed: set[str] = set()
    written: set[str] = set()
    read = 0
    if isinstance(loop, ast.While):
        exposed |= names_in(loop.test)
        flow.ends_on |= names_in(loop.test)
    else:
        flow.targets, flow.source = frozenset(target_names(loop.target)), names_in(loop.iter)
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

    Bodies of inner functions and classes are left out.
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
    """Return the name that an expression is or is a part of; empty if it is something else."""
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
    names: set[str] = set()
    waiting: list[ast.AST] = [node]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == "self":
            names.add(f"self.{inner.attr}")
        elif isinstance(inner, ast.Name):
            names.add(inner.id)
        else:
            waiting += ast.iter_child_nodes(inner)
    return frozenset(names)


def target_names(node: ast.expr) -> Iterator[str]:
    """Yield the names that a target writes, including those in tuples and lists."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.Tuple | ast.List):
            waiting += part.elts
        elif name := name_of(part):
            yield name


def _effects(statement: ast.stmt, control: frozenset[str]) -> tuple[frozenset[str], list[LoopWrite]]:
    """Return the names that a statement reads (its head, if it has blocks) and its writes."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            reads = names_in(value) | _indices(targets)
            return reads, [
                write for target in targets for write in _assignment_writes(target, value, control, statement)
            ] + _side_effects(statement, control)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            return names_in(value), [
                *_assignment_writes(target, value, control, statement),
                *_side_effects(statement, control),
            ]
        case ast.AugAssign(target=target, value=value):
            name, reads = name_of(target), names_in(value) | _indices([target])
            write = LoopWrite(name, reads | {name}, control, value, statement, is_added=True)
            return reads | {name}, [write, *_side_effects(statement, control)]
        case ast.If(test=test) | ast.While(test=test):
            return names_in(test), []
        case ast.For(target=target, iter=source) | ast.AsyncFor(target=target, iter=source):
            reads = names_in(source)
            return reads, [LoopWrite(name, reads, control, None, statement) for name in target_names(target)]
        case ast.With(items=items) | ast.AsyncWith(items=items):
            return frozenset().union(*(names_in(item.context_expr) for item in items)), []
        case ast.Expr(value=value):
            return names_in(value), _side_effects(statement, control)
        case ast.Return(value=ast.expr() as value):
            return names_in(value), []
        case ast.Match(subject=subject):
            return names_in(subject), []
        case ast.Assert(test=test):
            return names_in(test), []
    return frozenset(), []


def _indices(targets: list[ast.expr]) -> frozenset[str]:
    """Return the names in the indices of targets."""
    return frozenset().union(*(names_in(target.slice) for target in targets if isinstance(target, ast.Subscript)))


def _assignment_writes(
    target: ast.expr, value: ast.expr, control: frozenset[str], statement: ast.stmt
) -> Iterator[LoopWrite]:
    sequences = ast.Tuple | ast.List
    if isinstance(target, sequences) and isinstance(value, sequences) and len(target.elts) == len(value.elts):
        for element, part in zip(target.elts, value.elts, strict=True):
            yield from (LoopWrite(name, names_in(part), control, part, statement) for name in target_names(element))
        return
    for name in target_names(target):
        old = frozenset({name}) if isinstance(target, ast.Subscript) else frozenset()
        yield LoopWrite(name, names_in(value) | old, control, value, statement)


def _side_effects(statement: ast.stmt, control: frozenset[str]) -> list[LoopWrite]:
    """Return the side effects of a statement's calls: on an object that is stepped, or on the first argument."""
    writes: list[LoopWrite] = []
    for call in _calls(statement):
        match call.func:
            case ast.Attribute(value=inner, attr=attr) if attr in STEPPING:
                name = name_of(inner)
            case ast.Name(id=called) if isinstance(statement, ast.Expr) and _steps(called) and call.args:
                name = name_of(call.args[0])
            case _:
                continue
        if name:
            writes.append(LoopWrite(name, names_in(call) | {name}, control, call, statement))
    return writes


def _steps(called: str) -> bool:
    return called in STEPPING or called.startswith(("step_", "advance_", "simulate_")) or called.endswith("_step")


def _calls(statement: ast.stmt) -> list[ast.Call]:
    """Return the calls in a statement; only those in the head if it has blocks."""
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
"""Limit on the functions that are followed from a program."""


def reachable_bodies(program: PythonProgram, body: list[ast.stmt]) -> Iterator[tuple[PythonModule, list[ast.stmt]]]:
    """Yield the bodies that run: the given one, and those of all functions that it calls or passes on.

    Policies are skipped: their planning is their own.
    """
    yield program.main, body
    seen: set[int] = set()
    waiting: list[tuple[PythonModule, list[ast.stmt]]] = [(program.main, body)]
    while waiting and len(seen) < MOST_FUNCTIONS:
        module, part = waiting.pop()
        for where, function in _called_functions(program, module, part):
            if id(function) not in seen:
                seen.add(id(function))
                yield where, function.body
                waiting.append((where, function.body))


def _called_functions(
    program: PythonProgram, module: PythonModule, body: list[ast.stmt]
) -> Iterator[tuple[PythonModule, Function]]:
    for node in nodes_of(body):
        if isinstance(node, ast.Call):
            yield from program.function(module, node.func)
            for argument in node.args:  # a function that is handed on, as to an optimiser
                if isinstance(argument, ast.Name):
                    yield from program.function(module, argument)


def nodes_of(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield all nodes of a body, lambdas included, without those of its functions and classes."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, SCOPES) or isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def loops_of(body: list[ast.stmt]) -> Iterator[Loop]:
    """Yield all loops of a body, nested ones included."""
    for statement, _ in statements(body):
        if isinstance(statement, Loop):
            yield statement


def main_block(tree: ast.Module) -> list[ast.stmt]:
    """Return the statements that run only if the file is run as a script."""
    block: list[ast.stmt] = []
    for statement in tree.body:
        if isinstance(statement, ast.If) and "__name__" in {
            node.id for node in ast.walk(statement.test) if isinstance(node, ast.Name)
        }:
            block += statement.body
    return block
