"""Each diagnostic of a run whose numbers are worked out by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from diagnosed import ACROBOT, FROM_NOTHING, USAGE, closing, known_run, recorded, submitted, unwritten
from evopolicygym.analysis.diagnostic import DIAGNOSTICS, Group, summary_table, table_over_runs
from evopolicygym.analysis.diagnostics import (
    budget,
    code,
    cost,
    edits,
    failures,
    generalisation,
    topologies,
)
from evopolicygym.analysis.run_scores import submission_history
from evopolicygym.core.errors import RecordError, UnknownName
from evopolicygym.core.event import RunClosed, SubmissionCharged
from evopolicygym.core.rollout import Failure, FailureReason
from evopolicygym.core.score import estimate
from evopolicygym.core.task import BudgetRule, Task
from evopolicygym.records.post_hoc import PostHoc, read_post_hoc, write_post_hoc
from evopolicygym.records.reader import RunRecord
from fakes import opening

pytestmark = pytest.mark.made_up


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    """Return the run of ``diagnosed.py``."""
    return recorded(tmp_path / "run", known_run())


def test_a_run_without_submissions_is_diagnosed() -> None:
    """Every diagnostic has an answer to a run in which nothing has happened yet."""
    record = unwritten([opening()])

    for name in DIAGNOSTICS.names():
        diagnostic = DIAGNOSTICS.load(name)
        found = diagnostic.measure(record)
        assert len(diagnostic.table(found).rows) == (4 if name == "cost" else 0)
        assert summary_table(name, diagnostic, found).rows


def test_the_budget(record: RunRecord) -> None:
    """Spending is told by submission: new, known and repeated cases, and when the selected checkpoint came."""
    use = budget.measure(record)

    assert [(one.episodes, one.new_cases, one.known_cases, one.repeats) for one in use.submissions] == [
        (2, 2, 0, 0),
        (2, 0, 1, 1),
        (1, 1, 0, 0),
        (3, 1, 2, 0),
        (2, 1, 0, 1),
    ]
    assert (use.spent, use.distinct_cases, use.repeated_episodes) == (10, 5, 5)
    assert (use.selected_at, use.spent_after) == (8, 2)


def test_a_selected_checkpoint_came_when_it_was_first_submitted(tmp_path: Path) -> None:
    """Selection names the latest of equals; the checkpoint itself came with the first of them."""
    events = [opening(), *submitted(0, [0], [1.0], "a"), *submitted(1, range(7), [1.0] * 7, "a")]

    use = budget.measure(recorded(tmp_path / "run", closing(events, {"a": [1.0, 1.0]}, [1.0, 1.0, 1.0])))

    assert (use.selected_at, use.spent_after) == (1, 7)


def test_edits(record: RunRecord) -> None:
    """Each submission is compared to its parent, and two cases are too few to tell whether an edit paid."""
    found = edits.measure(record)

    assert [one.edit_kind for one in found.submissions] == [
        "structural",
        "parametric",
        "structural",
        "structural",
        "revert",
    ]
    assert [one.parent for one in found.submissions] == [-1, 0, 1, 1, 0]
    assert [one.is_hit for one in found.submissions] == [None, None, False, None, None]
    assert [one.topology for one in found.submissions] == [0, 0, 1, 2, 0]
    assert found.hits == {"structural": edits.Hits(1, 0), "parametric": edits.Hits(0, 0)}
    assert found.aside == {"cosmetic": 0, "revert": 1, "repair": 0, "none": 0}


def test_edits_by_the_papers_rule(record: RunRecord) -> None:
    """Beside it each submission is compared to the one before, loaded or not, and a new best is a hit."""
    found = edits.measure(record)

    assert [one.edit for one in found.paper] == [None, "parametric", "structural", "structural", "structural"]
    assert [one.changed_files for one in found.paper] == [None, 1, 2, 2, 3]
    assert [one.is_hit for one in found.paper] == [True, False, False, True, False]
    assert found.paper_hits["structural"] == edits.Hits(3, 1)
    assert found.paper_hits["parametric"] == edits.Hits(1, 0)
    assert found.paper_hits["none"].rate is None


def test_topologies(record: RunRecord) -> None:
    """Programs without literals are counted with their episodes, what they gained, and returns to them."""
    found = topologies.measure(record)

    assert found.topologies == (
        topologies.Topology(first=0, submissions=3, episodes=6, validation_best=2.0, gain=None),
        topologies.Topology(first=2, submissions=1, episodes=1, validation_best=None, gain=None),
        topologies.Topology(first=3, submissions=1, episodes=3, validation_best=6.0, gain=4.0),
    )
    assert (found.rollbacks, found.preserved) == (1, 0.5)
    assert topologies.summary([found])["longest stay"] == 0.6


def test_what_an_agent_declares(tmp_path: Path) -> None:
    """A declared parent stands, whatever is nearer; a hypothesis and settings stand beside what came of them."""
    events = known_run()
    said = {1: {"parent": -1}, 4: {"parent": 3, "hypothesis": "faster", "settings": {"gain": 2.0}}}
    events = [
        replace(one, **said.get(one.submit_index, {})) if isinstance(one, SubmissionCharged) else one for one in events
    ]

    found = edits.measure(recorded(tmp_path / "run", events))
    last = found.submissions[4]

    assert [one.parent for one in found.submissions] == [-1, -1, 1, 1, 3]
    assert (found.submissions[1].edit_kind, last.edit_kind, last.is_declared) == ("structural", "revert", True)
    assert (last.hypothesis, last.settings) == ("faster", {"gain": 2.0})
    assert last.paired_gain == -4.0
    assert edits.table(found).columns[-1].heading == "hypothesis"
    assert edits.table(found).rows[4][-1] == "faster"


def test_edits_of_a_run_that_is_not_validated_yet() -> None:
    """Nothing is counted as a miss while its worth isn't known."""
    events = known_run()
    open_run = unwritten(events[: next(i for i, one in enumerate(events) if isinstance(one, RunClosed))])

    assert [one.is_new_best for one in submission_history(open_run.state)] == [None, None, False, None, None]


