"""Isolation is a contract: what an isolation level does is declared by its backend, and nobody goes by its name."""

import ast
from pathlib import Path

import pytest

from places import ROOT

PACKAGE = ROOT / "src" / "evopolicygym"
LEVELS = {path.stem for path in (PACKAGE / "sandbox" / "backends").glob("*.py")} - {"__init__"}
ASKING = sorted(
    path.relative_to(PACKAGE).as_posix()
    for path in PACKAGE.rglob("*.py")
    if path.relative_to(PACKAGE).parts[0] != "sandbox" and "attacks" not in path.parts
)


def compared(path: Path) -> set[str]:
    """Return the words that a file compares something with, or matches it against."""
    words = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Compare | ast.MatchValue):
            words |= {
                one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)
            }
    return words


@pytest.mark.parametrize("file", ASKING)
def test_no_level_is_compared_by_its_name(file: str) -> None:
    """Outside of ``sandbox/`` no code does one thing for a level of this name and another for the next."""
    assert compared(PACKAGE / file) & LEVELS == set()
