"""What knobs do: differences that are known, which runs are pairs, and what is refused."""

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evopolicygym
from evopolicygym.analysis.effects.effects import KNOBS
from evopolicygym.analysis.effects.estimate import MeasuredGroup, Spread, mean_estimate
from evopolicygym.analysis.ranking.bootstrap import Block, Sample, t_quantile
from evopolicygym.analysis.ranking.decision import SMALLEST, half_width_at, holm, p_value, quantiles
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.specs import catalog
from records_of_runs import changed, real_document, write

pytestmark = pytest.mark.made_up

TASKS = ("acrobot", "reacher")
GAIN = {"acrobot": 40.0, "reacher": 5.0}
"""What 32 episodes bring over 8."""
Document = dict[str, Any]


@pytest.fixture
def document(tmp_path: Path) -> Document:
    """Return a run's document, to be changed."""
    return real_document(tmp_path / "real")


def crossed(document: Document, repeats: int = 2) -> Iterator[Document]:
    """Yield the runs of a suite that crosses budgets and films, by two agents; films have no effect at all."""
    random = np.random.default_rng(0)
    for task, agent, seed in product(TASKS, ("tuner", "random_search"), range(repeats)):
        anchor = catalog.load(task).random_anchor
        assert anchor
        same = anchor.mean + 10 + GAIN[task] / 10 * random.normal(size=8)
        more = same + GAIN[task] * (1 + 0.1 * random.normal(size=8) + 0.1 * random.normal())
        for (budget, returns), films in product(((8, same), (32, more)), (0, 3)):
            run = changed(document, task, agent, returns.tolist(), seed)
            run["run_id"] += f"-{budget}-{films}"
            run["task"]["budget"]["episodes"] = run["budget"]["episodes"] = budget
            run["task"]["films"] = films
            yield run


def laid(tmp_path: Path, documents: Iterator[Document]) -> Path:
    """Write runs; return the directory."""
    for document in documents:
        write(tmp_path / "runs", document)
    return tmp_path / "runs"


def test_known_effects(document: Document, tmp_path: Path) -> None:
    """A knob with an effect has it on each environment and over all; one without any has none, in every pair."""
    found = evopolicygym.effects(laid(tmp_path, crossed(document)))
    rows = {(one.knob, one.environment): one for one in found.effects.differences}
    budget = rows["budget", ""]

    assert (budget.level, budget.over, budget.pairs, budget.environments) == (32, 8, 16, 2)
    for task in TASKS:
        one = rows["budget", task]
        assert one.returns == pytest.approx(GAIN[task], rel=0.2)
        assert one.difference.interval
        assert one.difference.interval.low > 0
        assert one.p_adjusted is not None
        assert one.p_adjusted < 0.05
        assert rows["films", task].difference.value == 0
        assert rows["films", task].difference.spread is Spread.NOTHING
    assert budget.difference.value == pytest.approx(np.mean([rows["budget", task].difference.value for task in TASKS]))
    assert budget.difference.spread is Spread.REPEATS


def test_means_of_levels(document: Document, tmp_path: Path) -> None:
    """Where every pair is there, the difference of two levels is that of their means."""
    found = evopolicygym.effects(laid(tmp_path, crossed(document))).effects
    means = {one.level: one.mean.value for one in found.means if one.knob == "budget"}

    assert found.knobs == {"budget": (8, 32), "films": (0, 3)}
    assert found.overall[0].difference.value == pytest.approx(means[32] - means[8])
    assert max(means.values()) <= 1


def test_runs_without_a_partner(document: Document, tmp_path: Path) -> None:
    """A run whose partner is missing is in no pair, and changes no difference."""
    documents = list(crossed(document, 3))
    lonely = [one for one in documents if not (one["seed"] == 2 and one["task"]["budget"]["episodes"] == 32)]
    whole = [one for one in documents if one["seed"] < 2]
    first, second = (
        evopolicygym.effects(laid(tmp_path / name, iter(runs))).effects.overall[0]
        for name, runs in (("lonely", lonely), ("whole", whole))
    )

    assert (first.pairs, second.pairs) == (16, 16)
    assert first.difference.value == pytest.approx(second.difference.value, rel=1e-3)


def test_a_run_without_a_score_counts_as_random_play(document: Document, tmp_path: Path) -> None:
    """A level at which an agent submits nothing that plays is as bad as random play, and not left out."""
    documents = [one for one in crossed(document) if one["task"]["films"] == 0]
    for one in documents:
        if one["task"]["budget"]["episodes"] == 8:
            one["outcome"] |= {"status": "no_ok_submit", "held_out_returns": None, "score": None}
    found = evopolicygym.effects(laid(tmp_path, iter(documents))).effects

    assert [one.mean.value for one in found.means] == pytest.approx([0.0, 1.0], abs=0.1)


