"""Knobs that a suite crosses: which runs come of it, how they are found again, what may be added, what is refused."""

from pathlib import Path
from typing import Any

import pytest

from evopolicygym.cli.play_options import parse_cross
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.runs.suites import document
from evopolicygym.runs.suites import suite as suites
from evopolicygym.runs.suites.cross import CROSSABLE
from evopolicygym.runs.suites.records import PlannedRunResult, PlannedRunVerdict, find_results
from evopolicygym.runs.suites.suite import SuiteConfig, plan
from planned_records import lay, opened
from suites import suite

LEVELS = {"budget": [2, 6], "films": [0, 3]}
SKILL = str(Path(__file__).parents[2] / "skills" / "evopolicygym")
EVERY = {
    "budget": [2, 6], "films": [0, 3], "policy_packages": [[], ["numba"]],
    "text": ["full", "terse"], "memory": ["full", "none"], "skill": ["", SKILL],
    "interface": ["standard", "permuted", "anonymous"],
    "feedback": ["full", "traces", "returns"], "finish": [False, True],
    "min_episodes": [1, 2], "max_episodes": [2, 3], "max_submissions": [1, 2], "train_cases": [8, 16],
    "policy_limits": [{"act_s": 1}, {"act_s": 2}],
    "world": ["standard", {"name": "foggy", "noise": {"observation": {"absolute": 0.02}}}],
    "model": ["a", "b"], "effort": ["low", "high"],
    "max_cost": [1.0, 2.0], "max_tokens": [10, 20], "max_time": ["1h", "2h"], "max_turns": [1, 2],
}  # fmt: skip
"""Levels of every knob."""


def crossing(runs: Path, cross: dict[str, list[Any]], **changes: Any) -> SuiteConfig:
    """Return a small suite that crosses knobs."""
    return suite(runs, "tuner", "random", cross=cross, **changes)


def test_every_combination_is_played(tmp_path: Path) -> None:
    """Each environment, agent and repeat is played at every combination of levels, all in one experiment."""
    planned = plan(crossing(tmp_path, LEVELS, environments=["cartpole", "acrobot"], repeats=2))
    cells = [
        (one.environment, one.entry, one.repeat, one.config.task.budget.episodes, one.config.task.films)
        for one in planned
    ]

    assert len(cells) == len(set(cells)) == 2 * 2 * 2 * 4
    assert {cell[3:] for cell in cells} == {(2, 0), (2, 3), (6, 0), (6, 3)}
    assert {(one.config.experiment, one.config.seed - one.repeat) for one in planned} == {("smoke", 0)}
    assert str(planned[0]) == "cartpole · tuner · budget 2, films 0 · repeat 0"


@pytest.mark.parametrize("knob", EVERY)
def test_no_cell_is_taken_for_another(tmp_path: Path, knob: str) -> None:
    """The record of one level's run is found for that level alone, whatever the knob is."""
    planned = plan(suite(tmp_path, "codex", cross={knob: EVERY[knob]}))
    lay(tmp_path / "records" / "run", [opened(planned[1])])
    came = find_results(planned, tmp_path / "records", lambda _record: True)

    assert [came[number].verdict for number in (0, 1)] == [PlannedRunVerdict.WAITING, PlannedRunVerdict.INTERRUPTED]
    assert list(came.values())[2:] == [PlannedRunResult(run) for run in planned[2:]]


def test_runs_that_were_played_without_a_cross_count(tmp_path: Path) -> None:
    """A record of exactly the same settings is a cell's, even if it was played before anything was crossed."""
    alone = plan(suite(tmp_path, "tuner", budget=6))[0]
    lay(tmp_path / "records" / "run", [opened(alone)])
    came = find_results(
        plan(suite(tmp_path, "tuner", cross={"budget": [2, 6]})), tmp_path / "records", lambda _record: True
    )

    assert [one.verdict for one in came.values()] == [PlannedRunVerdict.WAITING, PlannedRunVerdict.INTERRUPTED]


