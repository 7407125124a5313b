"""What a suite leaves to distinguish agents by: the best known scores, spreads against noise, verdicts."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import evopolicygym
from evopolicygym.analysis.headroom.headroom import Headroom, Surroundings, headroom
from evopolicygym.analysis.headroom.spread import (
    EntrySpread,
    HeadroomVerdict,
    entry_means,
    f_tail,
    least_ratio,
    verdict_of,
    verdict_of_suite,
)
from evopolicygym.analysis.published.score_tables import (
    FiguresOfTask,
    OtherFigures,
    OtherProtocol,
    PublishedFigure,
    other_figures,
)
from evopolicygym.analysis.ranking.bootstrap import Block, Sample
from evopolicygym.analysis.ranking.score_table import Cell, Entry, ScoreTable, TaskRow, score_table
from evopolicygym.core.task import TaskKind
from evopolicygym.specs.identity import EnvironmentIdentity
from records_of_runs import changed, made_result, real_document, write

pytestmark = pytest.mark.made_up

WAVE = np.array([0.0, 0.1, 0.2, 0.1])


def entry(label: str, *runs: float, wave: np.ndarray = WAVE, environment: str = "P-v1") -> Entry:
    """Return an entry whose runs have these means on the task ``push``, but for what cases add."""
    found = [
        made_result(
            "push", label, (mean + wave).tolist(), seed, environment=EnvironmentIdentity(environment, 50), budget=128
        )
        for seed, mean in enumerate(runs)
    ]
    return score_table(found, ()).entries[0]


def means(label: str, kind: str, score: float, source: str = "") -> Entry:
    """Return an entry that was published as a mean."""
    return Entry(label, kind, {"push": Cell(score, None)}, source)


def table(*entries: Entry, random: float | None = 0.0) -> ScoreTable:
    """Return the table of these entries on one task, beside uniform random."""
    anchor = () if random is None else (means("Uniform random", "anchor", random, "anchor"),)
    return ScoreTable((TaskRow("push", "robotics", TaskKind.TUNING),), (*entries, *anchor))


def elsewhere(score: float) -> Surroundings:
    """Return a figure of the same environment that was published under another protocol."""
    task = FiguresOfTask(
        "v1", "push", "mean return", OtherProtocol(128, 64, 1), (PublishedFigure("them", score),), "P-v1"
    )
    return Surroundings((), (OtherFigures("somebody", "2026-08-12", "1", (task,)),))


def test_the_best_known_score_is_of_any_kind() -> None:
    """A reference, a published mean or a run may hold the best score; the best agent stands beside it."""
    reference, agent = means("by hand", "reference", 9.0, "ours"), entry("mine", 5.0, 5.2)
    (task,) = headroom(table(reference, means("theirs", "agent", 4.0, "paper"), agent)).tasks

    assert (task.best.holder, task.best.kind) == ("by hand", "reference")
    assert (task.agent.holder, task.agent.kind) == ("mine", "run")
    assert task.left == pytest.approx((9.0 - 5.2) / 9.0)


def test_what_was_published_elsewhere_is_known_and_measures_nothing() -> None:
    """A higher figure of another protocol is the best known score, but no share of a scale is taken of it."""
    board = table(means("by hand", "reference", 9.0, "ours"), entry("mine", 5.0, 5.2))
    (alone,), (beside,) = headroom(board).tasks, headroom(board, elsewhere(90.0)).tasks
    (below,) = headroom(board, elsewhere(8.0)).tasks

    assert (beside.best.holder, beside.best.kind, beside.left) == ("them", "published elsewhere", None)
    assert beside.scale == alone.scale == 9.0
    assert beside.spread == alone.spread
    assert below == alone


def test_a_policy_that_was_brought_is_no_agent(tmp_path: Path) -> None:
    """Runs with a budget of one episode count for the best known score, and are not compared."""
    document = real_document(tmp_path / "real")
    for agent, mean, budget in (("reference", -80, 1), ("tuner", -200, 128), ("random", -400, 128)):
        run = changed(document, "acrobot", agent, [mean + case for case in range(4)])
        run["task"]["budget"]["episodes"] = run["budget"]["episodes"] = budget
        write(tmp_path / "runs", run)
    tables = evopolicygym.headroom(tmp_path / "runs").document["tables"]
    found = next(one["tasks"][0] for one in tables if one["tasks"][0]["agents"])

    assert found["best"]["holder"] == "reference"
    assert found["best_agent"]["holder"] == "tuner"
    assert set(found["agents"]) == {"random", "tuner"}


def test_runs_are_at_the_best_score_as_far_as_cases_say() -> None:
    """A run that its cases can't distinguish from the best known score is at it; another one isn't."""
    runs = (entry("one", 1.0, 0.2), entry("two", 0.95), entry("three", 0.0))
    (task,) = headroom(table(*runs, means("by hand", "reference", 1.1, "ours"), random=-9.0)).tasks

    assert task.runs == 4
    assert task.at_best == 0.5


def test_nobody_is_at_a_ceiling_of_random_play() -> None:
    """Where nothing is known to be better than uniform random, no run is at the best, and no task is spent."""
    agents = [entry(f"agent {place}", -2.0, -2.1) for place in range(3)]
    (task,) = headroom(table(*agents, random=0.0)).tasks

    assert (task.best.holder, task.scale, task.at_best) == ("Uniform random", None, None)
    assert task.verdict is HeadroomVerdict.TOO_HARD_OR_NOISY


def test_entries_on_the_same_cases_share_their_luck() -> None:
    """Cases that are hard for all alike are no noise between entries; other cases for each of them are."""
    wave = np.linspace(-5, 5, 16)
    same = entry_means([entry(name, 1.0, 1.1, wave=wave).cells["push"].sample for name in "abc"]).spread()
    blocks = [Sample((Block(name, np.array([wave + 1.0, wave + 1.1])),)) for name in "abc"]

    assert same.noise == pytest.approx(0.05)
    assert entry_means(blocks).spread().noise > 0.5


def test_an_entry_with_one_run_is_as_uncertain_as_the_others() -> None:
    """The noise of a single run is lent by those that were repeated; without any, it covers cases alone."""
    lent = entry_means([entry("a", 1.0, 3.0).cells["push"].sample, entry("b", 2.0).cells["push"].sample]).spread()
    alone = entry_means([entry(name, 1.0).cells["push"].sample for name in "ab"]).spread()

    assert lent.noise == pytest.approx(np.sqrt((2.0 / 2 + 2.0) / 2))
    assert lent.covers == "runs and cases"
    assert alone.covers == "cases"


def test_runs_of_one_each_decide_nothing_about_a_difference() -> None:
    """Single runs that differ by more than cases explain leave the verdict open, and a note says why."""
    agents = [entry(f"agent {place}", float(place)) for place in range(4)]
    found = headroom(table(*agents, random=-9.0))

    assert found.tasks[0].verdict is HeadroomVerdict.ONE_RUN_EACH
    assert found.verdict is HeadroomVerdict.ONE_RUN_EACH
    assert any("cases only" in note for note in found.notes)


def _verdict(*runs: Sequence[float], best: float = 10.0) -> tuple[HeadroomVerdict, Headroom]:
    agents = [entry(f"agent {place}", *each) for place, each in enumerate(runs)]
    found = headroom(table(*agents, means("by hand", "reference", best, "ours"), random=0.0))
    return found.tasks[0].verdict, found


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        (((9.8, 9.9, 10.0), (9.9, 10.0, 9.8), (10.0, 9.9, 9.85)), HeadroomVerdict.SPENT),
        (((9.9, 9.95, 9.92), (9.9, 9.95, 9.97), (1.0, 1.1, 1.2)), HeadroomVerdict.NEARLY_SPENT),
        (((8.0, 8.1, 8.2), (5.0, 5.1, 5.2), (1.0, 1.1, 1.2)), HeadroomVerdict.DISTINGUISHES),
        (((2.0, 2.1, 2.2), (2.2, 2.0, 2.1), (2.1, 2.2, 2.0)), HeadroomVerdict.TOO_HARD_OR_NOISY),
        (((9.9, 2.0, 9.8), (9.8, 9.9, 3.0), (2.5, 9.8, 9.9)), HeadroomVerdict.TOO_HARD_OR_NOISY),
        (((9.0, 1.0), (2.0, 3.0)), HeadroomVerdict.TOO_FEW_ENTRIES),
    ],
    ids=["all at the best", "most at the best", "apart", "equal below", "noisy", "two"],
)
def test_each_verdict(runs: Sequence[Sequence[float]], expected: HeadroomVerdict) -> None:
    """A verdict follows from whether entries differ beyond noise, and from how many runs are at the best."""
    verdict, found = _verdict(*runs)

    assert verdict is expected
    assert found.verdict is expected


def test_a_spent_suite_says_so() -> None:
    """The first note is what is to be said of all tasks together."""
    _, spent = _verdict((9.8, 9.9, 10.0), (9.9, 10.0, 9.8), (10.0, 9.9, 9.85))
    _, alive = _verdict((8.0, 8.1, 8.2), (5.0, 5.1, 5.2), (1.0, 1.1, 1.2))

    assert "none of 1" in spent.notes[0]
    assert "1 of 1" in alive.notes[0]


def test_a_large_noise_is_not_taken_for_equality() -> None:
    """A task isn't spent unless a spread of a tenth of the scale would have been seen."""
    small, large = (EntrySpread(4, noise, noise, 0.4, is_repeated=True) for noise in (0.02, 0.2))

    assert verdict_of(small, 0.4, 1.0, 1.0) is HeadroomVerdict.SPENT
    assert verdict_of(large, 0.4, 1.0, 1.0) is HeadroomVerdict.TOO_HARD_OR_NOISY
    assert verdict_of(small, 0.4, 1.0, None) is HeadroomVerdict.TOO_HARD_OR_NOISY