def test_a_record_without_its_checkpoints_is_diagnosed(tmp_path: Path) -> None:
    """Where checkpoints were left behind, what hangs on them is not known, and nothing else suffers."""
    record = recorded(tmp_path / "run", known_run(), {})

    assert {one.edit_kind for one in edits.measure(record).submissions} == {None}
    assert code.measure(record).selected is None


def test_code(record: RunRecord) -> None:
    """Files, lines and parts of the whole bundle are counted; a bundle's own modules are no imports."""
    found = code.measure(record)

    assert found.submissions[0] == code.Counts(
        files=2, python_files=2, data_bytes=0, lines=5, functions=1, classes=0, branches=0, imports=1, unparsable=0
    )
    assert found.submissions[2] is not None
    assert found.submissions[2].imports == 1
    assert found.selected == code.Counts(
        files=2, python_files=1, data_bytes=6, lines=3, functions=0, classes=0, branches=1, imports=0, unparsable=0
    )
    assert code.summary([found])["lines added"] == 3


def test_generalisation(record: RunRecord) -> None:
    """Means of the selected checkpoint stand beside each other; what selection lost is not known by itself."""
    found = generalisation.measure(record)

    assert found.selected is not None
    assert found.selected.train == estimate([6.0, 7.0, 8.0])
    assert found.selected.validation == estimate([5.0, 7.0])
    assert found.selected.held_out == estimate([4.0, 5.0, 6.0])
    assert (found.train_gap, found.validation_gap) == (2.0, 1.0)
    assert (found.best_other, found.regret) == (None, None)
    assert found.checkpoints[0].train == estimate([1.0, 2.0, 3.0, 3.0])


@pytest.mark.parametrize(("other", "regret"), [((7.0, 8.0, 9.0), 3.0), ((1.0, 1.0, 1.0), 0.0)])
def test_selection_regret(record: RunRecord, other: tuple[float, ...], regret: float) -> None:
    """Selection lost what the best other checkpoint is above the score, and nothing where none is."""
    write_post_hoc(record.paths, {"a": PostHoc(other, {}), "b": PostHoc((0.0, 0.0, 0.0), {})})

    found = generalisation.measure(record)

    assert found.best_other == estimate(other).mean
    assert found.regret == regret


def test_post_hoc_returns_of_other_cases_are_refused(record: RunRecord) -> None:
    """Returns that can't be of this run's held-out cases are compared to nothing."""
    write_post_hoc(record.paths, {"a": PostHoc((1.0,), {})})

    with pytest.raises(RecordError, match=r"\b1\b.* a\b.*\b3\b"):
        generalisation.measure(record)


