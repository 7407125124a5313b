"""The episode budget: what a submission may ask for, and what is left."""

from dataclasses import dataclass

from evopolicygym.core.errors import RefusalStatus, RequestRefused, UsageError


@dataclass(frozen=True, slots=True)
class BudgetRule:
    """How many train episodes a run may spend, and in what portions."""

    episodes: int = 128
    min_per_submission: int = 1
    max_per_submission: int | None = None
    """None: no more than what is left."""

    def __post_init__(self) -> None:
        """Refuse a budget that nothing could be submitted under."""
        if self.episodes < 1:
            raise UsageError(f"A budget of {self.episodes} episodes was asked for; at least 1 is needed.")
        if not 1 <= self.min_per_submission <= self.most:
            raise UsageError(
                f"Submissions of {self.min_per_submission} to {self.most} episodes were asked for under a budget of "
                f"{self.episodes}; the least must be from 1 to the most, and the most no more than the budget."
            )

    @property
    def most(self) -> int:
        """The most episodes that one submission may ask for while nothing is spent."""
        return self.episodes if self.max_per_submission is None else min(self.max_per_submission, self.episodes)

    def check(self, asked: int, remaining: int) -> None:
        """Raise ``RequestRefused`` where ``asked`` episodes can't be charged with ``remaining`` left.

        What is left below the minimum may still be spent whole: no rule makes a run impossible to end.
        """
        least = min(self.min_per_submission, remaining)
        if asked > remaining:
            raise RequestRefused(
                RefusalStatus.BUDGET_INVALID, f"{asked} episodes were asked for, but only {remaining} are left."
            )
        if asked > self.most:
            raise RequestRefused(
                RefusalStatus.BUDGET_INVALID,
                f"{asked} episodes were asked for; one submission may play at most {self.most}.",
            )
        if asked < least:
            raise RequestRefused(
                RefusalStatus.BUDGET_INVALID,
                f"{asked} episodes were asked for; one submission must play at least {least}.",
            )
