"""The evolutions that were played by hand, whose edits are known: what the diagnostics say of them is what was done."""

import runpy

import pytest
from matplotlib.text import Text

from evopolicygym.analysis.diagnostic import DIAGNOSTICS
from evopolicygym.analysis.drawing.figure import FIGURES
from evopolicygym.analysis.report_data import find
from evopolicygym.analysis.results import load_results
from evopolicygym.records.reader import read_run
from evopolicygym.records.verify import findings
from places import ROOT

EXAMPLES = ROOT / "results" / "examples" / "outside"
if not EXAMPLES.is_dir():
    pytest.skip("the records lie in the repository, and not in the source distribution", allow_module_level=True)
S, P, C, R, N = "structural", "parametric", "cosmetic", "revert", "none"
EDITS = {
    "parking": [S, S, P, S, S, P, S, R, S, C, S, P, S, P],
    # The fifth was meant as tidying, and removed an import; the last changed a value of what it went back to.
    "key_corridor": [S, P, S, S, S, P, S, S, P, S, N, S, P],
    # What the log calls a repair was of a policy that was loaded and acted, so it is an edit; the twelfth, meant as
    # tidying, removed a constant that nothing used.
    "car_racing": [S, S, S, S, S, P, S, P, S, P, P, S, S, P, P],
}


@pytest.mark.parametrize("task", EDITS)
def test_edits_are_what_was_done(task: str) -> None:
    """Each submission is the kind of edit that its author wrote down, and was made from what it says."""
    (root,) = (EXAMPLES / task).iterdir()
    edits = DIAGNOSTICS.load("edits").measure(read_run(root))

    assert [one.edit_kind.value for one in edits.submissions] == EDITS[task]


@pytest.mark.parametrize("task", EDITS)
def test_records_are_whole_but_for_what_was_left_out(task: str) -> None:
    """All is as it was recorded; the hidden episodes' files and the feedback were left out, and that is said."""
    (root,) = (EXAMPLES / task).iterdir()

    assert [one.name for one in findings(root) if not one.ok] == ["evaluation"]


def test_a_lineage_shows_the_better_half() -> None:
    """What is far below the better half of a run stands at the bottom of its panel, its worth beside it."""
    found = find(load_results([EXAMPLES / "parking"]), [], None, ["edits"])
    figure = FIGURES.load("lineage").draw(found)
    (axes,) = figure.axes
    beside = [one.get_text() for one in axes.findobj(Text) if isinstance(one, Text)]

    assert axes.get_ylim()[0] > -7
    assert {"-44.1", "-66.1", "-17.2", "-19.1", "-7.13", "-6.64"} <= set(beside)


@pytest.mark.nightly
def test_the_page_has_the_tables_of_today() -> None:
    """What the docs say of the edits is what the diagnostics say."""
    tables = runpy.run_path(str(ROOT / "docs" / "tables.py"))

    for page in tables["PAGES"]:
        text = page.read_text(encoding="utf-8")
        assert tables["with_tables"](text) == text
