"""A table carries its notes, and whoever prints the table prints them."""

from pathlib import Path

import pytest

from evopolicygym.analysis.published.score_tables import paper
from evopolicygym.analysis.report_data import find
from evopolicygym.analysis.results import load_results
from evopolicygym.report.tables import OF_BOARD
from evopolicygym.viewer.documents.compare import compare_bundle
from evopolicygym.viewer.documents.suite import suite_bundle
from records_of_runs import changed, real_document, write, write_many
from shell import Shell
from viewed import viewed

pytestmark = pytest.mark.made_up

PUBLISHED = "Published means, and shipped runs of other experiments, are of other cases, perhaps versions."
"""A note of every table in which the paper's entries stand beside runs."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a run of each of two agents."""
    place = tmp_path_factory.mktemp("noted")
    write_many(place / "runs", place / "real", ["good", "bad"], 1, ["acrobot"], cases=4)
    return place / "runs"


@pytest.mark.parametrize("form", ["table", "csv", "json", "markdown", "latex"])
@pytest.mark.parametrize("more", [[], ["--show", "scores"], ["--per-task"]], ids=" ".join)
def test_leaderboard(runs: Path, shell: Shell, form: str, more: list[str]) -> None:
    """The leaderboard's notes stand below it in every format; CSV has no place for them, so they go to stderr."""
    left = shell("leaderboard", runs, "--tables", "paper", "--format", form, *more)
    place, other = (left.err, left.out) if form == "csv" else (left.out, left.err)

    assert PUBLISHED.partition(",")[0] in place
    assert PUBLISHED.partition(",")[0] not in other


def test_the_texts_beside_published_rows(runs: Path, shell: Shell, tmp_path: Path) -> None:
    """A table of runs beside the paper's rows says which text each had; without published rows it says nothing."""
    document = changed(real_document(tmp_path / "real"), "acrobot", "terse", [-90.0])
    document["task"]["choices"] = {"text": "terse"}
    short = write(tmp_path / "short", document)
    paper_has = "the paper's own, short (arXiv 2607.02440, table 1)"

    assert (
        f"Text of the tasks: full (runs); {paper_has}." in shell.json("leaderboard", runs, "--tables", "paper")["notes"]
    )
    assert (
        f"Text of the tasks: terse (runs); {paper_has}."
        in shell.json("leaderboard", short, "--tables", "paper")["notes"]
    )
    assert "Text of the tasks" not in shell.printed("leaderboard", runs)


def test_compare(runs: Path, shell: Shell) -> None:
    """A comparison has the notes of the table that its entries are of, besides its own, for people and programs."""
    asked = ("compare", "good", "GPT-5.5 (Codex)", runs, "--tables", "paper")

    assert f"- {PUBLISHED}" in shell.printed(*asked)
    assert PUBLISHED in shell.json(*asked)["notes"]
    (verdict,) = [note for note in shell.json("compare", "good", "bad", runs)["notes"] if "verdict" in note]
    assert f"- {verdict}" in shell.printed("compare", "good", "bad", runs)


@pytest.mark.parametrize("name", sorted(OF_BOARD.keys() - {"headroom", "published", "compare", "conduct"}))
def test_each_table_of_a_report(runs: Path, name: str) -> None:
    """Each table of a report that has shipped rows has the notes in those files that have a place for them."""
    texts = OF_BOARD[name].write(find(load_results([runs]), [paper()]))
    noted = {suffix for suffix, text in texts.items() if PUBLISHED.partition(",")[0] in text}

    assert "md" in noted
    assert noted == texts.keys() - {"csv"}


def test_the_viewer(runs: Path) -> None:
    """The viewer's leaderboard and its comparison of two runs are given notes to show."""
    first, second = map(viewed, load_results([runs]).runs)

    assert PUBLISHED in suite_bundle([first, second], [paper()])["groups"][0]["notes"]
    assert compare_bundle(first, second)["notes"]