def test_worlds_are_compared_each_on_its_own_scale(document: Document, tmp_path: Path) -> None:
    """Half the way from random play to the best is half the way in each world, whatever the returns."""
    world = json.loads(json.dumps(asdict(catalog.worlds_of("half_cheetah")["worn"])))
    runs = []
    for (level, factor), (agent, gain), seed in product(
        (("standard", 1), ("worn", 10)), (("tuner", 100), ("half", 50)), range(2)
    ):
        run = changed(document, "half_cheetah", agent, [factor * (gain + 0.1 * case + seed) for case in range(8)], seed)
        run["run_id"] += level
        run["task"]["environment"] |= {"random_anchor": {"mean": 0.0, "standard_error": 0.01, "episodes": 256}}
        if level == "worn":
            run["task"]["environment"] |= {"world": world}
            run["task"]["choices"] = {"world": level}
        runs.append(run)
    directory = laid(tmp_path, iter(runs))
    (found,) = evopolicygym.effects([directory]).effects.differences
    (returns,) = evopolicygym.effects([directory], in_returns=True).effects.differences

    assert (found.knob, found.level, found.over, found.pairs) == ("world", "worn", "standard", 4)
    assert found.difference.value == pytest.approx(0.0)
    assert found.returns is None
    assert returns.difference.value == pytest.approx(9 * 75.85)


def test_tasks_without_anchors_are_named(document: Document, tmp_path: Path) -> None:
    """Where random play is unknown, the command that measures it is named; returns need no scale."""
    runs = list(crossed(document))
    for run in runs:
        run["task"]["environment"] |= {"random_anchor": None, "max_steps": 321}  # no task that ships
    directory = laid(tmp_path, iter(runs))

    with pytest.raises(UsageError, match="evopolicygym anchors acrobot reacher"):
        evopolicygym.effects([directory])
    assert evopolicygym.effects([directory], in_returns=True).effects.differences


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"protocol_version": "0.9"}, "protocol version"),
        ({"task": {"validation_cases": 3}}, "validation cases"),
        ({"commitment": "other cases"}, "commitment"),
    ],
)
def test_other_differences_are_refused(document: Document, tmp_path: Path, change: Document, said: str) -> None:
    """Runs that differ in more than knobs are refused with what differs, and what would work."""
    documents = list(crossed(document))
    for name, value in change.items():
        one = documents[0]
        one[name] = {**one[name], **value} if isinstance(value, dict) else value
    with pytest.raises(UsageError) as refused:
        evopolicygym.effects(laid(tmp_path, iter(documents)))

    (difference,) = (line for line in str(refused.value).splitlines() if line.startswith("- "))
    assert said in difference
    assert "budget, films" in str(refused.value)


def test_knobs_that_are_not_compared_must_agree(document: Document, tmp_path: Path) -> None:
    """Who asks for one knob of two is shown the other, with the words that compare both."""
    with pytest.raises(UsageError, match=r"films[\s\S]*--knobs budget,films"):
        evopolicygym.effects(laid(tmp_path, crossed(document)), ["budget"])


def test_nothing_to_compare(document: Document, tmp_path: Path) -> None:
    """Where no knob differs, or there is no such knob, the message says what would work."""
    alike = [one for one in crossed(document) if (one["budget"]["episodes"], one["task"]["films"]) == (8, 0)]
    runs = laid(tmp_path, iter(alike))
    with pytest.raises(UsageError, match="--cross budget=8,32"):
        evopolicygym.effects(runs)
    with pytest.raises(UnknownName, match="'budget'"):
        evopolicygym.effects(runs, ["bugdet"])


def test_harnesses_and_models_where_asked_for(document: Document, tmp_path: Path) -> None:
    """Harness and model are knobs where somebody asks: one model in two harnesses, paired by seed."""
    documents = [one for one in crossed(document) if (one["budget"]["episodes"], one["task"]["films"]) == (8, 0)]
    better = deepcopy(documents)
    for one in better:
        one["run_id"] += "-m"
        one["agent"]["model"] = "m"
        one["outcome"]["held_out_returns"] = [value + 1 for value in one["outcome"]["held_out_returns"]]
    found = evopolicygym.effects(laid(tmp_path, iter([*documents, *better])), ["harness", "model"]).effects

    assert found.knobs == {"harness": ("random_search", "tuner"), "model": ("", "m")}
    assert [one.returns for one in found.by_environment if one.knob == "model"] == pytest.approx([1.0, 1.0])


