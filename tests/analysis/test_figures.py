"""Figures: each is drawn of runs and of none, its texts are texts, its bytes never differ, no name breaks it."""

import warnings
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest
from matplotlib.text import Text

from evopolicygym.analysis.diagnostic import DIAGNOSTICS
from evopolicygym.analysis.drawing.canvas import SMALL, band, figure_bytes
from evopolicygym.analysis.drawing.figure import FIGURES, LONGEST, entry_style, short_names, shorten
from evopolicygym.analysis.published.score_tables import paper
from evopolicygym.analysis.report_data import ReportData, find
from evopolicygym.analysis.results import Results, load_results
from evopolicygym.core.errors import UnknownName
from reported import ENTRIES, write_reported

pytestmark = pytest.mark.made_up

HOSTILE = ("$\\frac{1}{0}$ _x_^{", "\x1b[31mred\nnext\tline", "n" * 150 + "<&\"'>" + "m" * 150, "_hidden", "极限 🙂")
LABELS = {
    "leaderboard": ["mean rank score over 3 tasks", *ENTRIES],
    "families": ["gym_box2d", "mean rank score", *ENTRIES],
    "aggregates": ["interquartile mean", "optimality gap", "normalised score over all runs", *ENTRIES],
    "profiles": ["normalised score", "share of runs above it (%)", *ENTRIES],
    "tasks": ["acrobot", "door_key", "mean return over held-out cases", "uniform random", *ENTRIES],
    "learning_curve": ["reacher", "train episodes spent", "best validation mean", *ENTRIES],
    "budget": ["budget spent before the submission (%)", "episodes of the submission", *ENTRIES],
    "edits": ["structural", "share of edits (%)", "edits that were a real gain (%)", *ENTRIES],
    "learning_families": ["gym_box2d", "budget spent (%)", "share of its improvement (%)", *ENTRIES],
    "lineage": ["validation mean", "train episodes spent", "structural", "hit", *ENTRIES],
    "code": ["branches", "budget spent (%)", *ENTRIES],
    "generalisation": ["valid.", "held-out", "mean return ± s.e.", *ENTRIES],
    "failures": ["not loaded: import error", "of all train episodes (%)", "mended", *ENTRIES],
    "cost": ["US dollars of a pass over its tasks", "rank score", "neutral"],
}
each = pytest.mark.parametrize("name", FIGURES.names())


def found_in(runs: Path) -> ReportData:
    return find(load_results([runs]), [], None, DIAGNOSTICS.names())


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    """Return what is found in runs of three entries on three tasks."""
    runs = tmp_path_factory.mktemp("runs")
    write_reported(runs)
    return found_in(runs)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    """Return what is found in runs of entries whose names mean something to everybody but us."""
    runs = tmp_path_factory.mktemp("hostile")
    write_reported(runs, HOSTILE, ["acrobot", "$\\alpha_"], repeats=1)
    return found_in(runs)


def texts_of(svg: bytes) -> list[str]:
    """Return every text of an SVG, which must be XML."""
    return [
        "".join(one.itertext()).strip()
        for one in ET.fromstring(svg).iter(  # noqa: S314 - our own
            "{http://www.w3.org/2000/svg}text"
        )
    ]


@each
def test_names_and_labels_are_texts(name: str, findings: ReportData) -> None:
    """An SVG holds names and labels as text that can be read in print, and asks nobody for anything."""
    figure = FIGURES.load(name).draw(findings)
    svg = figure_bytes(figure, "svg")
    found = texts_of(svg)
    shown = [one for one in figure.findobj(Text) if isinstance(one, Text) and one.get_text()]

    assert min(one.get_fontsize() for one in shown) >= SMALL

    assert [label for label in LABELS[name] if not any(label in text for text in found)] == []
    assert FIGURES.load(name).title in found
    assert not any(mark in svg for mark in (b"<image", b"@import", b'href="http', b"url(http", b"<script"))


@each
def test_a_figure_of_nothing_says_so(name: str) -> None:
    """Without runs a figure is words."""
    found = texts_of(figure_bytes(FIGURES.load(name).draw(ReportData()), "svg"))

    assert any(text.startswith("No ") for text in found)


