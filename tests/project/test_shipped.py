"""What ships of results: the tables are those of the records, and the records are in order and of the policies here."""

import json
from contextlib import closing
from importlib.resources import files
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

import evopolicygym
from evopolicygym.agents.kit import reference_policies
from evopolicygym.analysis.published.score_tables import AGENT, paper, shipped
from evopolicygym.analysis.results import load_results
from evopolicygym.analysis.tables.table import format_tables
from evopolicygym.cli.main import app
from evopolicygym.records.reader import read_run
from evopolicygym.records.rows import RunRow
from evopolicygym.records.verify import findings
from evopolicygym.runs.preflight import is_pinned
from evopolicygym.runs.replay import ReplayOptions, replay
from evopolicygym.specs import catalog
from places import ROOT
from specs import CORE16

RESULTS = ROOT / "results"
if not RESULTS.is_dir():
    pytest.skip("the records lie in the repository, and not in the source distribution", allow_module_level=True)
SECOND_SPLIT = RESULTS / "second_split"
"""Holds records of references on other hidden cases, which no table shows."""
EXAMPLES = RESULTS / "examples"
"""Holds evolutions that were played by hand, which no table shows."""
REFERENCES = load_results([RESULTS / "references"]).runs
RECORDS = {run.task: run.root for run in REFERENCES}
ALL_RECORDS = [*RECORDS.values(), *(run.root for run in load_results([SECOND_SPLIT]).runs)]


def _named(root: Path) -> str:
    """Return where below results/ a record lies, without its own name."""
    return root.parent.relative_to(RESULTS).as_posix()


def test_every_reference_has_a_record() -> None:
    """Each environment of Core16 has one, on 256 held-out cases."""
    assert {run.task: len(run.held_out_returns) for run in REFERENCES} == dict.fromkeys(
        CORE16.intersection(reference_policies.names()), 256
    )


@pytest.mark.nightly
@pytest.mark.parametrize("root", ALL_RECORDS, ids=_named)
def test_a_record_is_in_order(root: Path) -> None:
    """All that can be said without playing holds, its cases included; the hidden episodes' files were left out."""
    assert [one for one in findings(root) if not one.ok and not one.settled_by_replay] == []


def test_records_are_of_the_references_that_ship() -> None:
    """What was scored is what `--agent reference` plays."""
    for root in ALL_RECORDS:
        (checkpoint,) = read_run(root).paths.checkpoints.iterdir()
        found = {file.name: file.read_bytes() for file in checkpoint.iterdir()}

        assert (_named(root), found) == (_named(root), reference_policies.files_of(root.parent.name))


def test_records_of_references_are_of_every_processor() -> None:
    """They were played with pinned arithmetic."""
    assert [_named(root) for root in RECORDS.values() if not is_pinned(read_run(root).state.opened)] == []


def test_a_record_plays_again_in_part() -> None:
    """Held-out cases that are played again are those that were scored, bit for bit, on whatever Python."""
    with closing(replay(RECORDS["pusher"], ReplayOptions(1))) as again:  # type: ignore[type-var]
        assert [episode.same for episode in islice(again, 2)] == [True] * 2


@pytest.mark.nightly
@pytest.mark.parametrize("root", ALL_RECORDS, ids=_named)
def test_records_play_again(root: Path) -> None:
    """So do some of every record's."""
    with closing(replay(root, ReplayOptions(2))) as again:  # type: ignore[type-var]
        assert all(episode.same for episode in islice(again, 12))


@pytest.mark.parametrize("table", ["baselines", "references"])
def test_tables_are_those_of_the_records(table: str) -> None:
    """A shipped table of runs holds what its folder of results holds."""
    kept = sorted(json.dumps(json.loads(file.read_bytes())) for file in (RESULTS / table).rglob("run.json"))
    shipping_file = files("evopolicygym.analysis.published") / "data" / f"{table}.jsonl"
    _, *shipping = shipping_file.read_text(encoding="utf-8").splitlines()

    assert sorted(json.dumps(json.loads(line)) for line in shipping) == kept
    assert len(shipped(table).runs) == len(kept)


