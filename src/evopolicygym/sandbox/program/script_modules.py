"""Which modules beside a Python script it imports: they belong to an agent's program as the script itself does."""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

MOST_FILES, MOST_BYTES = 500, 1 << 20
"""The most modules that are found beside a script, and the largest file whose imports are read."""


def modules_beside(command: Sequence[str]) -> tuple[Path, ...]:
    """Return the files and packages beside a command's Python scripts that these import, by one another too.

    A script is a file that the command names by absolute path and that ends in ``.py``. Imports inside functions count;
    a module that is imported by a computed name does not.
    """
    found: dict[Path, None] = {}
    for script in (Path(word) for word in command if word.endswith(".py") and Path(word).is_absolute()):
        waiting = [script]
        while waiting and len(found) < MOST_FILES:
            for name in _imported(waiting.pop()):
                for module in (script.with_name(f"{name}.py"), script.with_name(name)):
                    if module == script or module in found:
                        continue
                    if module.is_file():
                        waiting.append(module)
                    elif (module / "__init__.py").is_file():
                        waiting += sorted(module.rglob("*.py"))[:MOST_FILES]
                    else:
                        continue
                    found[module] = None
    return tuple(found)


def _imported(file: Path) -> Iterator[str]:
    """Yield the top-level names that a file imports; none of one that can't be read."""
    try:
        tree = ast.parse(file.read_bytes()) if file.stat().st_size <= MOST_BYTES else ast.Module([], [])
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
