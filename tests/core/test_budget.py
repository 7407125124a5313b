"""The episode budget: what may be asked for, and that no run becomes impossible to end."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from evopolicygym.core.errors import RefusalStatus, RequestRefused, UsageError
from evopolicygym.core.task import BudgetRule, Limits, Task
from fakes import TOY

rules = some.builds(
    lambda episodes, least, more: BudgetRule(episodes, min(least, episodes), min(least, episodes) + more),
    some.integers(1, 200),
    some.integers(1, 50),
    some.none().map(lambda _: 0) | some.integers(0, 100),
)


def allowed(rule: BudgetRule, asked: int, remaining: int) -> bool:
    try:
        rule.check(asked, remaining)
    except RequestRefused as refused:
        return refused.status != RefusalStatus.BUDGET_INVALID
    return True


def test_the_papers_profile_is_the_default() -> None:
    """128 episodes, 16 validation and 32 held-out cases, 1024 train cases, unless somebody says otherwise."""
    plain = Task(TOY)
    found = plain.budget.episodes, plain.validation_cases, plain.held_out_cases, plain.train_cases

    assert found == (128, 16, 32, 1024)


@pytest.mark.parametrize("limit", [{"act_s": 0}, {"memory_mb": -1}, {"episode_s": math.inf}, {"load_s": math.nan}])
def test_a_limit_nothing_could_keep_to_is_refused(limit: dict[str, Any]) -> None:
    """Limits of a policy are above 0 and finite; those that aren't at their default are known by name."""
    with pytest.raises(UsageError, match=next(iter(limit))):
        Limits(**limit)
    assert Limits(act_s=2, memory_mb=512).changed == {"act_s": 2, "memory_mb": 512}


@pytest.mark.parametrize("rule", [(0,), (-1,), (4, 0), (4, 5), (4, 2, 1), (4, 1, 0), (4, 1, 4, 0)])
def test_a_budget_nothing_fits_into_is_refused(rule: tuple[int, ...]) -> None:
    """A budget under which no submission could be made is refused when it is written down."""
    with pytest.raises(UsageError):
        BudgetRule(*rule)


def test_an_empty_budget_is_named() -> None:
    """Who asks for no episodes is told that one is the least."""
    with pytest.raises(UsageError, match=r"budget.*\b1 .*\b0\b"):
        BudgetRule(0)


@pytest.mark.parametrize(
    "changes",
    [
        {"validation_cases": 65},
        {"validation_cases": 0},
        {"held_out_cases": 257},
        {"train_cases": 1025},
    ],
)
def test_a_profile_beyond_the_splits_is_refused(changes: dict[str, int]) -> None:
    """A task asks for no more cases than a split has."""
    with pytest.raises(UsageError, match=str(next(iter(changes.values())))):
        Task(TOY, **changes)  # type: ignore[arg-type]


@given(rules, some.integers(-5, 300), some.integers(1, 200))
def test_what_is_allowed_lies_between_least_and_most(rule: BudgetRule, asked: int, remaining: int) -> None:
    """A submission has at least the minimum, or all that is left, and at most the maximum and what is left."""
    remaining = min(remaining, rule.episodes)
    expected = min(rule.min_per_submission, remaining) <= asked <= min(rule.most, remaining)

    assert expected == allowed(rule, asked, remaining)


@pytest.mark.parametrize(
    ("remaining", "asked", "expected"),
    [
        (8, 1, False),
        (8, 2, True),
        (8, 4, True),
        (8, 5, False),
        (3, 3, True),
        (3, 4, False),
        (1, 1, True),
        (1, 2, False),
    ],
)
def test_the_edges_of_what_is_allowed(remaining: int, asked: int, expected: bool) -> None:  # noqa: FBT001 - a case
    """One episode more or less than the minimum, the maximum and what is left makes the difference."""
    assert expected is allowed(BudgetRule(8, 2, 4), asked, remaining)


@given(rules)
def test_every_budget_can_be_spent(rule: BudgetRule) -> None:
    """Whatever is left, there is a submission that is allowed."""
    assert all(
        any(allowed(rule, asked, left) for asked in range(1, left + 1)) for left in range(1, rule.episodes + 1, 7)
    )


@pytest.mark.parametrize(("asked", "named"), [(9, r"\b9 .*\b6\b"), (5, r"\b5 .*\b4\b"), (1, r"\b1 .*\b2\b")])
def test_a_refusal_names_the_rule_and_the_value(asked: int, named: str) -> None:
    """A refusal tells how many were asked for and how many would do."""
    with pytest.raises(RequestRefused, match=named):
        BudgetRule(8, 2, 4).check(asked, 6)
