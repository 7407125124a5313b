"""A run's summary: the same from the journal and from run.json, whatever wrote it, with one rule for each number."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.core.errors import RecordError
from evopolicygym.core.event import SCHEMA
from evopolicygym.core.run_summary import RunSummary, UsageSummary
from evopolicygym.core.strict_json import dumps
from evopolicygym.records.journal import decode_event, encode_event
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.records.run_document import decode, document_text, encode, read_summary, summary_of
from fakes import opening
from hostile_records import ESCAPES
from places import ROOT
from records_of_runs import real_document


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    """Return a real run's document."""
    return real_document(tmp_path / "real")


def summary(document: dict[str, Any]) -> RunSummary:
    """Return what a document says."""
    return decode(json.dumps(document))


def test_a_summary_is_read_as_it_was_written(tmp_path: Path, document: dict[str, Any]) -> None:
    """What is written of a journal reads as the summary of that journal."""
    record = read_run(tmp_path / "real")

    assert document == json.loads(dumps(encode(summary_of(record))))
    assert summary_of(record) == decode(document_text(record.paths)) == read_summary(record.paths)


def test_shipped_documents_are_read_and_written_again() -> None:
    """Every record that ships reads as a summary that is spelled as the record is."""
    files = sorted((ROOT / "results").rglob("run.json"))

    assert files
    for file in files:
        assert json.loads(file.read_bytes()) == json.loads(dumps(encode(decode(file.read_bytes()))))


def test_what_is_not_known_is_passed_over(document: dict[str, Any]) -> None:
    """A field that this version doesn't know hides none of the others."""
    assert summary(document | {"later": 1}) == summary(document)


@pytest.mark.parametrize(("number", "hint"), [("1", "play the run again"), (2, "play the run again"), (4, "update")])
def test_a_record_of_another_schema_is_refused(document: dict[str, Any], number: object, hint: str) -> None:
    """The message names both numbers, and what to do: an older record is played again, a newer one needs an update."""
    refused = rf"expected schema {SCHEMA}, got {number}\..*{hint}"
    with pytest.raises(RecordError, match=refused):
        summary(document | {"schema_version": number})
    first = encode_event(opening()) | {"schema_version": number}
    with pytest.raises(RecordError, match=refused):
        decode_event(first)


def test_a_record_that_names_no_schema_is_of_the_first(document: dict[str, Any]) -> None:
    """Journals began without a number, which is then 1, and had another name for it."""
    del document["schema_version"]
    with pytest.raises(RecordError, match="got 1"):
        summary(document)
    first = encode_event(opening()) | {"schema": 2}
    del first["schema_version"]
    with pytest.raises(RecordError, match="got 2"):
        decode_event(first)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (
            {"budget": {"episodes": "many", "spent": 1, "submissions": 1}},
            "budget.episodes: ",
        ),
        ({"seed": []}, "seed: "),
        ({"usage": [1]}, "usage.amounts: "),
        ({"outcome": {"held_out_returns": [1.0, "x"]}}, "outcome.held_out_returns.1: "),
        ({"timing": {"opened_at": "yesterday"}}, "timing: "),
        ({"timing": {"opened_at": "2026-01-01T00:00:00"}}, "timing: "),
        ({"schema_version": "2\x1b"}, r"got 2\x1b"),
    ],
)
def test_a_wrong_type_is_refused_by_its_place(document: dict[str, Any], change: dict[str, Any], where: str) -> None:
    """The message says where in the document something else stands than should."""
    with pytest.raises(RecordError) as refused:
        summary(document | change)

    assert where in str(refused.value)


def test_no_budget_that_can_t_be_is_read(document: dict[str, Any]) -> None:
    """A task that no run could have had is refused as what it is: a damaged record."""
    document["task"]["validation_cases"] = 0

    with pytest.raises(RecordError, match=r"run\.json.*validation cases"):
        summary(document)


def test_texts_are_shown_in_one_line(document: dict[str, Any]) -> None:
    """Nothing that a document says acts on a terminal; only the spec's prose has several lines."""
    document["run_id"] = document["agent"]["name"] = f"{ESCAPES}\n"
    document["fingerprint"]["versions"] = {ESCAPES: ESCAPES}
    document["task"]["environment"]["objective"] = f"one\n{ESCAPES}"
    found = summary(document)
    texts = [found.run_id, found.entry, *found.fingerprint.versions, *found.fingerprint.versions.values()]

    assert all(map(str.isprintable, texts))
    assert [line.isprintable() for line in found.task.environment.objective.split("\n")] == [True, True]


@pytest.mark.parametrize(
    ("usage", "tool_usage", "tokens", "cost"),
    [
        ({"input": 5.0, "output": 2.0, "cost": None}, {"input": 50.0, "output": 1.0, "cost": 0.5}, 7, 0.5),
        ({"requests": 3.0}, {"input": 50.0, "output": 1.0}, 51, None),
        ({"input": 5.0, "cost": 0.25}, None, None, 0.25),
        (None, None, None, None),
    ],
)
def test_tokens_and_cost_have_one_rule(
    tmp_path: Path, usage: Any, tool_usage: Any, tokens: float | None, cost: float | None
) -> None:
    """Each is the proxy's where that knows it, else the tool's, and what is unknown is not taken for 0."""
    real_document(tmp_path / "real")
    of_model, of_tool = (UsageSummary(one) if one else None for one in (usage, tool_usage))
    found = replace(summary_of(read_run(tmp_path / "real")), usage=of_model, tool_usage=of_tool)

    assert (found.tokens, found.cost) == (tokens, cost)


def test_a_run_without_a_record_is_refused(tmp_path: Path) -> None:
    """The message names the files that were looked for."""
    with pytest.raises(RecordError, match=r"run\.json.*journal\.jsonl"):
        read_summary(RunPaths(tmp_path))


def test_a_row_believes_a_document(document: dict[str, Any]) -> None:
    """A submission that was selected and isn't there is no error: ``verify`` finds it."""
    outcome = document["outcome"] | {"selected_submission": 99}

    assert summary(document | {"outcome": outcome}).first_reached is None
