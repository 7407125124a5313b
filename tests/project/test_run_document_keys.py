"""How run.json is spelled is known in one place: all others read a run's summary."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from places import ROOT
from records_of_runs import real_document

SOURCE = ROOT / "src" / "evopolicygym"
READERS = sorted(file for file in SOURCE.rglob("*.py") if file.relative_to(SOURCE).parts[0] != "records")
TYPED = {"decode", "read_summary"}
"""What of the module that spells it returns a summary, and no document."""


def keys_of(value: Any) -> Iterator[str]:
    """Yield every key of a JSON value, whatever is in it."""
    if isinstance(value, dict):
        yield from value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from keys_of(one)


def names_the_file(node: ast.AST) -> bool:
    match node:
        case ast.BinOp(op=ast.Div(), right=ast.Constant(value="run.json")):
            return True
        case ast.Attribute(value=ast.Name(id="paths") | ast.Attribute(attr="paths"), attr="document"):
            return True
        case ast.ImportFrom(module="evopolicygym.records.run_document", names=names):
            return not {alias.name for alias in names} <= TYPED
    return False


def read_keys(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(slice=ast.Constant(value=str(key))):
                yield key
            case ast.Call(func=ast.Attribute(attr="get" | "pop"), args=[ast.Constant(value=str(key)), *_]):
                yield key


def keys_read_of_a_document(source: str, known: set[str]) -> set[str]:
    """Return which of a document's keys a module reads, where it has a document in hand."""
    tree = ast.parse(source)
    return known.intersection(read_keys(tree)) if any(map(names_the_file, ast.walk(tree))) else set()


def test_only_the_records_know_how_a_run_document_is_spelled(tmp_path: Path) -> None:
    """No other room that has a run.json in hand reads a key of it."""
    known = set(keys_of(real_document(tmp_path / "real")))
    found = {str(file): keys_read_of_a_document(file.read_text(encoding="utf-8"), known) for file in READERS}

    assert {file: keys for file, keys in found.items() if keys} == {}


@pytest.mark.parametrize(
    "source",
    [
        'json.loads(paths.document.read_text())["outcome"]["score"]',
        'told = json.loads((root / "run.json").read_bytes())\nrate = told.get("outcome")',
        'from evopolicygym.records.run_document import run_document\nrun_document(paths)["outcome"]',
    ],
)
def test_a_module_that_names_a_key_is_found(source: str) -> None:
    """Whichever way a document comes into a module's hands, a key that is read of it is seen."""
    assert "outcome" in keys_read_of_a_document(source, {"outcome", "stage"})