@pytest.mark.parametrize(
    ("cross", "complaint"),
    [
        ({"bugdet": [2, 6]}, "cross.bugdet"),
        ({"seed": [0, 1]}, "cross.seed"),
        ({"held_out": [8, 16]}, "cross.held_out"),
        ({"budget": []}, "cross.budget"),
        ({"budget": [2, 6, 2]}, "cross.budget"),
        ({"films": [0, 0]}, "cross.films"),
        ({"budget": 2}, "cross.budget"),
        ({"budget": ["many"]}, "cross.budget.0"),
        ({"budget": [0, 2]}, "budget"),
    ],
)
def test_what_can_not_be_crossed(tmp_path: Path, cross: dict[str, Any], complaint: str) -> None:
    """A knob that there is not, or levels that can't be, are refused with what would work."""
    with pytest.raises(UsageError) as refused:
        plan(suites.decode_suite({"environments": ["cartpole"], "cross": cross, "runs": str(tmp_path)}, "mine.toml"))

    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"budget": 2, "cross": {"budget": [2, 6]}}, "budget"),
        (
            {"agents": [{"name": "codex", "effort": "low"}], "cross": {"effort": ["low", "high"]}},
            "effort",
        ),
        (
            {"agents": [{"name": "codex", "limits": {"max_cost": 1.0}}], "cross": {"max_cost": [1.0, 2.0]}},
            "max_cost",
        ),
    ],
)
def test_a_knob_that_is_set_besides(fields: dict[str, Any], complaint: str) -> None:
    """A knob that is crossed and set at once is refused: nobody knows which was meant."""
    with pytest.raises(UsageError) as refused:
        suites.decode_suite({"environments": ["cartpole"], **fields}, "mine.toml")

    assert complaint in str(refused.value)
    assert "[cross]" in str(refused.value)


def test_a_file_and_the_flag(tmp_path: Path) -> None:
    """``--cross`` overrides what a file says of a knob, crossed or not, and leaves the file's other knobs crossed."""
    file = tmp_path / "mine.toml"
    file.write_text('environments = ["cartpole"]\nfilms = 1\n[cross]\nbudget = [2, 6]\n')
    loaded = suites.load_suite(str(file), {"cross": parse_cross(["films=0,3"])})
    part = suites.load_suite(str(file), {"cross": parse_cross(["budget=6"])})

    assert loaded.cross == {"budget": (2, 6), "films": (0, 3)}
    assert [one.config.task.budget.episodes for one in plan(part)] == [6]


@pytest.mark.parametrize(
    ("typed", "levels"),
    [
        ("budget=8,32", {"budget": [8, 32]}),
        ("max-cost=0.5,none", {"max_cost": [0.5, None]}),
        ("max_time=90,2h,none", {"max_time": [90, "2h", "none"]}),
        ("finish=true,false", {"finish": [True, False]}),
        ("feedback=full,returns", {"feedback": ["full", "returns"]}),
        ("model=gpt-5.5,8", {"model": ["gpt-5.5", "8"]}),
    ],
)
def test_levels_that_are_typed(typed: str, levels: dict[str, list[Any]]) -> None:
    """A level that is typed is of its option's type."""
    assert parse_cross([typed]) == levels


@pytest.mark.parametrize("typed", ["budget", "budget=", "bugdet=1,2", "policy_packages=a,b"])
def test_levels_that_can_not_be_typed(typed: str) -> None:
    """What is no NAME=LEVEL,LEVEL of a knob is refused with what would work."""
    with pytest.raises((UsageError, UnknownName), match=r"NAME=LEVEL|bugdet|policy_packages"):
        parse_cross([typed])


def test_levels_may_be_added(tmp_path: Path) -> None:
    """A suite may grow by levels of what it crosses, and asking for some of them forgets none."""
    for levels in ([2, 6], [6, 8], [2]):
        with document.suite_lock(suite(tmp_path, "tuner", cross={"budget": levels})):
            lay(tmp_path / "smoke" / "tuner" / str(levels), [opened(plan(suite(tmp_path, "tuner"))[0])])
    kept = document.read_document(tmp_path / "smoke")

    assert kept is not None
    assert kept.cross == {"budget": (2, 6, 8)}


@pytest.mark.parametrize("asked", [{}, {"films": [0, 1]}, {"budget": [2, 6], "films": [0, 1]}])
def test_a_suite_that_crosses_something_else(tmp_path: Path, asked: dict[str, list[int]]) -> None:
    """Who goes on with a suite crosses what it was begun crossing."""
    with document.suite_lock(suite(tmp_path, "tuner", cross={"budget": [2, 6]})):
        lay(tmp_path / "smoke" / "tuner" / "run", [opened(plan(suite(tmp_path, "tuner"))[0])])

    with pytest.raises(UsageError, match="budget"):
        document.check_document(suite(tmp_path, "tuner", **({"cross": asked} if asked else {})))


def test_knobs_are_those_that_runs_of_one_experiment_may_differ_in() -> None:
    """What decides on the cases, or doesn't touch results, is no knob."""
    names = {one.name for one in CROSSABLE}

    assert set(EVERY) == names
    assert not names & {
        "held_out",
        "validation",
        "split",
        "seed",
        "experiment",
        "workers",
        "runs",
        "isolation",
        "label",
    }
