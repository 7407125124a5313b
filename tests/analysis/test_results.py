"""Results of runs: read from run.json, or the journal where that knows more; what can't be had is told."""

import json
import math
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.analysis.results import load_results
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.text import printable
from evopolicygym.records.rows import RunRow
from made_up import load_result
from records_of_runs import changed, real_document, write

pytestmark = pytest.mark.made_up


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    """Return a real run's document."""
    return real_document(tmp_path / "real")


def test_a_run_is_read_from_its_journal_where_it_has_no_document(tmp_path: Path) -> None:
    """Without run.json the journal tells the same."""
    written = real_document(tmp_path / "real")
    (tmp_path / "real" / "run.json").unlink(missing_ok=True)
    from_journal = load_result(tmp_path / "real")
    from_document = load_result(write(tmp_path / "copies", written))

    assert from_journal.held_out_returns == from_document.held_out_returns == (1.0, 2.0, 3.0)
    assert all(
        getattr(from_journal, one.name) == getattr(from_document, one.name)
        for one in fields(RunRow)
        if one.name != "root"
    )


def test_an_older_document_gives_way_to_the_journal(tmp_path: Path) -> None:
    """A run.json of an earlier stage is not believed where the journal went on."""
    older = real_document(tmp_path / "real") | {"stage": "open"}
    (tmp_path / "real" / "run.json").write_text(json.dumps(older), encoding="utf-8")

    assert load_result(tmp_path / "real").score == 2.0


def test_what_a_table_wants_is_there(tmp_path: Path, document: dict[str, Any]) -> None:
    """Entry, task, tokens and effort are read; what older records lack is None or empty."""
    document["agent"] |= {"model": "m-1", "effort": "high"}
    document["usage"] = {"input": 100, "output": 20, "requests": 3}
    found = load_result(write(tmp_path / "runs", document))

    assert (
        found.agent, found.task, found.family, found.tokens, found.cost_usd,
    ) == ("scripted m-1 high", "toy", "toys", 120, None)  # fmt: skip
    assert found.score_standard_error == pytest.approx(1 / math.sqrt(3))
    assert load_result(write(tmp_path / "runs", document | {"usage": {"cost": 1.25}})).cost_usd == 1.25


def test_odd_numbers_are_numbers(tmp_path: Path, document: dict[str, Any]) -> None:
    """NaN and infinities are read as run.json spells them."""
    document["outcome"]["held_out_returns"] = ["NaN", "Inf", "-Inf"]
    found = load_result(write(tmp_path / "runs", document)).held_out_returns

    assert math.isnan(found[0])
    assert found[1:] == (math.inf, -math.inf)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "can't be read"),
        ('{"schema_version": 3}', "protocol_version: Field required"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_what_is_no_record_is_told(tmp_path: Path, text: str, said: str) -> None:
    """A broken run.json is a problem with its reason, and hides no other run."""
    write(tmp_path / "runs", real_document(tmp_path / "real"))
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "run.json").write_text(text, encoding="utf-8")
    found = load_results([tmp_path / "runs", tmp_path / "runs"])

    assert len(found.runs) == 1
    assert [said in problem.reason for problem in found.problems] == [True]


def test_an_unfinished_run_is_told(tmp_path: Path, document: dict[str, Any]) -> None:
    """A run that isn't finished is in no table, and said to be so."""
    root = write(tmp_path / "runs", document | {"stage": "selected"})

    with pytest.raises(RecordError, match="selected"):
        load_result(root)


def test_a_place_without_runs_is_told(tmp_path: Path) -> None:
    """Asking where there is nothing is a mistake."""
    with pytest.raises(UsageError, match=re.escape(str(tmp_path))):
        load_results([tmp_path])
    with pytest.raises(UsageError, match="nowhere"):
        load_results([tmp_path / "nowhere"])


def test_names_are_text(tmp_path: Path, document: dict[str, Any]) -> None:
    """Nothing in a result can act on a terminal."""
    found = load_result(write(tmp_path / "runs", changed(document, "acrobot", "\x1b[31mred\u202e\x9b\n", [1.0])))

    assert found.agent == r"\x1b[31mred\u202e\x9b\n"
    assert printable("plain é 漢") == "plain é 漢"


def test_time_put_down_is_not_counted(tmp_path: Path, document: dict[str, Any]) -> None:
    """The wall time of a run is from opening to end, less what it lay put down."""
    at = "2026-01-01T0{}:00:00.000Z"
    document["timing"] |= {
        "opened_at": at.format(0), "finished_at": at.format(6),
        "resumed_at": [at.format(5)], "stops": [{"at": at.format(1), "reason": "interrupted", "message": ""}],
    }  # fmt: skip

    assert load_result(write(tmp_path / "runs", document)).wall_seconds == 7200