def test_post_hoc_returns_come_back_as_written(record: RunRecord) -> None:
    """What was written is read, what is not finite included; where nothing was written there is nothing."""
    assert read_post_hoc(record.paths) is None
    late = Failure(FailureReason.TIMEOUT, "in act: too late", step=2)
    known = {"a": PostHoc((1.5, float("inf"), float("-inf")), {2: late}), "b": PostHoc((), {})}
    write_post_hoc(record.paths, known)

    assert read_post_hoc(record.paths) == known


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"checkpoints": {}}',
        '{"schema_version": 2, "checkpoints": {}}',
        '{"schema_version": 4, "checkpoints": {}}',
        '{"schema_version": 3, "checkpoints": {"a": {"returns": [1.0], "failures": {"0": {"reason": "luck"}}}}}',
        '{"schema_version": 3, "checkpoints": {"a": {"returns": ["x"], "failures": {}}}}',
        '{"schema_version": 3, "checkpoints": {"a": {"returns": [1.0]}}}',
        '{"schema_version": 3, "checkpoints": {"a": {"returns": [], "failures": {}, "more": 1}}}',
        "[" * 100_000,
    ],
)
def test_damaged_post_hoc_returns_are_refused(record: RunRecord, text: str) -> None:
    """A file that is not what it should be is named and not guessed at."""
    record.paths.post_hoc.write_text(text)

    with pytest.raises(RecordError, match=r"post_hoc\.json"):
        read_post_hoc(record.paths)


def test_failures(record: RunRecord) -> None:
    """What went wrong is told by submission; mended is what the next one loads and doesn't show."""
    found = failures.measure(record)

    assert [one.reasons for one in found.submissions] == [{}, {"error": 1}, {}, {}, {"timeout": 1}]
    assert [one.mended for one in found.submissions] == [None, False, True, None, None]
    assert [one.message for one in found.submissions] == ["", "it broke", "it can't", "", "it broke"]
    assert found.statuses == {"import_error": 1, "ok": 4}
    assert (found.episodes, found.reasons) == (9, {"error": 1, "timeout": 1})
    short = failures.summary([found])
    assert (short["faulty submissions"], short["mended next share"]) == (3, 0.5)
    assert short["failed share"] == pytest.approx(2 / 9)


def test_cost(tmp_path: Path) -> None:
    """Tokens and money are told by submission and by point of the scale from random to the best published."""
    acrobot = replace(FROM_NOTHING, **ACROBOT)
    events = [opening(task=Task(acrobot, BudgetRule(1), held_out_cases=1, validation_cases=1))]
    usage = next(event for event in known_run() if hasattr(event, "usage"))
    started = known_run()[1]
    run = closing([*events, started, *submitted(0, [0], [1.0], "a"), usage], {"a": [1.0]}, [-292.34375])

    found = cost.measure(recorded(tmp_path / "run", run))

    assert (found.tokens, found.money, found.points) == (1000, 0.5, 50.0)
    assert (found.by_submission(found.tokens), found.by_point(found.tokens)) == (1000, 20)
    assert found.by_point(found.money) == 0.01


def test_what_is_not_known_costs_nothing_known(tmp_path: Path) -> None:
    """Without a price there is no money, without published scores no points, and nothing is taken for 0."""
    found = cost.measure(recorded(tmp_path / "run", known_run(usage={"input": USAGE["input"]})))

    assert (found.input_tokens, found.output_tokens, found.tokens, found.money) == (900, None, None, None)
    assert found.points is None
    assert found.by_point(found.input_tokens) is None


def test_many_runs_are_told_by_entry_and_kind(record: RunRecord) -> None:
    """Runs of one entry on one kind of task are one row; where there are several kinds there is a row of all."""
    found = edits.measure(record)
    groups = [Group("one", "tuning"), Group("one", "synthesis"), Group("one", "tuning"), Group("other", "tuning")]

    table = table_over_runs("edits", edits.DIAGNOSTIC, [(group, found) for group in groups])
    column = [one.heading for one in table.columns].index("paper structural hits")

    assert [(*row[:3], row[column]) for row in table.rows] == [
        ("one", "synthesis", 1, 1),
        ("one", "tuning", 2, 2),
        ("one", "all", 3, 3),
        ("other", "tuning", 1, 1),
    ]


@pytest.mark.parametrize("name", DIAGNOSTICS.names())
def test_every_diagnostic_keeps_the_contract(name: str, record: RunRecord) -> None:
    """A diagnostic measures a frozen thing; every row has a cell for each column, and a summary the same names."""
    diagnostic = DIAGNOSTICS.load(name)
    found = diagnostic.measure(record)
    table = diagnostic.table(found)

    assert type(found).__dataclass_params__.frozen
    assert table.title == name
    assert {len(row) for row in table.rows} == {len(table.columns)}
    assert len(set(table.columns)) == len(table.columns)
    assert diagnostic.summary([found]).keys() == diagnostic.summary([found, found]).keys()
    assert diagnostic.measure(record) == found


def test_a_diagnostic_that_is_not_there() -> None:
    """An unknown name is answered with the nearest and with those that there are."""
    with pytest.raises(UnknownName, match=r"'edit'.*'edits'.*budget, code"):
        DIAGNOSTICS.load("edit")
