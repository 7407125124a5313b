"""Results that ship have the numbers that they had: in tables, in exports, and in what ``verify`` finds.

``pytest tests/project/test_shipped_outputs.py --snapshot-update`` rewrites the snapshots after a change that was meant.
On one machine numbers are the same bit for bit. Snapshots hold ten digits and six decimals of them: intervals are drawn
with matrix products, whose last bits depend on the processor.
"""

import csv
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from evopolicygym.cli.main import app
from places import ROOT

if not (ROOT / "results").is_dir():
    pytest.skip("the records lie in the repository, and not in the source distribution", allow_module_level=True)
TABLES = (
    "leaderboard results/references --tables paper,baselines --format csv",
    "leaderboard --tables paper,references,baselines,anchors --format csv",
    "leaderboard --tables baselines --per-task --format csv",
    "diagnose results/baselines results/references --format csv",
    "compare tuner random_search --tables baselines --json",
)
"""Commands that print tables of what ships."""
PROSE = {"title", "notes"}
"""Fields that hold sentences."""
DIGITS, DECIMALS = 10, 6


@pytest.fixture(autouse=True)
def _in_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name results by their paths from the root."""
    monkeypatch.chdir(ROOT)


def printed(command: str) -> str:
    """Return what a command prints on stdout."""
    return CliRunner().invoke(app, command.split()).stdout


def rounded(cell: str) -> str:
    """Return a cell, with few enough digits for any processor if it is a number."""
    try:
        number = float(cell)
    except ValueError:
        return cell
    return f"{round(number, DECIMALS) + 0.0:.{DIGITS}g}"  # and no negative zero


def leaves(value: Any, path: str = "") -> Iterable[str]:
    """Yield the path and the value of everything in a JSON document but its sentences."""
    match value:
        case dict():
            for name, part in value.items():
                if name not in PROSE:
                    yield from leaves(part, f"{path}.{name}")
        case list() if any(isinstance(part, dict | list) for part in value):
            for place, part in enumerate(value):
                yield from leaves(part, f"{path}[{place}]")
        case list():
            yield f"{path} {' '.join(rounded(str(part)) for part in value)}"
        case _:
            yield f"{path} {rounded(str(value))}"


@pytest.mark.parametrize("command", TABLES)
def test_tables_have_the_numbers_that_they_had(command: str, snapshot: SnapshotAssertion) -> None:
    """Leaderboards, diagnostics and comparisons of what ships are as they were."""
    text = printed(command)
    if command.endswith("--json"):
        lines = list(leaves(json.loads(text)))
    else:
        lines = [",".join(map(rounded, row)) for row in csv.reader(text.splitlines())]

    assert "\n".join(lines) == snapshot


def test_exports_have_the_columns_that_they_had(snapshot: SnapshotAssertion, tmp_path: Path) -> None:
    """Every run has its score, and each column holds what it held; a digest is that of a column."""
    printed(f"export csv results/references -o {tmp_path}/out")
    found = {}
    for path in sorted((tmp_path / "out").glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            found[path.stem] = list(csv.DictReader(file))
    digests = {
        table: {name: digest(row[name] for row in rows) for name in rows[0]} | {"rows": len(rows)}
        for table, rows in found.items()
    }
    scores = [
        f"{run['run_id']} {run['task']} {run['agent']} {run['model']}: {rounded(run['score'])} "
        f"± {rounded(run['score_standard_error'])}"
        for run in found["runs"]
    ]

    assert {"scores": scores, "digests": digests} == snapshot


def digest(cells: Iterable[str]) -> str:
    """Return the beginning of the SHA-256 of a column's cells, of which a snapshot tells whether they are all empty."""
    cells = list(cells)
    if not any(cells):
        return "empty"
    return hashlib.sha256(json.dumps([rounded(cell) for cell in cells]).encode()).hexdigest()[:16]


def test_every_record_is_found_as_it_was(snapshot: SnapshotAssertion) -> None:
    """Each record has the findings of ``verify`` that it had; those that don't hold without a replay have a minus."""
    records = sorted(file.parent for file in Path("results").rglob("journal.jsonl") if "examples" not in file.parts)
    found = {}
    for record in records:
        findings = json.loads(printed(f"verify {record} --json"))["findings"]
        found[str(record)] = ", ".join(f"{'' if finding['ok'] else '-'}{finding['what']}" for finding in findings)

    assert found == snapshot
