"""What is said of episodes and of the code that played them."""

from dataclasses import replace

import pytest

from evopolicygym.core.rollout import Episode, Failure, FailureReason, OtherCode, failures, other_code
from fakes import episode

PLAYED = replace(episode(0.0), terminated=False, truncated=False, success=None)
FAILED = [Failure(reason, "no") for reason in (FailureReason.ERROR, FailureReason.DIED, FailureReason.ERROR)]


@pytest.mark.parametrize(
    ("found", "ended", "succeeded"),
    [
        (PLAYED, "end unknown", None),
        (replace(PLAYED, truncated=True), "truncated", None),
        (replace(PLAYED, terminated=True, truncated=True), "terminated", None),
        (replace(PLAYED, terminated=True, success=True), "terminated, success", True),
        (replace(PLAYED, truncated=True, success=False), "truncated", False),
        (replace(PLAYED, terminated=True, success=True, failure=FAILED[0]), "failed: error: no", False),
    ],
)
def test_how_an_episode_ended(found: Episode, ended: str, succeeded: bool | None) -> None:  # noqa: FBT001 - a case
    """Its kind of end, whether it succeeded, or how the policy failed, whatever came after that."""
    assert (found.ended, found.succeeded) == (ended, succeeded)


@pytest.mark.parametrize(("count", "said"), [(0, ""), (1, "1 of 4"), (2, "2 of 4"), (3, "3 of 4")])
def test_how_many_failed_and_how_most(count: int, said: str) -> None:
    """Of all episodes, also those that are still to be played, so many failed, and the most frequent way is named."""
    found = [replace(PLAYED, failure=failure) for failure in FAILED[:count]] + [PLAYED, None, None, None][: 4 - count]
    line = failures("episodes", found)

    assert line.startswith(said)
    assert ("; " in line, "error: no" in line) == (count > 1, count > 0)
    assert ("2 of them" in line) == (count == len(FAILED))


def test_other_code_is_named_by_its_module() -> None:
    """Modules that differ, or are on one side only, are named in order; a side that lists none says nothing."""
    here = {"same": "1", "old": "a" * 64, "mine": "1.0"}
    there = {"same": "1", "old": "b" * 64, "yours": "2.0"}

    assert other_code(here, there) == (
        OtherCode("mine", "1.0", "absent"),
        OtherCode("old", "a" * 12, "b" * 12),
        OtherCode("yours", "absent", "2.0"),
    )
    assert other_code(here, here) == other_code(here, {}) == other_code({}, there) == ()
