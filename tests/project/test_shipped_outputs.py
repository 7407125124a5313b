"""What ships of results reads as it always did: the numbers of every table, of every export, found in every record.

On one machine they are the same bit for bit. The digests hold ten digits of what is printed as JSON, and six decimals:
intervals are drawn with matrix products, whose last bits are the processor's own.
"""

import csv
import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evopolicygym.cli.main import app
from places import ROOT

if not (ROOT / "results").is_dir():
    pytest.skip("the records lie in the repository, and not in the source distribution", allow_module_level=True)
KNOWN = tomllib.loads(Path(__file__).with_name("shipped_outputs.toml").read_text(encoding="utf-8"))
"""SHA-256 of each command's numbers, taken before the package was laid out anew."""
PROSE = {"title", "notes", "detail"}
"""Sentences may be worded anew."""
DIGITS, DECIMALS = 10, 6


def _numbers(value: Any) -> Any:
    """Return a document without its sentences, with its numbers rounded and with paths as seen from here."""
    if isinstance(value, dict):
        return {name: _numbers(one) for name, one in value.items() if name not in PROSE}
    if isinstance(value, list):
        return [_numbers(one) for one in value]
    if isinstance(value, float):
        return float(f"{round(value, DECIMALS):.{DIGITS}g}") + 0.0  # and no negative zero
    return value.removeprefix(f"{ROOT}/") if isinstance(value, str) else value


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(_numbers(value), sort_keys=True).encode()).hexdigest()


def _printed(command: str) -> Any:
    return json.loads(CliRunner().invoke(app, [*command.split(), "--json"]).stdout)


@pytest.mark.parametrize("command", KNOWN["json"])
def test_what_is_printed_of_shipped_results_is_as_it_was(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaderboards, diagnostics and comparisons of what ships have the numbers that they had."""
    monkeypatch.chdir(ROOT)

    assert KNOWN["json"][command] == _digest(_printed(command))


def test_what_is_exported_of_shipped_results_is_as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every column that there was holds what it held."""
    monkeypatch.chdir(ROOT)
    CliRunner().invoke(app, ["export", "csv", "results/baselines", "results/references", "-o", str(tmp_path)])

    for name, table in KNOWN["csv"].items():
        with (tmp_path / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            rows = [{column: row[column] for column in table["columns"]} for row in csv.DictReader(file)]
        assert (name, table["sha256"]) == (name, _digest(rows))


def test_every_shipped_record_is_found_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `verify` looks at in each record, and whether it is in order, is as it was."""
    monkeypatch.chdir(ROOT)
    journals = [file for file in Path("results").rglob("journal.jsonl") if "examples" not in file.parts]
    records = sorted(file.parent for file in journals)
    found = {str(record): _printed(f"verify {record}") for record in records}

    assert KNOWN["verify"]["sha256"] == _digest(found)