@pytest.mark.parametrize(
    "name", [name if name == "edits" else pytest.param(name, marks=pytest.mark.nightly) for name in FIGURES.names()]
)
def test_bytes_are_the_same(name: str, findings: ReportData) -> None:
    """The same findings give the same files, whatever a user has set for matplotlib, which stays as it was."""
    before = dict(mpl.rcParams)
    first = [figure_bytes(FIGURES.load(name).draw(findings), form) for form in ("svg", "png", "pdf")]
    with mpl.rc_context({"font.size": 20, "axes.grid": False, "svg.fonttype": "path"}):
        figure = FIGURES.load(name).draw(findings)
        second = [figure_bytes(figure, form) for form in ("svg", "png", "pdf")]

    assert first == second
    assert first[1].startswith(b"\x89PNG")
    assert dict(mpl.rcParams) == before


@each
def test_no_name_breaks_a_figure(name: str, hostile: ReportData) -> None:
    """Names are shown as they are: no formula, no line break, no escape sequence, and short."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = texts_of(figure_bytes(FIGURES.load(name).draw(hostile), "svg"))

    assert not any("\x1b" in text or "nnnn" * 10 in text for text in found)
    assert any("_hidden" in text for text in found) or name == "cost"
    assert HOSTILE[0] in found or name == "cost"
    assert any("\\x1b[31mred" in text for text in found)


@each
def test_the_papers_table_alone(name: str) -> None:
    """Published means without cases or runs can be drawn, or words are."""
    found = texts_of(figure_bytes(FIGURES.load(name).draw(find(Results(), [paper()])), "svg"))

    assert any("GPT-5.5 (Codex)" in text or text.startswith("No ") for text in found)


def test_aggregates_and_profiles_are_drawn_where_they_are(findings: ReportData) -> None:
    """Marks, intervals, curves and bands have the numbers of the aggregates; uniform random isn't drawn."""
    rows = [row for row in findings.aggregates.entries if row.entry.kind != "anchor"]
    panels, [panel] = (FIGURES.load(name).draw(findings).axes for name in ("aggregates", "profiles"))
    gaps = [list(line.get_xdata()) for line in panels[3].lines]
    bands = [band.get_paths()[0].vertices[:, 1] for band in panel.collections]

    assert len(rows) == len(ENTRIES)
    for row in rows:
        interval = row.optimality_gap.interval
        assert interval is not None
        assert [interval.low, interval.high] in gaps
        assert [row.optimality_gap.value] in gaps
    assert [[100 * share for share in row.profile.shares] for row in rows] == [
        list(line.get_ydata()) for line in panel.lines
    ]
    assert [(100 * min(row.profile.low or ()), 100 * max(row.profile.high or ())) for row in rows] == [
        (ends.min(), ends.max()) for ends in bands
    ]


def test_scores_that_are_no_numbers(findings: ReportData) -> None:
    """Returns that are no number, or not finite, are left out of figures and break none."""
    runs = [
        replace(run.result, held_out_returns=(float(odd),) * 8)
        for run, odd in zip(findings.runs, ["nan"] * 18, strict=True)
    ]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=RuntimeWarning)
        odd = find(Results(tuple(runs)))
    shown = {
        name: texts_of(figure_bytes(FIGURES.load(name).draw(odd), "svg"))
        for name in ("leaderboard", "tasks", "families")
    }

    assert "no number" in shown["tasks"]
    assert "tuner" in shown["leaderboard"]


def test_looks_and_names_differ() -> None:
    """Entries are told apart by more than their colours, and names that are shortened stay different."""
    looks = [entry_style(place) for place in range(280)]
    long = short_names(["a" * 100 + "1" + "b" * 100, "a" * 100 + "2" + "b" * 100, "short"])

    assert len(set(looks)) == 280
    assert len({(one.marker, one.line) for one in looks[:40]}) == 40
    assert len(set(long.values())) == 3
    assert max(map(len, long.values())) <= LONGEST
    assert long["short"] == "short"
    assert shorten("a\nb") == "a\\nb"


def test_a_band_of_repeats() -> None:
    """A band holds the mean, the lowest and the highest of step functions, from where all are known."""
    found = band([[(0, None), (2, 1.0), (4, 3.0)], [(0, 0.0), (4, 5.0)]], 8)

    assert found is not None
    assert found.at.tolist() == [0, 2, 4, 8]
    assert found.mean.tolist()[1:] == [0.5, 4.0, 4.0]
    assert found.mean[0] != found.mean[0]
    assert (found.low.tolist()[1:], found.high.tolist()[1:]) == ([0, 3, 3], [1, 5, 5])
    assert band([[(0, None)], [(0, 1.0)]], 8) is None


def test_formats(findings: ReportData) -> None:
    """A format that isn't there is named with those that are."""
    with pytest.raises(UnknownName, match="pdf, png, svg"):
        figure_bytes(FIGURES.load("cost").draw(findings), "gif")
