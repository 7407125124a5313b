"""One rule for texts in all CSVs: what begins as a formula does gets an apostrophe, unless it is a number."""

import csv
import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from evopolicygym.analysis.tables.table import Column, Table, format_tables
from evopolicygym.core.agent import AgentConfig
from evopolicygym.export.exporters import export
from exported import recorded
from fakes import opening
from made_up import opened

pytestmark = pytest.mark.made_up

DOWNLOAD = Path(__file__).parents[2] / "src" / "evopolicygym" / "viewer" / "static" / "download.js"
CASES = {
    "=1+1": "'=1+1",
    "+cmd|' /C calc'!A0": "'+cmd|' /C calc'!A0",
    "-2+3": "'-2+3",
    "@SUM(A1)": "'@SUM(A1)",
    "-": "'-",
    "-1e": "'-1e",
    "-inf": "'-inf",
    "-\N{ARABIC-INDIC DIGIT ONE}": "'-\N{ARABIC-INDIC DIGIT ONE}",
    "-1.5": "-1.5",
    "+3": "+3",
    "-.5e-7": "-.5e-7",
    "tuner": "tuner",
    "'=1+1": "'=1+1",
    "": "",
}
CONTROLS = {"\t=1": "'\t=1", "\r=1": "'\r=1", "-1\n": "'-1\n"}


def _exported(labels: list[str], place: Path) -> list[str]:
    """Return the labels of runs as their exported CSV has them, in order."""
    for number, label in enumerate(labels):
        agent = AgentConfig("random", label=label)
        recorded(place / "in" / f"{number:02}", [opening(run_id=f"{number:02}", agent=agent)])
    export("csv", opened(place / "in"), place / "out", ["runs"])
    with (place / "out" / "runs.csv").open(encoding="utf-8", newline="") as file:
        return [row["agent"] for row in csv.DictReader(file)]


def _tabled(labels: list[str]) -> list[str]:
    """Return labels as the CSV of a table has them."""
    table = Table("t", (Column("entry", "entry", is_text=True),), tuple((label,) for label in labels))
    return [row["entry"] for row in csv.DictReader(io.StringIO(format_tables([table], "csv")), restval="")]


def test_labels_of_two_tables_match(tmp_path: Path) -> None:
    """An export and a table spell a label alike, so that they can be joined on it."""
    labels = [label for label in CASES if label]

    assert _exported(labels, tmp_path) == _tabled(labels) == [CASES[label] for label in labels]


def test_controls(tmp_path: Path) -> None:
    """A tab or a carriage return at the beginning hides no formula."""
    assert _exported([*CONTROLS], tmp_path) == _tabled([*CONTROLS]) == ["\\t=1", "\\r=1", "'-1\\n"]


def test_the_viewer_writes_the_same() -> None:
    """The pages' own function follows the same rule."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed, which runs the pages' own function")
    cases = CASES | CONTROLS
    rows = json.dumps([[text] for text in cases])
    script = f"import {{ csv }} from {json.dumps(DOWNLOAD.as_uri())}; process.stdout.write(csv({rows}))"
    done = subprocess.run([node, "--input-type=module", "-e", script], capture_output=True, check=True)
    found = list(csv.reader(io.StringIO(done.stdout.decode(), newline="")))

    assert [row[0] if row else "" for row in found] == [*cases.values()]
