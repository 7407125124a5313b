"""``evopolicygym audit``: what it prints, how it leaves, and the same from Python."""

import json
import re
from pathlib import Path

import pytest

import evopolicygym
from evopolicygym.core.errors import UnknownName
from labelled_conduct import conduct_record, labelled_conduct
from places import ROOT
from shell import Shell

EXAMPLES = {one.name: one for one in labelled_conduct("development")}
SIMULATOR, HARMLESS = EXAMPLES["mountain car in a function"], EXAMPLES["where episodes end"]
LESS_GRAVE = EXAMPLES["numpy by pip"]


@pytest.fixture
def serious(tmp_path: Path) -> Path:
    """Return a run whose agent played a simulator of its own."""
    return conduct_record(tmp_path / "runs" / "serious", SIMULATOR).root


@pytest.fixture
def harmless(tmp_path: Path) -> Path:
    """Return a run whose agent read its feedback."""
    return conduct_record(tmp_path / "runs" / "harmless", HARMLESS).root


def test_findings_are_printed_with_their_evidence(serious: Path, shell: Shell) -> None:
    """The grade, the kind, the place and the words stand there; a finding is no failure."""
    left = shell("audit", serious)

    assert left.code == 0
    assert all(word in left.out for word in ("serious", "own_simulator", "logs/agent.log:1", "for t in range(200):"))


def test_nothing_found_is_said(harmless: Path, shell: Shell) -> None:
    """So is how much was read."""
    left = shell("audit", harmless)

    assert left.code == 0
    assert "nothing was found" in left.out
    assert re.search(r"\b1 command, 1 program\b", left.out)


def test_many_runs_have_a_row_each(serious: Path, harmless: Path, shell: Shell) -> None:
    """Findings are counted by grade; a run that can't be read is named and left out."""
    (serious.parent / "broken").mkdir()
    (serious.parent / "broken" / "journal.jsonl").write_text("{", encoding="utf-8")
    left = shell("audit", serious.parent, "--json")
    document = json.loads(left.out)

    assert left.code == 0, left.err
    assert {Path(one["run"]).name: one["counts"]["serious"] for one in document["runs"]} == {
        "serious": 1,
        "harmless": 0,
    }
    assert [Path(one["run"]).name for one in document["problems"]] == ["broken"]
    assert harmless.name in shell("audit", serious.parent).out


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_grade_can_be_asked_to_fail(
    serious: Path, harmless: Path, tmp_path: Path, shell: Shell, form: tuple[str, ...]
) -> None:
    """The exit code is 1 where something so grave was found, and 0 where all is less grave, or nothing was found."""
    less = conduct_record(tmp_path / "runs" / "less", LESS_GRAVE).root
    codes = {
        grade: [shell("audit", run, "--fail-on", grade, *form).code for run in (serious, less, harmless)]
        for grade in ("serious", "look", "note")
    }

    assert codes == {"serious": [1, 0, 0], "look": [1, 1, 0], "note": [1, 1, 0]}


def test_one_kind_alone(serious: Path, shell: Shell) -> None:
    """`--only` names detectors, and one that isn't there is refused with those that are."""
    left = shell("audit", serious, "--only", "nothing")

    assert "nothing was found" in shell("audit", serious, "--only", "network,install").out
    assert (left.code, "own_simulator" in left.err) == (2, True)


def test_a_run_that_is_not_there(tmp_path: Path, shell: Shell) -> None:
    """It is refused by its name."""
    left = shell("audit", tmp_path / "nowhere")

    assert (left.code, "nowhere" in left.err) == (2, True)


def test_a_leaderboard_counts_findings(shell: Shell) -> None:
    """`leaderboard --audit` has a table of findings by grade, and none without it."""
    shipped = ROOT / "results" / "second_split"
    left = shell("leaderboard", shipped, "--audit")

    assert left.code == 0, left.err
    assert "findings by grade" in left.out
    assert "findings by grade" not in shell("leaderboard", shipped).out
    assert json.loads(shell("leaderboard", shipped, "--audit", "--json").out)["findings_by_run"]


def test_from_python(serious: Path, harmless: Path) -> None:
    """The same is a call: findings, rows of a table, and a question."""
    found = evopolicygym.audit(serious)
    ((path, one),) = found

    assert (path, one.detector, found.has("serious")) == (serious, "own_simulator", True)
    assert found.records[0]["grade"] == "serious"
    assert not evopolicygym.audit(harmless).has("note")
    with pytest.raises(UnknownName):
        evopolicygym.audit(serious, ["nothing"])