def test_a_suite_is_judged_by_the_tasks_that_are_known() -> None:
    """Tasks with too few agents say nothing of a suite; one whose mean over tasks differs is not yet spent."""
    unknown, spent = HeadroomVerdict.TOO_FEW_ENTRIES, HeadroomVerdict.SPENT
    noisy = HeadroomVerdict.TOO_HARD_OR_NOISY

    assert verdict_of_suite([unknown] * 9 + [spent] * 2, 0.5) is spent
    assert verdict_of_suite([spent] * 9, 0.01) is HeadroomVerdict.NEARLY_SPENT
    assert verdict_of_suite([spent, HeadroomVerdict.DISTINGUISHES], 0.5) is HeadroomVerdict.DISTINGUISHES
    assert verdict_of_suite([spent, spent, HeadroomVerdict.DISTINGUISHES], 0.5) is HeadroomVerdict.NEARLY_SPENT
    assert verdict_of_suite([noisy, noisy, noisy, HeadroomVerdict.DISTINGUISHES], 0.5) is HeadroomVerdict.IN_PART
    assert verdict_of_suite([noisy, noisy, spent], 0.5) is noisy
    assert verdict_of_suite([spent, HeadroomVerdict.ONE_RUN_EACH], None) is HeadroomVerdict.ONE_RUN_EACH
    assert verdict_of_suite([unknown], None) is unknown