def test_an_effort_differs_for_one_agent_alone(document: Document, tmp_path: Path) -> None:
    """An effort is a knob where the same agent has two; that agents have different ones is none."""
    documents = [one for one in crossed(document) if (one["budget"]["episodes"], one["task"]["films"]) == (8, 0)]
    for one in documents:
        one["agent"]["effort"] = "low" if one["agent"]["name"] == "tuner" else "high"
    with pytest.raises(UsageError, match="--cross"):
        evopolicygym.effects(laid(tmp_path, iter(documents)))


def test_texts_are_compared_though_specs_differ(document: Document, tmp_path: Path) -> None:
    """A terse text is a spec of its own, and no other difference: the text is a knob like any other."""
    documents = [one for one in crossed(document) if one["task"]["films"] == 0]
    for one in documents:
        if one["task"]["budget"]["episodes"] == 32:
            one["task"]["choices"] = {"text": "terse"}
            one["fingerprint"]["spec_sha256"] = "11" * 32
        one["task"]["budget"]["episodes"] = one["budget"]["episodes"] = 8
    found = evopolicygym.effects(laid(tmp_path, iter(documents))).effects

    assert found.knobs == {"text": ("full", "terse")}
    assert found.overall[0].difference.value > 0


def test_as_documents_and_records(document: Document, tmp_path: Path) -> None:
    """A program gets the same as JSON and as rows, with all numbers."""
    found = evopolicygym.effects(laid(tmp_path, crossed(document)))
    text = json.loads(json.dumps(found.document))

    assert text["knobs"] == {"budget": [8, 32], "films": [0, 3]}
    assert text["differences"][0]["p_holm"] >= text["differences"][0]["p"]
    assert set(text["scales"]) == set(TASKS)
    assert len(found.records) == len(text["differences"]) == 6
    assert found.records[0]["knob"] == "budget"
    assert "Means of levels" in [table.title for table in found.arranged()]


def test_one_group_is_as_a_sample_is() -> None:
    """Of one agent on one environment, the interval is that of the leaderboard's means."""
    values = np.random.default_rng(1).normal(size=(4, 16)) + np.random.default_rng(2).normal(size=16)
    found = mean_estimate([MeasuredGroup("task", values)])
    expected = Sample((Block("cases", values),)).interval()
    assert expected

    assert found.interval
    assert (found.interval.low, found.interval.high) == pytest.approx((expected.low, expected.high), rel=2e-3)


@pytest.mark.parametrize(
    ("shape", "groups", "spread"),
    [((2, 4), ["a"], Spread.REPEATS), ((1, 4), ["a", "a"], Spread.AGENTS), ((1, 4), ["a", "b"], Spread.ENVIRONMENTS),
     ((1, 4), ["a"], Spread.CASES), ((1, 1), ["a"], Spread.NOTHING)],
)  # fmt: skip
def test_what_stands_for_repeats(shape: tuple[int, int], groups: list[str], spread: Spread) -> None:
    """Without repeats, agents stand for them, else environments; a single pair of runs decides nothing."""
    random = np.random.default_rng(0)
    found = mean_estimate([MeasuredGroup(name, random.normal(size=shape)) for name in groups])

    assert found.spread is spread
    assert (found.p is None) == (spread in {Spread.CASES, Spread.NOTHING})
    assert (found.interval is None) == (spread is Spread.NOTHING)


def test_a_repeat_that_is_missing_in_one_group() -> None:
    """A group with one repeat is as uncertain as the others are, and not taken as certain."""
    several = MeasuredGroup("a", np.random.default_rng(0).normal(size=(6, 1)))
    certain, alone = (
        mean_estimate(groups).interval for groups in ([several], [several, MeasuredGroup("b", np.ones((1, 1)))])
    )

    assert certain
    assert alone
    assert alone.high - alone.low > 1.2 * (certain.high - certain.low)


@pytest.mark.parametrize("freedom", [1.0, 2.0, 3.7, 12.0, 250.0, 1e6])
def test_quantiles(freedom: float) -> None:
    """The table of quantiles has the leaderboard's at 95 %, and p-values are its inverse."""
    table = quantiles(freedom)

    assert half_width_at(0.05, table) == pytest.approx(t_quantile(freedom), rel=2e-3)
    assert p_value(half_width_at(0.01, table), table) == pytest.approx(0.01, rel=1e-3)
    assert p_value(0.0, table) == 1
    assert p_value(1e12, table) == pytest.approx(SMALLEST)


def test_holm() -> None:
    """Holm's example: sorted, each times how many are left, never less than the one before."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


def test_every_knob_of_a_suite_is_one_of_effects() -> None:
    """What a suite can cross, effects can compare."""
    from evopolicygym.runs.suites.cross import CROSSABLE

    assert {one.name for one in CROSSABLE} <= set(KNOBS)
