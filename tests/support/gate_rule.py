"""Checks the rule for gate tests: a test waits for an event, never for an amount of time.

``python tests/support/gate_rule.py [FILE …]`` prints each call of ``sleep`` and ``Timer`` in a test file, and each
``timeout=`` of less than a minute, as ``path:line: message``. It skips tests and modules marked ``nightly`` or
``tools``.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from places import ROOT

FREE = {"nightly", "tools"}
"""Marks of tests that aren't in the gate."""
SHORTEST_S = 60
"""Seconds that a timeout has at least: it ends a test that hangs, and decides nothing else."""
FORBIDDEN = {"time.sleep", "asyncio.sleep", "threading.Timer"}


def problems(file: Path) -> Iterator[str]:
    """Yield each place of a test file that breaks the rule."""
    tree = ast.parse(file.read_bytes())
    if _is_free(tree):
        return
    names = _imported_names(tree)
    for call in _calls(tree):
        function = _dotted(call.func)
        first, _, rest = function.partition(".")
        if (full := f"{names.get(first, first)}.{rest}".rstrip(".")) in FORBIDDEN:
            yield f"{_relative(file)}:{call.lineno}: calls {full}; wait for an event instead"
        for keyword in call.keywords:
            if keyword.arg == "timeout" and _is_short(keyword.value):
                line = keyword.value.lineno
                yield f"{_relative(file)}:{line}: timeout={ast.unparse(keyword.value)} is less than {SHORTEST_S} s"


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls in a node, except for those in tests and classes that are free."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield child
        if not _is_free(child):
            yield from _calls(child)


def _is_free(node: ast.AST) -> bool:
    """Return whether a module, a class or a function has a mark of tests that aren't in the gate."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            marks = node.decorator_list
        case ast.Module(body=body):
            marks = [
                mark
                for line in body
                if isinstance(line, ast.Assign) and "pytestmark" in map(_dotted, line.targets)
                for mark in (line.value.elts if isinstance(line.value, ast.List | ast.Tuple) else [line.value])
            ]
        case _:
            return False
    names = {_dotted(mark.func if isinstance(mark, ast.Call) else mark) for mark in marks}
    return not names.isdisjoint(f"pytest.mark.{mark}" for mark in FREE)


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """Return what each imported name stands for, such as ``time.sleep`` for ``sleep``."""
    names = dict[str, str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _dotted(node: ast.expr) -> str:
    """Return the name of an expression like ``time.sleep``; for all others something that no name equals."""
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def _is_short(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float) and value.value < SHORTEST_S


def _relative(file: Path) -> str:
    return file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else str(file)


def main(words: list[str]) -> int:
    """Print the problems of some test files, or of all, and return 1 if there are any."""
    files = [Path(word).resolve() for word in words] or sorted(ROOT.glob("tests/**/test_*.py"))
    found = [problem for file in files for problem in problems(file)]
    sys.stdout.writelines(f"{problem}\n" for problem in found)
    sys.stdout.write(f"{len(files)} test files, problems: {len(found)}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
