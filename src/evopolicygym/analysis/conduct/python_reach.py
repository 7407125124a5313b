"""What a Python program runs when it is started: its statements and the functions that they reach, without policies."""

import ast
from collections.abc import Iterator

from evopolicygym.analysis.conduct.loop_flow import SCOPES, Loop, statements
from evopolicygym.analysis.conduct.python_program import Function, PythonModule, PythonProgram

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