def test_reference_anchors_are_the_records_scores() -> None:
    """A spec's reference anchor is what the record says."""
    anchors = {task: catalog.load(task).reference_anchor for task in RECORDS}
    means = {task: anchor and anchor.mean for task, anchor in anchors.items()}

    assert means == pytest.approx({run.task: run.score for run in REFERENCES}, rel=1e-5)


def test_anchors_ship_as_the_specs_have_them() -> None:
    """The table of anchors is written from the specs."""
    random = next(one for one in shipped("anchors").entries if one.kind == "anchor")

    for task, mean in random.scores.items():
        anchor = catalog.load(task).random_anchor
        assert anchor is not None
        assert mean == pytest.approx(anchor.mean, rel=1e-5)


def test_tables_say_what_is_ours() -> None:
    """What ships as runs of this program is marked in every table, and what others published is not."""
    board = evopolicygym.leaderboard([], ["paper", "references"])
    printed = format_tables(board.arranged(per_task=True), "csv")

    assert printed.count("reference (ours)") > len(RECORDS)
    assert printed.count("(ours)") == printed.count("reference (ours)")
    assert {entry["entry"] for entry in board.document["entries"] if entry["ours"]} == {"reference"}


@pytest.mark.nightly
def test_the_table_of_everything_is_what_its_command_prints() -> None:
    """docs/measure/results.md holds a command, and what it prints."""
    text = (RESULTS.parent / "docs" / "measure" / "results.md").read_text(encoding="utf-8")
    command = text.partition("```sh\nevopolicygym ")[2].partition("\n```")[0]

    tables = text[text.index("**Held-out mean") :].removesuffix("<!-- end of table -->\n")
    assert CliRunner().invoke(app, command.split()).stdout == tables


@pytest.mark.nightly
def test_the_table_of_what_was_trained_is_that_of_the_records() -> None:
    """docs/measure/baselines.md tells the steps, the processor time and the score of every trained policy's run."""
    text = (RESULTS.parent / "docs" / "measure" / "baselines.md").read_text(encoding="utf-8")

    for run in load_results([RESULTS / "baselines" / "policy"]).runs:
        (file,) = run.root.glob("checkpoints/*/training.json")
        training = json.loads(file.read_bytes())
        trained = f"| {run.task} | {training['label']} | {training['steps']:,} | {training['processor_seconds']:,} s | "
        (row,) = (line for line in text.splitlines() if line.startswith(trained))
        assert float(row.removeprefix(trained).partition(" ")[0]) == pytest.approx(run.score, rel=1e-3)


@pytest.mark.nightly
@pytest.mark.parametrize("run", REFERENCES, ids=lambda run: run.task)
def test_the_table_of_references_is_that_of_the_records(run: RunRow) -> None:
    """docs/measure/references.md shows the score of every reference beside the best that the paper has."""
    text = (RESULTS.parent / "docs" / "measure" / "references.md").read_text(encoding="utf-8")
    best = max(entry.scores[run.task] for entry in paper().entries if entry.kind == AGENT)

    row = next(line for line in text.splitlines() if line.startswith(f"| {run.task} | ") and "±" in line)
    held_out, _, published, above = (cell.strip() for cell in row.split("|")[2:-1])
    mean = float(held_out.partition(" ")[0])
    assert (mean, float(published)) == (pytest.approx(run.score, rel=2e-3), pytest.approx(best, rel=2e-3))
    assert (float(above) > 0) == (run.score > best)


def test_a_record_holds_no_more_than_verify_reads() -> None:
    """A journal, its summary, checkpoints and feedback, which are hashed; the summary alone where no journal is."""
    parts = {"run.json", "journal.jsonl", "checkpoints", "workspace"}
    roots = [file.parent for file in RESULTS.rglob("run.json") if EXAMPLES not in file.parents]
    held = {file.relative_to(root).parts[:2] for root in roots for file in root.rglob("*") if file.is_file()}

    assert {names[0] for names in held} == parts
    assert {names[1] for names in held if names[0] == "workspace"} == {"feedback"}


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="an installed package has no examples")
def test_the_examples_are_in_tables() -> None:
    """Each example's record holds, though some were shipped without checkpoints that were not selected."""
    found = load_results([EXAMPLES])

    assert found.problems == ()
    assert len(found.runs) == len(list(EXAMPLES.rglob("run.json")))
