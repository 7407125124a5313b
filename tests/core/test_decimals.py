"""How figures are shown: with the decimals that tell something, and a dash for what one episode leaves unknown."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import evopolicygym
from evopolicygym.analysis.tables.table import Number, cell_text
from evopolicygym.core.event import CheckpointSelected, CloseReason, Event, RunClosed, RunFinished, RunStatus
from evopolicygym.core.text import decimals, number, plus_minus
from evopolicygym.records.reader import read_run
from evopolicygym.records.verify import findings
from evopolicygym.records.writer import RunWriter
from fakes import TIME, held_out, opening, submitted, task, validated
from shell import Shell

pytestmark = pytest.mark.made_up

SHOWN = [
    ((0.9871, None), 4), ((0.98713, 0.00021), 5), ((-98.2214, 3.84), 2), ((4095.3, 39.2), 2), ((0.0, 0.0), 2),
    ((1e-9, None), 6), ((float("nan"), None), 2), ((5.0, float("inf")), 3),
    ((1595.72, 371.9), 0), ((109_531.5, None), 0),
]  # fmt: skip
DOM = Path(evopolicygym.__file__).parent / "viewer" / "static" / "dom.js"


@pytest.mark.parametrize(("given", "expected"), SHOWN)
def test_decimals_follow_the_standard_error(given: tuple[float, float | None], expected: int) -> None:
    """Two significant digits of an error are shown, four of a number without one, in two to six decimals or in none."""
    assert decimals(*given) == expected


def test_the_viewer_shows_as_many_decimals() -> None:
    """The pages count decimals as the program does."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed, which runs the pages' own function")
    known = [item for item in SHOWN if item[0][0] == item[0][0] and item[0][1] != float("inf")]
    cases = json.dumps([given for given, _ in known])
    counted = f"{cases}.map(([value, error]) => decimals(value, error))"
    script = f"import {{ decimals }} from {json.dumps(DOM.as_uri())}; console.log(JSON.stringify({counted}))"
    left = subprocess.run([node, "--input-type=module", "-e", script], capture_output=True, text=True, check=True)

    assert json.loads(left.stdout) == [expected for _, expected in known]


def test_tables_and_lines_agree() -> None:
    """A line of the program and a table's cell show a mean alike; an unknown error is left out."""
    assert plus_minus(0.985681, 0.000213) == cell_text(Number(0.985681, None, 0.000213)) == "0.98568 ± 0.00021"
    assert (number(0.9871), plus_minus(2.0, None)) == ("0.9871", "2.000")


def test_one_case_leaves_the_error_unknown(shell: Shell, tmp_path: Path) -> None:
    """A score over one case has no error."""
    opened = opening(task=task(held_out_cases=1))
    events: list[Event] = [
        *(opened, *submitted(0, [1.0], "a"), RunClosed(TIME, CloseReason.AGENT_ENDED), *validated("a", [1.0, 1.0])),
        *(CheckpointSelected(TIME, 0, "a", 1.0), *held_out("a", [2.0])),
        RunFinished(TIME, RunStatus.SCORED, 2.0, None),
    ]
    with RunWriter(tmp_path / "run", events[0]) as writer:
        for event in events[1:]:
            writer.record(event)
        writer.write_document()
    found = read_run(tmp_path / "run").state.held_out()
    board = shell.json("leaderboard", tmp_path / "run")["entries"][0]["tasks"]["toy"]

    assert found is not None
    assert (found.standard_error, board["standard_error"], board["interval"]) == (None, None, None)
    assert "held-out score 2.000 over 1 case" in shell.printed("show", tmp_path / "run")
    assert [one.ok for one in findings(tmp_path / "run") if one.name in {"journal", "run.json"}] == [True, True]