@pytest.mark.parametrize(
    ("ratio", "above", "below", "expected"),
    [
        (3.0, 4, 20, 0.0432010), (20.0, 2, 1, 0.1561738), (5.0, 1, 1, 0.2677205), (2.5, 15, 2000, 0.0011542),
        (50.0, 6, 40, 4.6993e-17), (0.0, 2, 2, 1.0),
    ],
)  # fmt: skip
def test_probabilities_of_fishers_f(ratio: float, above: float, below: float, expected: float) -> None:
    """They are those of SciPy 1.17, ``scipy.stats.f.sf``."""
    assert f_tail(ratio, above, below) == pytest.approx(expected, rel=1e-3)


def test_the_least_ratio_is_that_of_chi_squared() -> None:
    """Three degrees of freedom leave 5 % below 0.3518 / 3, as tables of chi-squared have it."""
    assert least_ratio(3) == pytest.approx(0.351846 / 3, rel=2e-3)


def test_an_unknown_environment_has_no_figures() -> None:
    """Of figures whose environment has no id, none is taken for one of a task whose id nobody knows."""
    nameless = [task for task in other_figures("published").tasks if not task.id]
    (task,) = headroom(
        table(entry("mine", 1.0, 1.1, environment="")), Surroundings((), [other_figures("published")])
    ).tasks

    assert nameless
    assert task.best.holder == "mine"
