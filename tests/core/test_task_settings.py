"""What a task was set to, as tables show it: plain values, whatever a record holds."""

from typing import Any

import pytest

from evopolicygym.core.options import KNOBS, changed_settings, format_setting
from evopolicygym.core.task import BudgetRule, FeedbackProfile, Limits, Task, TaskText
from fakes import TOY


def test_what_is_not_at_its_default() -> None:
    """Only what was changed is named, as text or number; a plain task has nothing."""
    task = Task(TOY, BudgetRule(8, max_submissions=2), limits=Limits(act_s=0.5), feedback=FeedbackProfile.TRACES)

    assert changed_settings(Task(TOY), KNOBS) == {}
    assert changed_settings(task, KNOBS) == {
        "feedback": "traces", "max_submissions": 2, "policy_limits": "act_s=0.5",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "no limit"),
        ({}, "default"),
        (Limits(), "default"),
        (Limits(memory_mb=10**400), f"memory_mb={10**400}"),
        (["b", "a"], "b a"),
        ({"a": "b"}, "{'a': 'b'}"),
        (True, True),
    ],
    ids=str,
)
def test_any_value_can_be_shown(value: Any, shown: object) -> None:
    """Whatever stands in a record is shown as text or number, and nothing raises."""
    assert format_setting(value) == shown


@pytest.mark.parametrize("text", ["other", 3, ["terse"], {}, None])
def test_a_text_that_nobody_knows_is_the_full_one(text: Any) -> None:
    """A record whose choices hold nonsense is read all the same."""
    assert Task(TOY, choices={"text": text}).text is TaskText.FULL
